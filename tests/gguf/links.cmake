set(libs holdfast_model_tools)
set(timeout_s 120)
