set(libs hf_chat)
set(timeout_s 60)
