set(libs holdfast_client holdfast_worker_link holdfast_ingress nlohmann_json::nlohmann_json)
set(timeout_s 120)
