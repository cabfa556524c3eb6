"""What verbs work on: flags that they share, manifests, a cluster, a configuration."""
