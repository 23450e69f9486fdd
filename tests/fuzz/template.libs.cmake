set(libs holdfast_jinja)
