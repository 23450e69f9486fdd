set(libs hf_ingress)
