"""Public words: those of Kubernetes, of Volcano, of vendors and of volsched that decide something.

Everything else is replaced. So a name is here because some rule reads it, and because it is in a public document: the
reference of Kubernetes 1.36 ("Well-Known Labels, Annotations and Taints", API reference), the documents of the vendors
whose labels and resources ``capacity-card`` reads, those of DRA drivers and CSI drivers, or ours.

Names of objects are public in a few cases only. Words of cards and of resources are public inside the names of those.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from volsched.model.cards.names import MGPU_CORE, MGPU_MEMORY, MGPU_NODE_TYPE, MGPU_POLICY
from volsched.model.cards.vendors import INSTANCE_TYPE, VENDORS
from volsched.model.pods.task import ADMISSION_GATE
from volsched.model.pods.workload import LABEL
from volsched.model.volumes import ZONE_LABELS

# --- names of objects -------------------------------------------------------------------------------------------------

NAMES: Final = frozenset(
    {
        *("default", "root"),  # queues and a namespace that are there without being made
        *("kube-system", "system-cluster-critical", "system-node-critical"),  # which the plugin conformance spares
        *("volsched", "volcano", "default-scheduler"),
        *("true", "false", "yes"),  # what labels and annotations of Kubernetes say
        *("0.0.0.0", "::"),  # noqa: S104 - a value of hostIP; nothing listens here
        *("metadata.name", "kubernetes.io/no-provisioner"),
        *("gpu.nvidia.com", "compute-domain.nvidia.com", "gpu.amd.com", "gpu.intel.com", "gaudi.intel.com"),
        *("tpu.google.com", "neuron.aws.com", "dra.net", "dra.cpu", "dra.memory"),
        *("ebs.csi.aws.com", "efs.csi.aws.com", "fsx.csi.aws.com", "pd.csi.storage.gke.io"),
        *("filestore.csi.storage.gke.io", "local.csi.openebs.io", "topolvm.io", "nfs.csi.k8s.io"),
        *("disk.csi.azure.com", "file.csi.azure.com", "blob.csi.azure.com", "diskplugin.csi.alibabacloud.com"),
        *("rbd.csi.ceph.com", "cephfs.csi.ceph.com", "cinder.csi.openstack.org", "csi.vsphere.vmware.com"),
        *("driver.longhorn.io", "rancher.io/local-path"),
    }
)  # fmt: skip
"""Names of objects, schedulers, drivers and provisioners."""

_TASK_WITHOUT_NAME: Final = re.compile(r"default[0-9]{1,3}")


def is_name(text: str) -> bool:
    """True if a name stays; that of a Volcano Job's task without a name is made by its controller."""
    return text in NAMES


def is_word_of_names(word: str) -> bool:
    """True if a word stays inside the name of an object."""
    return _TASK_WITHOUT_NAME.fullmatch(word) is not None


# --- keys of labels, taints and annotations; resources ----------------------------------------------------------------

