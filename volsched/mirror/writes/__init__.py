"""What was refused after it was decided: bindings that are tried again, and pods that a kubelet turned away."""
