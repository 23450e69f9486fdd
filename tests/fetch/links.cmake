set(libs holdfast_fetch holdfast_remote_node)
