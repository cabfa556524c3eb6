"""What a node must offer before a pod may go there: the rules of kube-scheduler's default filters."""
