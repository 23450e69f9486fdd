set(libs hf_engine nlohmann_json::nlohmann_json)
