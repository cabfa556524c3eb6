"""Allocation of ResourceClaims: which devices a pod's claims would get on a node. Pure, shared by plugins.

The rules, and the order in which candidates are tried, are those of k8s.io/dynamic-resource-allocation v0.36 (KEPs
4381, 4815, 4816, 5004, 5007, 5027, 5055, 5075), so that the same devices come out as kube-scheduler would choose.
"""
