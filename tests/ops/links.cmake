set(libs holdfast_base nlohmann_json::nlohmann_json)
set(timeout_s 1200)
