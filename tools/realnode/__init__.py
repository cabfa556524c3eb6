"""One real Kubernetes node on this machine, for tests of what only a kubelet and a container engine can show.

    parts       what a node is made of: Debian's packages, a kubelet, a base image; found or made once, in the cache
    images      images built from Dockerfiles as they are, with buildah
    namespaces  a process in namespaces of its own (mounts, network, names, processes), and how to enter them
    node        what runs inside: etcd, kube-apiserver, kube-controller-manager, containerd, kubelet
    __main__    up, down, enter, run

All of it lives in namespaces and ends with one process. It takes root, and changes nothing on the machine but one
folder in each cgroup hierarchy, which goes with it.
"""