DOMAINS: Final = frozenset(
    {
        *("kubernetes.io", "k8s.io", "beta.kubernetes.io", "node.kubernetes.io", "topology.kubernetes.io"),
        *("failure-domain.beta.kubernetes.io", "node-role.kubernetes.io", "node-restriction.kubernetes.io"),
        *("app.kubernetes.io", "apps.kubernetes.io", "batch.kubernetes.io", "statefulset.kubernetes.io"),
        *("pod-security.kubernetes.io", "scheduling.k8s.io", "resource.kubernetes.io", "storage.k8s.io"),
        *("deviceclass.resource.kubernetes.io", "cluster-autoscaler.kubernetes.io", "feature.node.kubernetes.io"),
        *("resource.k8s.io", "apiextensions.k8s.io", "policy", "apps", "batch", "kubeflow.org"),
        *("ray.io", "jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "sparkoperator.k8s.io", "argoproj.io"),
        *("training.kubeflow.org", "rdma"),
        *("volcano.sh", "batch.volcano.sh", "scheduling.volcano.sh", "flow.volcano.sh", "volsched.io"),
        *("nvidia.com", "amd.com", "beta.amd.com", "intel.com", "gpu.intel.com", "habana.ai", "huawei.com"),
        *("google.com", "cloud.google.com", "aws.amazon.com", "k8s.amazonaws.com", "eks.amazonaws.com"),
        *("karpenter.sh", "karpenter.k8s.aws", "karpenter.azure.com", "kubernetes.azure.com", "aliyun.accelerator"),
        *("vke.volcengine.com", "machine.cluster.vke.volcengine.com", "cambricon.com", "hygon.com"),
    }
)  # fmt: skip
"""Public domains and groups of the API. The name behind one may be private."""

_NODE_TAINTS: Final = (
    *("not-ready", "unreachable", "unschedulable", "memory-pressure", "disk-pressure", "pid-pressure"),
    *("network-unavailable", "out-of-service", "exclude-disruption"),
)
_GPU: Final = ("product", "count", "memory", "replicas", "sharing-strategy", "present", "family", "machine")

KEYS: Final = frozenset(
    {
        *("cpu", "memory", "pods", "storage", "ephemeral-storage"),
        *("nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu", LABEL),
        *(MGPU_CORE, MGPU_MEMORY, MGPU_POLICY, MGPU_NODE_TYPE),
        *("aws.amazon.com/neuroncore", "aws.amazon.com/neurondevice", "volcano.sh/vgpu-number"),
        *("volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores", "volcano.sh/gpu-memory", "volcano.sh/gpu-number"),
        *(f"nvidia.com/gpu.{name}" for name in _GPU),
        *("nvidia.com/mig.strategy", "nvidia.com/mig.capable", "nvidia.com/cuda.driver.major", "gpu.intel.com/product"),
        *(resource for resources, _ in VENDORS for resource in resources),
        *(key for _, labels in VENDORS for label in labels for key in label.keys),
        *(f"kubernetes.io/{name}" for name in ("hostname", "arch", "os", "metadata.name", "config.mirror")),
        *("beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", INSTANCE_TYPE),
        *ZONE_LABELS,
        *(f"node.kubernetes.io/{name}" for name in _NODE_TAINTS),
        *(f"node-role.kubernetes.io/{name}" for name in ("control-plane", "master", "worker", "node")),
        *("node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/windows-build"),
        *(f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "component", "part-of")),
        "app.kubernetes.io/managed-by",
        *("batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"),
        *("batch.kubernetes.io/job-completion-index", "statefulset.kubernetes.io/pod-name"),
        *("apps.kubernetes.io/pod-index", "pod-template-hash"),
        *("controller-revision-hash", "pod-template-generation", "job-name", "controller-uid"),
        *(f"volcano.sh/{name}" for name in ("job-name", "job-namespace", "job-version", "queue-name", "task-index")),
        *(f"volcano.sh/{name}" for name in ("task-spec", "preemptable", "partition-id", "revocable-zone")),
        *("metadata.name", ADMISSION_GATE),
    }
)  # fmt: skip
"""Keys of labels and taints, gates, and resources."""

_RESOURCES: Final = re.compile(
    r"nvidia\.com/mig-[1-7]g\.[0-9]{1,3}gb|hugepages-[0-9]{1,4}[KMG]i|amd\.com/[cdqst]px_nps[0-9]", re.ASCII
)
_PROFILE: Final = re.compile(r"[1-7]g\.[0-9]{1,3}gb", re.ASCII)

_WORDS_OF_KEYS: Final = re.compile(
    r"[a-z]?(gpu|npu|tpu|xpu|hpu|ipu|ppu|mlu|gcu|dcu|cuda|fpga)(s|num|mem|share|memory|cores?)?|gpu[0-9]{1,4}"
    r"|ascend|gaudi|accelerators?|neuron(core|device)?|qaic"
    r"|mem|memory|cores?|percentage|count|device|product|replicas|sharing|strategy|shared|monitoring"
    r"|mig|mps|mgpu|mixed|time|slicing|[0-9]{1,4}g?b?",
    re.ASCII | re.IGNORECASE,
)
"""Words in names of resources and of shared cards that rules read (capacity-card)."""


def is_key(text: str) -> bool:
    """True if the key of a label or taint, or the name of a resource, stays as a whole."""
    return text in KEYS or _RESOURCES.fullmatch(text) is not None


def is_domain(text: str) -> bool:
    """True if the domain of a key, or a group of the API, stays."""
    return text in DOMAINS or text in NAMES


def is_word_of_keys(word: str) -> bool:
    """True if a word stays behind the domain of a key or a resource, or behind the model of a card."""
    return _WORDS_OF_KEYS.fullmatch(word) is not None


# --- cards ------------------------------------------------------------------------------------------------------------

_MAKERS: Final = frozenset(
    (
        "nvidia",
        "tesla",
        "geforce",
        "quadro",
        "amd",
        "instinct",
        "radeon",
        "intel",
        "habana",
        "gaudi",
        "gaudi2",
        "gaudi3",
    )
)
_MODEL: Final = re.compile(
    r"(gb|gh|[abhlptvk])[0-9]{1,4}[a-z]{0,2}|mi[0-9]{2,3}[axv]?|rtx|gtx|titan|[2-9]0[5-9]0|[2-9][05]00"
    r"|sxm[0-9]?|pcie|nvl|oam|hbm[0-9]e?|dgxs?|hgx|mig|shared|super|ti|d|pro|max|data|center|gpu|flex|[0-9]{2,3}gb?|"
    r"[1-7]g\.[0-9]{1,3}gb",
    re.ASCII,
)
_BETWEEN: Final = re.compile(r"[-_ ]+")
_OTHER_CARDS: Final = re.compile(r"Ascend[0-9]{3}[A-Z]?[0-9]?|tpu-v[0-9]{1,2}[a-z]?(-(lite-)?(podslice|device|slice))?")


