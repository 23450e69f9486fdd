set(libs hf_gateway)
set(timeout_s 120)
