set(libs hf_store)
set(timeout_s 120)
