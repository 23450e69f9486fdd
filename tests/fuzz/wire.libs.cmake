set(libs hf_wire)
