set(libs hf_grammar)
