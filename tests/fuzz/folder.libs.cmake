set(libs hf_plan)
