set(libs holdfast_ingress)
