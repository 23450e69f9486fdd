set(libs holdfast_grammar holdfast_chat holdfast_engine nlohmann_json::nlohmann_json)
set(timeout_s 300)
