set(libs hf_client hf_worker_link hf_ingress nlohmann_json::nlohmann_json)
set(timeout_s 120)
