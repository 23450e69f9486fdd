set(libs holdfast_sampling holdfast_grammar)
