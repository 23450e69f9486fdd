set(libs holdfast_text holdfast_jinja holdfast_profile)
