"""Cases of Kubernetes' own gangs on a real control plane, and the stage on which a scheduler plays them."""
