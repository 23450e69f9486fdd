set(libs hf_link)
