set(libs holdfast_cli holdfast_gateway)
set(timeout_s 600)
