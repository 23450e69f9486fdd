set(libs holdfast_core)
set(timeout_s 60)
