"""The rules of kube-scheduler's default filters: what a node must have before a pod may go there."""
