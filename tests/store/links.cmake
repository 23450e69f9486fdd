set(libs holdfast_store holdfast_link)
set(timeout_s 120)
