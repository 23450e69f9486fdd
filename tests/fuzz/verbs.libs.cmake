set(libs holdfast_daemon)
