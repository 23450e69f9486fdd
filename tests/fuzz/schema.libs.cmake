set(libs holdfast_grammar)
