set(libs holdfast_plan)
