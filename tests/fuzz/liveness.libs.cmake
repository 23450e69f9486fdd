set(libs holdfast_wire)
