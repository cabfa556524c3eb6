"""Nodes, Namespaces, PriorityClasses and other objects of a whole cluster."""

from volsched.model.api.shared import ApiObject, Condition, LabelSelector, Record, ResourceList


class Taint(Record, frozen=True):
    """What keeps pods off a node unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Record, frozen=True):
    """What an administrator specifies of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Record, frozen=True):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSystemInfo(Record, frozen=True):
    """What a kubelet runs on."""

    operating_system: str = ""


class NodeFeatures(Record, frozen=True):
    """What the container runtime of a node can do."""

    supplemental_groups_policy: bool = False


class NodeStatus(Record, frozen=True):
    """What the kubelet reports of a node."""

    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    features: NodeFeatures = NodeFeatures()


class Node(ApiObject, frozen=True):
    """core/v1 Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class NamespaceStatus(Record, frozen=True):
    """Active or Terminating."""

    phase: str = ""


class Namespace(ApiObject, frozen=True):
    """core/v1 Namespace."""

    status: NamespaceStatus = NamespaceStatus()


class PriorityClass(ApiObject, frozen=True):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class ConfigMap(ApiObject, frozen=True):
    """core/v1 ConfigMap."""

    data: dict[str, str] = {}


class LeaseSpec(Record, frozen=True):
    """Who holds a Lease, and when it was renewed last."""

    holder_identity: str = ""
    renew_time: str = ""
    lease_transitions: int = 0


class Lease(ApiObject, frozen=True):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = LeaseSpec()


class ServiceSpec(Record, frozen=True):
    """Which pods a Service leads to."""

    selector: dict[str, str] = {}


class Service(ApiObject, frozen=True):
    """core/v1 Service."""

    spec: ServiceSpec = ServiceSpec()


class PodDisruptionBudgetSpec(Record, frozen=True):
    """How many pods must stay."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Record, frozen=True):
    """How many pods may go now."""

    disruptions_allowed: int = 0
    desired_healthy: int | None = None
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(ApiObject, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
