set(libs holdfast_gateway)
set(timeout_s 120)
