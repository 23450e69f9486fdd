set(libs holdfast_sandbox)
set(timeout_s 120)
