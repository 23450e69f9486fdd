set(libs hf_text)
