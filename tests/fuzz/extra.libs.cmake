set(libs hf_sampling hf_grammar)
