set(libs hf_bench_matrix hf_bench_drafts hf_bench_neighbours nlohmann_json::nlohmann_json)
set(timeout_s 300)
