set(libs hf_cli)
set(timeout_s 600)
