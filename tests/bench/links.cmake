set(libs hf_bench_matrix nlohmann_json::nlohmann_json)
set(timeout_s 300)
