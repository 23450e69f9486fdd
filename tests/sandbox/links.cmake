set(libs hf_sandbox)
set(timeout_s 120)
