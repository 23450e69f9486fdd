set(libs hf_core)
set(timeout_s 60)
