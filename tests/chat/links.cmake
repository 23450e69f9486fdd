set(libs holdfast_chat)
set(timeout_s 60)
