set(libs holdfast_text)
