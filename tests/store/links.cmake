set(libs hf_store hf_link)
set(timeout_s 120)
