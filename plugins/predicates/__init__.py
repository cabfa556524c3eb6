"""The rules of kube-scheduler's default filters, which decide whether a node is feasible for a pod."""
