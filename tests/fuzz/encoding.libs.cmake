set(libs hf_gateway)
