set(libs holdfast_weight_cache)
set(timeout_s 60)
