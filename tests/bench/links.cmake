set(libs hf_base nlohmann_json::nlohmann_json)
set(timeout_s 300)
