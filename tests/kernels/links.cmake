set(libs holdfast_backends nlohmann_json::nlohmann_json)
set(timeout_s 300)
