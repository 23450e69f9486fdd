set(libs holdfast_bench_matrix holdfast_bench_drafts holdfast_bench_neighbours nlohmann_json::nlohmann_json)
set(timeout_s 300)
