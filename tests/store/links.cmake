set(libs holdfast_store holdfast_daemon)
set(timeout_s 120)
