set(libs hf_images)
set(timeout_s 60)
