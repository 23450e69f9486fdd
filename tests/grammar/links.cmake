set(libs hf_grammar hf_chat hf_engine nlohmann_json::nlohmann_json)
set(timeout_s 300)
