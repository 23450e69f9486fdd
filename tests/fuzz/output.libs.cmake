set(libs holdfast_chat)
