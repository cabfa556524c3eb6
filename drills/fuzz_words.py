"""Words of which inputs are made: what stands in fields, annotations and labels, as it is meant, and what is odd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

ODD_TEXTS: Final = (
    *("", " ", "\t\n", "-", ".", "/", "//", "a/b/c", "*", "%", "null", "true", "NaN", "Infinity", "-0", "0x10", "1e9", "\x00"),
    *("ä", "日本", "٣", "²", "\u202e", "\u200b", "\ufeff", "\U0001f600", "e\u0301", "ﬁ", "İ", "ß"),
    *("x" * 63, "x" * 64, "x" * 253, "x" * 300, "9" * 20, "9" * 400, "9" * 5000, "{", "}", "[", "[]", "{}", '""', "'"),
    *("\\", "\\u0000", "%s", "{0}", "${x}", "<script>", "a,b", "a|b", "a=b", "a=b,c", ",", "|", "||", "=", "a" * 20_000),
)
QUANTITIES: Final = (
    *("0", "1", "2", "8", "100m", "1500m", "64Gi", "256Mi", "1Ki", "1e3", "1E3", "1.5", ".5", "5.", "+1", "-1", "1n", "1u"),
    *("1k", "1M", "1G", "1T", "1P", "1E", "1Ei", "9Ei", "0.0000000001", "1e1000", "1e-1000", "1e1001", "1e99999", "+", "."),
    *("Ki", "m", "1KiB", "1 Gi", " 1", "1_000", "0x1", "1e", "--1", "1e+3", "9223372036854775807", "9" * 999, "9" * 1001),
)
CARD: Final = "NVIDIA-A100-80GB"
LISTS_OF_CARDS: Final = (
    *(CARD, f"{CARD}|NVIDIA-H100", "A|B|A", "|", " A | B ", '{"NVIDIA-A100-80GB": 8}', '{"A":1,"A":2}', '{"A|B": 2}', "{}"),
    *('{"A": 1.5}', '{"A": "1"}', '{"A": -1}', '{"A": NaN}', '{"A": 1e400}', '{"": 1}', "[]", "8", '{"A": null}', '{"A": true}'),
    *('{"\\ud800": 1}', '{"A": 99999999999999999999999999}', '{"NVIDIA-A100-80GB/mps-80g*1/8": 8}', '{"A": {"B": 1}}'),
)
NAMESPACES: Final = (
    *("vision, language", "vision", "team=vision", "team in (a, b)", "team=vision,tier!=prod", "!team", "*", "", ","),
    *('["a","b"]', '{"matchLabels":{"team":"vision"}}', '{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}'),
    *('{"matchExpressions":[{"key":"a","operator":"Odd"}]}', '{"matchLabels":5}', "a notin (b", "a=b=c", "A_B", "x" * 64),
)
CLAIMS: Final = (
    '{"worker":[{"name":"gpu","template":"t"}]}',
    '{"":[{"name":"gpu","claim":"c"}]}',
    *("{}", "[]", '{"a":1}', '{"a":[{"name":5}]}', '{"a":[{}]}'),
)
_NUMBERS: Final = ("0", "1", "3", "-1", "2147483647", "2147483648", "9" * 30, "1.5", "", "x", "+2", "٣")
_TRUTHS: Final = ("true", "false", "True", "1", "0", "yes", "", "t", "F")
_CLASS_LIST: Final = '{"gpu.example.com":{"count":"4","capacity":{"memory":"80Gi"}}}'
_APPLIED: Final = ('{"spec":{"dra":{"capability":{"gpu":{"count":1}}}}}', '{"spec":[]}', '{"spec":{"dra":', "[]", '"dra"')

ANNOTATIONS: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("volcano.sh/card.quota", LISTS_OF_CARDS),
    ("volsched.io/card.deserved", LISTS_OF_CARDS),
    ("volsched.io/card.guarantee", LISTS_OF_CARDS),
    ("volcano.sh/card.request", LISTS_OF_CARDS),
    ("volcano.sh/card.name", LISTS_OF_CARDS),
    ("volsched.io/allowed-namespaces", NAMESPACES),
    ("volsched.io/resource-claims", CLAIMS),
    ("volsched.io/ungated", _TRUTHS),
    ("scheduling.k8s.io/group-name", ("group", "", "a/b", "x" * 300)),
    ("volcano.sh/job-version", _NUMBERS),
    ("scheduling.volcano.sh/group-min-member", _NUMBERS),
    ("scheduling.volcano.sh/queue-name", ("default", "root", "team", "", "no such")),
    ("volcano.sh/task-spec", ("worker", "", "x" * 300)),
    ("volcano.sh/task-priority", _NUMBERS),
    ("volcano.sh/preemptable", _TRUTHS),
    ("sla-waiting-time", ("1h30m", "-1s", "1", "9" * 400, "1e9s", "")),
    ("vke.volcengine.com/mgpu-compute-policy", ("fixed-share", "native-burst-share", "guaranteed-burst-share", "odd", "")),
    ("vke.volcengine.com/container-multiple-gpu", ("[1,2]", "[]", "[null]", "1", "[1.5]", '{"a":1}', "[-1]", "[" * 3000)),
    ("vke.volcengine.com/gpu-index-container-main", ("0", "0,1", "x", "0,0", "-1", "9" * 400, "", "GPU-1", "٣", "1024")),
    ("volsched.io/mgpu-card-ids", ("GPU-1,GPU-2", "", ",", "1,2", "a", "a,a", "x" * 5000)),
    ("volcano.sh/crossquota-cpu", ("8", "-1", "x", "1e1000")),
    ("volcano.sh/crossquota-memory", ("32", "", "x")),
    ("volcano.sh/crossquota-percentage-cpu", ("50", "150", "0", "x", "1e-99", "NaN")),
    ("deployment.kubernetes.io/revision", _NUMBERS),
    ("kubectl.kubernetes.io/last-applied-configuration", _APPLIED),
)
LABELS: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("team", ("vision", "language", "", "x" * 64)),
    ("app", ("web", "volcano-controller")),
    ("kubernetes.io/hostname", ("node-1", "")),
    ("topology.kubernetes.io/zone", ("a", "b", "")),
    ("nvidia.com/gpu.product", (CARD, "NVIDIA-H100", "", "A|B", "x" * 300, "A B")),
    ("nvidia.com/gpu.count", _NUMBERS),
    ("nvidia.com/gpu.memory", _NUMBERS),
    ("nvidia.com/gpu.replicas", _NUMBERS),
    ("nvidia.com/gpu.sharing-strategy", ("mps", "none", "")),
    ("nvidia.com/mps.capable", _TRUTHS),
    ("vke.node.gpu.schedule", ("mgpu", "none", "")),
    ("vke.volcengine.com/mgpu-compute-policy", ("fixed-share", "odd")),
    ("volcano.sh/preemptable", _TRUTHS),
    ("volcano.sh/job-name", ("train", "")),
    ("volcano.sh/task-index", _NUMBERS),
    ("volsched.io/workload", ("online", "offline", "odd")),
    ("volcano.sh/nodegroup-name", ("a", "")),
)
DICTIONARIES: Final[Mapping[str, Sequence[tuple[str, Sequence[str]]]]] = {
    "annotations": ANNOTATIONS,
    "labels": LABELS,
    "matchLabels": LABELS,
    "nodeSelector": LABELS,
    "data": (
        ("volcano-scheduler.conf", ('actions: "allocate"\ntiers: []', "", "actions: [", "- a", "5")),
        ("scheduler.conf", ('actions: "allocate"', "")),
        ("other", ("tiers: []", "x", "actions")),
    ),
}
RESOURCES: Final = (
    *("cpu", "memory", "pods", "ephemeral-storage", "storage", "nvidia.com/gpu", "nvidia.com/gpu.shared", "hugepages-2Mi"),
    *("hugepages-", "hugepages-x", "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory", "count/pods"),
    *("requests.cpu", "deviceclass/gpu.example.com", "memory.deviceclass/gpu.example.com", "deviceclass/", ".deviceclass/"),
    *("a.deviceclass/b.deviceclass/c", "deviceclass.resource.kubernetes.io/gpu", "", "x", "kubernetes.io/x", "x" * 300),
)
SELECTORS: Final = (
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "A100"',
    'device.attributes["gpu.example.com"].index in [1, 2, 3]',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0',
    'device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.0.0"))',
    'has(device.attributes["gpu.example.com"].model)',
    'device.attributes["gpu.example.com"].model.matches("A[0-9]+")',
    'cel.bind(a, device.attributes["gpu.example.com"], a.model == "A100" && a.index > 0)',
    "device.allowMultipleAllocations",
    'device.attributes.all(d, d.startsWith("gpu"))',
    "[1, 2, 3].exists(i, [1, 2, 3].exists(j, i * j > 8))",
    *("true", "1 / 0 == 1", "quantity('1e1001').isInteger()", "semver('x').major() == 1", '"a" + "b" == "ab"', "{1: 2}[3] == 4"),
    *("optional.of(1).hasValue()", "device.?attributes.orValue({}).size() == 0", "'é'.charAt(0) == 'é'", "[1,2].isSorted()"),
    "9223372036854775807 + 1 > 0",
    *("r'''a'''", 'b"\\xff"', "// comment", "timestamp('0001-01-01T00:00:00Z') < timestamp('9999-12-31T23:59:59Z')", "x" * 300),
)
TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "": ("a", "b", "worker", "gpu", "default", "team", "zone", "node-1", "x"),
    "kind": ("Pod", "Job", "Queue", "ReplicaSet", "PodGroup", "ResourceClaim", "Node", "DaemonSet", "Odd"),
    "apiVersion": ("v1", "apps/v1", "batch/v1", "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1", "/", "a/b/c"),
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", ""),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", "None", ""),
    "key": ("team", "topology.kubernetes.io/zone", "kubernetes.io/hostname", "metadata.name", "a/b", ""),
    "values": ("a", "vision", "1", "9223372036854775808", "-1", "x" * 64, ""),
    "value": ("a", "", "x" * 64),
    "topologyKey": ("topology.kubernetes.io/zone", "kubernetes.io/hostname", "team", ""),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway", ""),
    "nodeAffinityPolicy": ("Honor", "Ignore", ""),
    "nodeTaintsPolicy": ("Honor", "Ignore", ""),
    "schedulerName": ("volsched", "volcano", "default-scheduler", ""),
    "nodeName": ("node-1", "node-2", "gone", ""),
    "name": ("a", "b", "main", "train", "worker", "gpu", "node-1", "default", "root", "w" * 300),
    "namespace": ("ns", "other", ""),
    "uid": ("uid-a", "uid-b", "uid-train", ""),
    "phase": ("Pending", "Inqueue", "Running", "Succeeded", "Failed", "Unknown", "Completed", "Restarting", "Odd", ""),
    "state": ("Open", "Closed", "Closing", "Odd", ""),
    "queue": ("default", "root", "team", "child", "gone", ""),
    "parent": ("root", "team", "child", "default", ""),
    "priorityClassName": ("high", "system-node-critical", "gone", ""),
    "event": ("*", "PodFailed", "PodEvicted", "TaskCompleted", "JobUnknown", "OutOfSync", "PodPending", "Odd", ""),
    "events": ("*", "PodFailed", "TaskCompleted", "Odd"),
    "action": ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "CompleteJob", "ResumeJob", "CloseQueue", "Odd", ""),
    "timeout": ("1s", "10m", "9999999999h", "-1s", "1", "x", "9" * 400 + "h"),
    "runningEstimate": ("1h", "-1s", "x", "9" * 400 + "h"),
    "creationTimestamp": ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59", "x", "2026"),
    "deletionTimestamp": ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "x"),
    "lastTransitionTime": ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "x", "0000-00-00T00:00:00Z"),
    "startTime": ("2026-01-01T00:00:00Z", "x"),
    "renewTime": ("2026-01-01T00:00:00.000000Z", "x"),
    "image": ("busybox", "a:b", "a@sha256:0", ":", "", "r:5000/a"),
    "allocationMode": ("ExactCount", "All", "Odd", ""),
    "deviceClassName": ("gpu.example.com", "gone", ""),
    "driver": ("gpu.example.com", "x", ""),
    "matchAttribute": ("gpu.example.com/model", "model", "a/b/c", ""),
    "distinctAttribute": ("gpu.example.com/model", "model", ""),
    "version": ("1.2.3", "1.2", "v1", "1.0.0-rc.1+x", "9" * 400 + ".0.0", ""),
    "protocol": ("TCP", "UDP", "SCTP", "Odd", ""),
    "hostIP": ("127.0.0.1", "0.0.0.0", "::1", "x", ""),
    "accessModes": ("ReadWriteOnce", "ReadWriteOncePod", "Odd"),
    "concurrencyPolicy": ("Allow", "Forbid", "Replace", "Odd"),
    "plugins": ("--port=1", "--port", "--worker=w", "--master=m", "---", "--=", "=", "--port=" + "9" * 400),
    "iteration": ("any", "all", "odd", ""),
    "mode": ("hard", "soft", "odd"),
    "dequeueStrategy": ("fifo", "traverse", "odd"),
}
KEYS: Final = tuple(TEXTS)
"""Names of fields with texts of their own."""

BLOCKS: Final = (_CLASS_LIST, '{"gpu":{"count":-1}}', '{"gpu":[]}', '{"gpu":{"capacity":5}}', '{"":{}}', "[]", "5")
"""Amounts of devices as a queue says them."""
