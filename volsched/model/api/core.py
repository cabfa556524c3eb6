"""Nodes, Namespaces, PriorityClasses and other objects of a whole cluster."""

from volsched.model.api.shared import ApiObject, Condition, LabelSelector, Record, ResourceList


class Taint(Record, frozen=True):
    """A taint: it keeps pods without a toleration off a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Record, frozen=True):
    """The spec of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Record, frozen=True):
    """An image that a node already has."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeSystemInfo(Record, frozen=True):
    """The system information of a node."""

    operating_system: str = ""


class NodeFeatures(Record, frozen=True):
    """The features of a node's container runtime."""

    supplemental_groups_policy: bool = False


class NodeStatus(Record, frozen=True):
    """The status of a node."""

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
    """The selector of a Service."""

    selector: dict[str, str] = {}


class Service(ApiObject, frozen=True):
    """core/v1 Service."""

    spec: ServiceSpec = ServiceSpec()


class PodDisruptionBudgetSpec(Record, frozen=True):
    """The spec of a PodDisruptionBudget."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Record, frozen=True):
    """The allowed disruptions of a PodDisruptionBudget."""

    disruptions_allowed: int = 0
    desired_healthy: int | None = None
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(ApiObject, frozen=True):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
