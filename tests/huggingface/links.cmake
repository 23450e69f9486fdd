set(libs holdfast_model_tools holdfast_engine nlohmann_json::nlohmann_json)
set(timeout_s 120)
