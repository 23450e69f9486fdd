set(libs holdfast_gateway)
