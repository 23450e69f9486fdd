set(libs hf_grammar hf_chat nlohmann_json::nlohmann_json)
set(timeout_s 300)
