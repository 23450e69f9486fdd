set(libs holdfast_model nlohmann_json::nlohmann_json)
set(timeout_s 300)
