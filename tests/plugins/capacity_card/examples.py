"""The examples of the two design documents of capacity-card as manifests, with the fields' real names."""

from __future__ import annotations

QUEUE_A = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: queue-a
  annotations:
    volcano.sh/card.quota: |
      {
        "NVIDIA-A100": 10,
        "NVIDIA-H100": 5,
        "NVIDIA-A100/mps-80g*1/8": 16
      }
spec:
  capability:
    cpu: "100"
    memory: "200Gi"
"""

CR_QUEUE1 = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: cr-queue1
  annotations:
    volcano.sh/card.quota: >-
      {"NVIDIA-H200":3,"NVIDIA-H800":2,"NVIDIA-GeForce-RTX-4090":2,"NVIDIA-GeForce-RTX-4090-D":1,
      "NVIDIA-H800/mps-80g*1/2":2,"NVIDIA-H200/mig-1g.18gb-mixed":3,"NVIDIA-H200/mig-3g.71gb-mixed":1}
spec:
  weight: 1
  capability:
    cpu: 4
    memory: 4Gi
  guarantee:
    resource:
      cpu: 2
      memory: 2Gi
"""

TEAM_A = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: team-a
  annotations:
    volcano.sh/card.quota: '%(quota)s'
spec:
  capability:
    cpu: "100"
    memory: "500Gi"
"""

AFFINITY = """
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - key: nvidia.com/gpu.product
                    operator: In
                    values: [%(products)s]
"""

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: %(name)s
  annotations:
    volcano.sh/card.request: '{"%(card)s": %(total)s}'
spec:
  schedulerName: volcano
  queue: %(queue)s
  minAvailable: %(minimum)s
  policies:
  - action: CompleteJob
    event: TaskCompleted
  tasks:
    - replicas: %(replicas)s
      name: worker
      template:
        metadata:
          annotations:
            volcano.sh/card.name: "%(card)s"
        spec:
          restartPolicy: Never
%(affinity)s
          containers:
            - name: trainer
              image: training:latest
              resources:
                limits:
                  %(resource)s: 1
                requests:
                  %(resource)s: 1
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: %(name)s
spec:
  replicas: %(replicas)s
  selector:
    matchLabels:
      app: inference
  template:
    metadata:
      labels:
        app: inference
      annotations:
        volcano.sh/card.name: "%(card)s"
        scheduling.volcano.sh/queue-name: "cr-queue1"
    spec:
%(affinity)s
      containers:
        - name: inference
          image: inference:latest
          resources:
            limits:
              nvidia.com/gpu: 1
            requests:
              nvidia.com/gpu: 1
      schedulerName: volcano
"""

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: %(name)s
  labels:
    nvidia.com/gpu.product: "%(product)s"
    nvidia.com/gpu.count: "8"
    nvidia.com/gpu.memory: "%(memory)s"
    nvidia.com/gpu.replicas: "%(replicas)s"
status:
  allocatable: {cpu: "64", memory: 512Gi, pods: "110", %(resources)s}
"""

FULL_CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
    - name: priority
    - name: gang
      enablePreemptable: false
    - name: conformance
- plugins:
    - name: drf
      enablePreemptable: false
    - name: predicates
    - name: capacity-card
      arguments:
        cardUnlimitedCpuMemory: true
    - name: nodeorder
    - name: binpack
"""

SMALL_CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
  - plugins:
      - name: capacity-card
        arguments:
          cardUnlimitedCpuMemory: true
          nodeOrderWeight: %(weight)s
"""


def node(name: str, product: str, resources: str, memory: int = 81920, replicas: int = 8) -> str:
    """A node; ``resources`` as they stand in a flow mapping."""
    return NODE % {"name": name, "product": product, "resources": resources, "memory": memory, "replicas": replicas}


def job(
    name: str,
    card: str,
    *,
    total: int,
    replicas: int,
    minimum: int = 1,
    queue: str = "queue-a",
    products: str = "",
    resource: str = "nvidia.com/gpu",
) -> str:
    """A Volcano Job; ``products`` are those that its node affinity names."""
    affinity = AFFINITY % {"products": products} if products else ""
    return JOB % {
        "name": name, "card": card, "total": total, "replicas": replicas, "minimum": minimum, "queue": queue,
        "affinity": affinity, "resource": resource,
    }  # fmt: skip


def deployment(name: str, card: str, *, replicas: int = 2, products: str = "") -> str:
    """A Deployment; ``products`` are those that its node affinity names."""
    affinity = (AFFINITY % {"products": products}).replace("\n    ", "\n") if products else ""
    return DEPLOYMENT % {"name": name, "card": card, "replicas": replicas, "affinity": affinity}
