set(libs hf_chat)
