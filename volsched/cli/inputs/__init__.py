"""The inputs of verbs: common flags, manifests, a cluster, a configuration."""
