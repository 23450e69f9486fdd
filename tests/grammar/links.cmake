set(libs hf_grammar nlohmann_json::nlohmann_json)
set(timeout_s 300)
