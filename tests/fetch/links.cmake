set(libs holdfast_fetch)
