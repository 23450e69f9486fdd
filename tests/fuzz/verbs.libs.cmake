set(libs holdfast_link)
