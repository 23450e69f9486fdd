set(libs hf_cli hf_gateway)
set(timeout_s 600)
