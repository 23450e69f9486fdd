set(libs hf_bench_matrix hf_bench_drafts nlohmann_json::nlohmann_json)
set(timeout_s 300)
