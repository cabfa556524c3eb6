"""repair: a gang that has lost a pod has precedence, and the room of the pod is kept for a while."""