@cache
def is_card(text: str) -> bool:
    """True if a text is only the name of a model on the market: its maker, and words that makers use."""
    if _OTHER_CARDS.fullmatch(text):
        return True
    words = [word for word in _BETWEEN.split(text.lower()) if word]
    return len(words) > 1 and words[0] in _MAKERS and all(word in _MAKERS or _MODEL.fullmatch(word) for word in words)


def is_profile(text: str) -> bool:
    """True if a text is the profile of a MIG slice."""
    return _PROFILE.fullmatch(text) is not None


# --- devices ----------------------------------------------------------------------------------------------------------

ATTRIBUTES: Final = frozenset(
    {
        *("productName", "model", "profile", "memory"),  # which the plugin fragmentation, and quotas of memory, read
        *("resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/pciBusID", "resource.kubernetes.io/numaNode"),
        *("pcieRoot", "pciBusID", "numaNode"),
    }
)
"""Names of attributes and capacities of devices."""


# --- values of fields -------------------------------------------------------------------------------------------------


def _listed(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


VALUES: Final = _listed(
    # phases and states
    "Pending Running Succeeded Failed Unknown Active Terminating Inqueue Completed Available Bound Released Lost",
    "Open Closed Closing Aborting Aborted Restarting Completing Terminated",
    # statuses and types of conditions, and reasons that are read
    "True False Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable PodScheduled Initialized",
    "ContainersReady DisruptionTarget PodResizePending PodResizeInProgress PodReadyToStartContainers Complete",
    "Suspended SuccessCriteriaMet FailureTarget Scheduled Unschedulable Reserved QueueKept NotReserved QueueNotKept",
    "LostPods",
    "volsched.io/Ungated volsched.io/Evicted PodGroupInitiallyScheduled PodGroupScheduled Infeasible Deferred",
    "QueueAllocated NotEnoughResources NotEnoughPods NotEnoughTasks QuotaExceeded NotAdmitted QueueNotFound",
    "QueueClosed QueueNotAllowed QueueInvalid PodGroupNotFound GangIncomplete ClaimNotReady InvalidField",
    "SchedulingGated SchedulerError Schedulable Evicted Preempted OutOfcpu OutOfmemory OutOfpods NodeAffinity Error",
    "OOMKilled",
    # policies
    "Always IfNotPresent Never OnFailure PreemptLowerPriority Immediate WaitForFirstConsumer Delete Retain Recycle",
    "DoNotSchedule ScheduleAnyway Honor Ignore RollingUpdate Recreate OrderedReady Parallel Indexed NonIndexed",
    "NoSchedule PreferNoSchedule NoExecute In NotIn Exists DoesNotExist Gt Lt Equal RestartAllContainers",
    "TCP UDP SCTP Filesystem Block ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod",
    "ExactCount All FromClaim FromClass Pod PodGroup hard soft fifo traverse any all online offline",
    "none best-effort restricted single-numa-node most-allocated least-allocated fixed-share guaranteed-burst-share",
    "Merge Strict native-burst-share mps time-slicing mgpu mig single",
    # architectures and systems
    "amd64 arm64 arm 386 ppc64le s390x riscv64 linux windows",
    # events and actions of Volcano Jobs
    "* AbortJob RestartJob RestartTask RestartPod RestartPartition TerminateJob CompleteJob ResumeJob SyncJob",
    "EnqueueJob SyncQueue OpenQueue CloseQueue PodFailed PodEvicted PodPending PodRunning TaskCompleted TaskFailed",
    "JobUnknown OutOfSync CommandIssued JobUpdated",
    "svc ssh env pytorch tensorflow mpi ray hcclrank",
    # kinds and plurals in references
    "Pod Node Job CronJob Deployment ReplicaSet StatefulSet DaemonSet ReplicationController PodGroup Workload pods",
    "podgroups PersistentVolumeClaim PersistentVolume VolumeSnapshot Queue JobFlow PyTorchJob TFJob MPIJob XGBoostJob",
    "PaddleJob RayCluster RayJob JobSet LeaderWorkerSet SparkApplication TrainJob ResourceClaim ConfigMap Service",
    # features that nodes declare
    "RestartAllContainersOnContainerExits UserNamespacesHostNetworkSupport",
    "foregroundDeletion orphan resource.kubernetes.io/delete-protection",
)
"""The values of fields of the API with a few possible words."""


def is_value(text: str) -> bool:
    """True if a text is one of the words of API fields."""
    return text in VALUES
