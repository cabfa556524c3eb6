"""What is said of objects offline: each rule with an object that breaks it, and objects that break none."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.clusters import (
    Manifest,
    group,
    namespace,
    node,
    pod,
    queue,
    simulation,
    stock,
    volcano_job,
    workload,
)
from volsched.model.errors import ObjectError
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES
from volsched.model.queues.allowed_namespaces import FIELD as ALLOWED_FIELD
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import completed, decode, read_inventory, subject_of
from volsched.validation.objects import problems_of
from volsched.validation.problems import Problem
from volsched.validation.volcano_keys import NOT_READ

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


def test_a_template_of_another_shape_than_a_pod_is_no_object() -> None:
    with pytest.raises(ObjectError, match=r"containers\[0\].env: Expected `array`, got `int`"):
        decode(changed(JOB, *CONTAINER, "env", to=5))


def problems(*manifests: Manifest) -> list[Problem]:
    return list(problems_of([completed(decode(raw)) for raw in manifests], subject_of))


def changed(manifest: Manifest, *path: Any, to: Any) -> Manifest:
    """Return the manifest with one value replaced; with ``None`` it is left out."""
    copied = copy.deepcopy(manifest)
    parent: Any = copied
    for step in path[:-1]:
        parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
    if to is None:
        parent.pop(path[-1])
    else:
        parent[path[-1]] = to
    return copied


JOB = volcano_job("train", {"ps": 1, "worker": 3}, queue="team")
TASK = ("spec", "tasks", 1)
TEMPLATE = (*TASK, "template", "spec")
CONTAINER = (*TEMPLATE, "containers", 0)
TEAM = queue("team", capability={"cpu": "4"})
GPU = "nvidia.com/gpu"


def resources(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"requests": requests or {}, "limits": limits or {}}


ONE: list[tuple[Manifest, str, str, str]] = [
    # queues
    (queue("q", weight=0), "spec.weight", "Invalid", "0 must be from 1 to 65535"),
    (queue("q", dequeueStrategy="lifo"), "spec.dequeueStrategy", "NotSupported", "did you mean fifo?"),
    (queue("q", state="Close"), "spec.state", "NotSupported", "did you mean Closed?"),
    (queue("q", capability={"cpu": "x"}), "spec.capability[cpu]", "Invalid", "'x' is not a quantity"),
    (
        queue("q", deserved={"cpu": "5"}, capability={"cpu": "4000m"}),
        "spec.deserved[cpu]",
        "Invalid",
        "5 is more than capability, 4000m",
    ),
    (
        queue("q", guarantee={"resource": {"memory": "2Gi"}}, deserved={"memory": "1Gi"}),
        "spec.guarantee.resource[memory]",
        "Invalid",
        "2Gi is more than deserved, 1Gi",
    ),
    (queue("q", capability={"cpu": None}), "spec.capability[cpu]", "Invalid", "null is not a quantity"),
    (
        queue("q", guarantee={"resource": {"cpu": None}}),
        "spec.guarantee.resource[cpu]",
        "Invalid",
        "null is not a quantity",
    ),
    (queue("q", parent="q"), "spec.parent", "Invalid", "'q' is the queue itself"),
    (queue("root", parent="q"), "spec.parent", "Forbidden", "the root has no parent"),
    (changed(TEAM, "status", to={"state": "Shut"}), "status.state", "NotSupported", "'Shut' is not one of Open"),
    (
        changed(TEAM, "metadata", "annotations", to={ALLOWED_NAMESPACES: "*"}),
        ALLOWED_FIELD,
        "Invalid",
        "'*' is no name of a namespace; nobody new may use the queue",
    ),
    # PodGroups
    (group("g", -1), "spec.minMember", "Invalid", "-1 must not be negative"),
    (group("g", minTaskMember={"ps": -1}), "spec.minTaskMember[ps]", "Invalid", "-1 must not be negative"),
    (group("g", minResources={"cpu": "-1"}), "spec.minResources[cpu]", "Invalid", "must not be negative"),
    (group("g", q="root"), "spec.queue", "Forbidden", "the root takes no work"),
    # Jobs
    (changed(JOB, "spec", "tasks", to=[]), "spec.tasks", "Required", "a Job has at least one task"),
    (changed(JOB, *TASK, "name", to="ps"), "spec.tasks[1].name", "Duplicate", "'ps' is the name of another task"),
    (changed(JOB, *TASK, "replicas", to=-1), "spec.tasks[1].replicas", "Invalid", "-1 must not be negative"),
    (changed(JOB, *TASK, "minAvailable", to=9), "spec.tasks[1].minAvailable", "Invalid", "more than the 3 replicas"),
    (changed(JOB, "spec", "minAvailable", to=5), "spec.minAvailable", "Invalid", "5 is more than the 4 replicas"),
    (changed(JOB, "spec", "minSuccess", to=0), "spec.minSuccess", "Invalid", "0 must be from 1 to 4"),
    (changed(JOB, "spec", "maxRetry", to=-1), "spec.maxRetry", "Invalid", "-1 must not be negative"),
    (
        changed(JOB, "spec", "policies", to=[{"action": "RestartJo", "event": "PodFailed"}]),
        "spec.policies[0].action",
        "NotSupported",
        "did you mean RestartJob?",
    ),
    (
        changed(JOB, "spec", "policies", to=[{"action": "RestartJob"}]),
        "spec.policies[0].event",
        "Required",
        "for an event or an exit code",
    ),
    (
        changed(JOB, "spec", "policies", to=[{"action": "RestartJob", "exitCode": 0}]),
        "spec.policies[0].exitCode",
        "Invalid",
        "0 is no failure",
    ),
    (
        changed(JOB, "spec", "policies", to=[{"action": "RestartJob", "exitCode": 3, "event": "PodFailed"}]),
        "spec.policies[0].exitCode",
        "Forbidden",
        "for a policy without events",
    ),
    (
        changed(
            JOB,
            *TASK,
            "policies",
            to=[{"action": "AbortJob", "event": "*"}, {"action": "AbortJob", "event": "PodFailed"}],
        ),
        "spec.tasks[1].policies",
        "Forbidden",
        "must be the only one",
    ),
    (
        changed(JOB, "spec", "policies", to=[{"action": "AbortJob", "events": ["PodFailed", "PodFailed"]}]),
        "spec.policies[0]",
        "Duplicate",
        "another policy for PodFailed",
    ),
    (
        changed(JOB, *TASK, "dependsOn", to={"name": ["master"]}),
        "spec.tasks[1].dependsOn.name[0]",
        "NotFound",
        "there is no task 'master'",
    ),
    (
        changed(JOB, *TASK, "dependsOn", to={"name": ["worker"]}),
        "spec.tasks[1].dependsOn",
        "Invalid",
        "waits for itself",
    ),
    (
        changed(JOB, *CONTAINER, "name", to=""),
        "spec.tasks[1].template.spec.containers[0].name",
        "Required",
        "is missing",
    ),
    # pods, wherever they are
    (changed(pod("p"), "spec", "containers", to=[]), "spec.containers", "Required", "at least one container"),
    (pod("p", restartPolicy="Often"), "spec.restartPolicy", "NotSupported", "'Often' is not one of Always"),
    (pod("p", preemptionPolicy="Ever"), "spec.preemptionPolicy", "NotSupported", "did you mean Never?"),
    (
        pod("p", initContainers=[{"name": "main"}]),
        "spec.initContainers[0].name",
        "Duplicate",
        "'main' is the name of another container",
    ),
    (
        pod("p", tolerations=[{"key": "a", "operator": "Likes"}]),
        "spec.tolerations[0].operator",
        "Invalid",
        "Likes",
    ),
    (workload("Deployment", "web", -1), "spec.replicas", "Invalid", "-1 must not be negative"),
    (
        workload("Job", "etl", nodeSelector={}, overhead={"cpu": "many"}),
        "spec.template.spec.overhead[cpu]",
        "Invalid",
        "'many' is not a quantity",
    ),
]


@pytest.mark.parametrize(("manifest", "field", "code", "said"), ONE)
def test_a_rule_that_is_broken_is_said_once_with_its_field(
    manifest: Manifest, field: str, code: str, said: str
) -> None:
    found = problems(manifest)
    assert [(p.field, p.code, p.severity) for p in found] == [(field, code, "error")], found
    assert said in found[0].message


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        (resources({"cpu": "2"}, {"cpu": "1"}), "requests[cpu]", "2 is more than the limit 1"),
        (resources({GPU: "1"}), f"limits[{GPU}]", "cannot be overcommitted"),
        (resources({GPU: "1"}, {GPU: "2"}), f"requests[{GPU}]", "1 differs from the limit 2"),
        (resources({}, {GPU: "500m"}), f"limits[{GPU}]", "500m is not a whole number"),
        (resources({"hugepages-2Mi": "4Mi"}), "limits[hugepages-2Mi]", "cannot be overcommitted"),
    ],
)
def test_requests_and_limits_must_agree(given: dict[str, Any], field: str, said: str) -> None:
    (found,) = problems(changed(pod("p"), "spec", "containers", 0, "resources", to=given))
    assert found.field == f"spec.containers[0].resources.{field}"
    assert said in found.message


@pytest.mark.parametrize(
    "given",
    [
        resources({"cpu": "1", "memory": "1Gi"}),
        resources({"cpu": "1"}, {"cpu": "1000m"}),
        resources({}, {GPU: 2}),
        resources({GPU: 2}, {GPU: "2"}),
        resources({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}),
    ],
)
def test_requests_and_limits_that_agree_are_fine(given: dict[str, Any]) -> None:
    assert problems(changed(pod("p"), "spec", "containers", 0, "resources", to=given)) == []


def together(*manifests: Manifest) -> list[tuple[str, str, str]]:
    return [(problem.object, problem.field, problem.severity) for problem in problems(*manifests)]


def test_work_is_judged_beside_the_queues_that_are_given() -> None:
    closed = changed(TEAM, "status", to={"state": "Closed"})
    assert together(group("g", q="anywhere")) == []
    assert together(TEAM, group("g", q="team"), group("h")) == []
    assert together(TEAM, group("g", q="taem")) == [("PodGroup/default/g", "spec.queue", "warning")]
    assert together(closed, JOB) == [("Job/default/train", "spec.queue", "error")]
    assert together(TEAM, queue("part", parent="team"), group("g", q="team")) == [
        ("PodGroup/default/g", "spec.queue", "error")
    ]


def permitting(name: str, rule: str, **spec: Any) -> Manifest:
    return changed(queue(name, **spec), "metadata", "annotations", to={ALLOWED_NAMESPACES: rule})


def naming(found: Manifest, *path: str) -> Manifest:
    """The same, with pods that name the queue ``team`` for their PodGroup."""
    return changed(found, *path, "annotations", to={"scheduling.volcano.sh/queue-name": "team"})


WORKERS = workload("Deployment", "w", 1)
POD_QUEUE = "metadata.annotations[scheduling.volcano.sh/queue-name]"


@pytest.mark.parametrize(
    ("work", "about", "field"),
    [
        (group("g", q="team"), "PodGroup/default/g", "spec.queue"),
        (JOB, "Job/default/train", "spec.queue"),
        (naming(pod("p"), "metadata"), "Pod/default/p", POD_QUEUE),
        (naming(WORKERS, "spec", "template", "metadata"), "Deployment/default/w", f"spec.template.{POD_QUEUE}"),
    ],
)
def test_work_is_judged_by_who_may_use_its_queue(work: Manifest, about: str, field: str) -> None:
    own = namespace("default", stage="prod")
    refused = [(about, field, "error")]
    assert together(permitting("team", "vision"), work) == refused
    assert together(permitting("team", "vision, default"), work) == []
    assert together(permitting("team", "stage=test"), own, work) == refused
    assert together(permitting("team", "stage=prod"), own, work) == []
    assert together(permitting("team", "stage=test"), work) == [], "nobody knows the labels of the namespace"
    assert together(permitting("team", "a,*"), work) == [("Queue/team", ALLOWED_FIELD, "error"), *refused]
    assert together(queue("team", parent="all"), permitting("all", "vision", parent="root"), work) == refused
    assert together(queue("team"), permitting("root", "vision"), work) == refused
    [problem] = problems(permitting("team", "vision"), work)
    assert (problem.code, problem.message) == (
        "QueueNotAllowed",
        'namespace "default" may not use queue "team": its annotation volsched.io/allowed-namespaces lets in namespace '
        "vision only; name another queue, or have whoever runs the cluster let the namespace in",
    )


def test_a_job_that_names_no_queue_is_judged_by_the_one_of_its_namespace() -> None:
    annotated = changed(
        namespace("default"), "metadata", "annotations", to={"scheduling.volcano.sh/queue-name": "team"}
    )
    job = volcano_job("train", {"worker": 1})
    assert together(permitting("team", "vision"), annotated, job) == [("Job/default/train", "spec.queue", "error")]
    assert together(permitting("team", "vision"), namespace("default"), job) == []


def test_pods_in_another_podgroup_or_job_are_not_judged_by_what_they_name() -> None:
    grouped = naming(pod("p"), "metadata")
    grouped["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    of_job = naming(volcano_job("train", {"worker": 1}), "spec", "tasks", 0, "template", "metadata")  # type: ignore[arg-type]
    assert together(permitting("team", "vision"), grouped, of_job) == []


def test_queues_are_judged_beside_each_other() -> None:
    assert together(TEAM, queue("part", parent="team", capability={"cpu": "5"})) == [
        ("Queue/part", "spec.capability[cpu]", "error")
    ]
    assert together(queue("part", parent="nowhere")) == [("Queue/part", "spec.parent", "warning")]
    assert together(queue("a", parent="b"), queue("b", parent="a")) == [
        ("Queue/a", "spec.parent", "error"),
        ("Queue/b", "spec.parent", "error"),
    ]
    half = {"deserved": {"cpu": "3"}, "parent": "top"}
    assert together(queue("top", deserved={"cpu": "5"}), queue("a", **half), queue("b", **half)) == [
        ("Queue/top", "spec.deserved[cpu]", "warning")
    ]


def test_what_children_are_guaranteed_together_is_at_most_what_their_parent_is() -> None:
    half = {"guarantee": {"resource": {"cpu": "3"}}, "parent": "top"}
    top = queue("top", guarantee={"resource": {"cpu": "5"}})
    assert together(top, queue("a", **half)) == []
    assert together(top, queue("a", **half), queue("b", **half)) == [
        ("Queue/top", "spec.guarantee.resource[cpu]", "error")
    ]


@pytest.mark.parametrize(
    ("kind", "key", "good", "bad"),
    [
        ("annotations", "volcano.sh/preemptable", "false", "no"),
        ("labels", "volcano.sh/preemptable", "T", ""),
        ("annotations", "volcano.sh/task-priority", "-5", "high"),
        ("annotations", "volcano.sh/task-priority", "+2147483647", "2147483648"),
        ("annotations", "volcano.sh/task-priority", "0", "1_000"),
        ("labels", "volsched.io/workload", "online", "Online"),
    ],
)
def test_volcanos_marks_on_pods_that_mean_nothing_are_warnings(kind: str, key: str, good: str, bad: str) -> None:
    def marked(text: str) -> Manifest:
        return changed(pod("p"), "metadata", kind, to={key: text})

    assert problems(marked(good)) == []
    (found,) = problems(marked(bad))
    assert (found.field, found.severity) == (f"metadata.{kind}[{key}]", "warning")
    template = {"metadata": {kind: {key: bad}}, "spec": marked(bad)["spec"]}
    (inner,) = problems(changed(JOB, "spec", "tasks", 0, "template", to=template))
    assert inner.field == f"spec.tasks[0].template.metadata.{kind}[{key}]"


@pytest.mark.parametrize("bad", ["x", "0", "-1", "1.5", ""])
def test_a_minimum_of_a_workload_that_means_nothing_is_a_warning(bad: str) -> None:
    key = "scheduling.volcano.sh/group-min-member"
    assert problems(workload("Deployment", "d", 1, metadata={"annotations": {key: "1"}})) == []
    (found,) = problems(workload("Deployment", "d", 1, metadata={"annotations": {key: bad}}))
    assert (found.field, found.severity) == (f"metadata.annotations[{key}]", "warning")


@pytest.mark.parametrize("name", ["A_b", "-a", "a.b", "a" * 64])
def test_a_task_of_a_job_has_a_name_that_pods_can_have(name: str) -> None:
    (found,) = problems(changed(JOB, "spec", "tasks", 0, "name", to=name))
    assert (found.field, found.severity) == ("spec.tasks[0].name", "error")


A_TASK = JOB["spec"]["tasks"][0]
A_POLICY = {"action": "RestartJob", "event": "PodFailed"}


@pytest.mark.parametrize(
    ("path", "value", "field", "said"),
    [
        (("spec", "tasks"), [{**A_TASK, "name": f"t{n}"} for n in range(257)], "spec.tasks", "257 are more than 256"),
        (("spec", "policies"), [A_POLICY] * 65, "spec.policies", "65 are more than 64"),
        (("spec", "tasks", 0, "policies"), [A_POLICY] * 65, "spec.tasks[0].policies", "65 are more than 64"),
        (
            ("spec", "volumes"),
            [{"mountPath": "/a", "volumeClaimName": "c"}] * 65,
            "spec.volumes",
            "65 are more than 64",
        ),
        (("spec", "tasks", 0, "replicas"), 2**31 - 1, "spec.tasks", "are more than 150000"),
        (("metadata", "name"), "x" * 64, "metadata.name", "has 64 characters; pods have it as a label, which has 63"),
        (("spec", "plugins"), {"svc": ["--x"] * 65}, "spec.plugins[svc]", "there are 65 arguments; no more than 64"),
    ],
)
def test_a_job_has_too_much_of_something(path: tuple[Any, ...], value: Any, field: str, said: str) -> None:
    first = problems(changed(JOB, *path, to=value))[0]
    assert (first.field, first.severity) == (field, "error")
    assert said in first.message


def test_minima_of_roles_that_do_not_count_are_a_warning() -> None:
    (found,) = problems(group("g", 2, minTaskMember={"ps": 1, "worker": 3}))
    assert (found.field, found.severity) == ("spec.minMember", "warning")


@pytest.mark.parametrize(("action", "warned"), [("RestartTask", True), ("RestartPod", True), ("RestartJob", False)])
def test_a_policy_that_restarts_nothing_is_a_warning(action: str, warned: bool) -> None:
    found = problems(changed(JOB, "spec", "policies", to=[{"action": action, "events": ["PodFailed", "Unknown"]}]))

    assert [(fault.field, fault.severity) for fault in found] == [("spec.policies[0].action", "warning")] * warned


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("ray", "NotSupported", "only Volcano's own do"),
        ("hcclrank", "NotSupported", "only Volcano's own do"),
        ("pytorhc", "NotFound", "the Job is not run; volsched plays env, svc, ssh, pytorch, tensorflow, mpi"),
    ],
)
def test_a_plugin_of_a_job_that_is_not_played_is_a_warning(name: str, code: str, said: str) -> None:
    (found,) = problems(changed(JOB, "spec", "plugins", to={name: [], "svc": []}))
    assert (found.field, found.code, found.severity) == (f"spec.plugins[{name}]", code, "warning")
    assert said in found.message


def test_objects_that_break_no_rule_have_no_problems() -> None:
    assert (
        problems(TEAM, JOB, node("n1"), pod("p"), *(workload(kind, "w", 1) for kind in ("ReplicaSet", "StatefulSet")))
        == []
    )


def test_the_examples_have_no_errors() -> None:
    found = read_inventory(read_documents([str(EXAMPLES)])).objects
    assert [p for p in problems_of(found, subject_of) if p.severity == "error"] == []
    assert stock(TEAM).objects


# --- what volsched does not have of Volcano -------------------------------------------------------------------------

HARD = {"networkTopology": {"highestTierAllowed": 1}}
MODE, ZONE = "volcano.sh/network-topology-mode", "volcano.sh/revocable-zone"
NUMA = "volcano.sh/numa-topology-policy"
NOTED = ("metadata", "annotations")
NODE_GROUPS = {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}
UNSERVED: list[tuple[Manifest, str, str]] = [
    (changed(group("g"), "spec", "networkTopology", to={"mode": "hard"}), "spec.networkTopology", "so its pods wait"),
    (changed(group("g"), "spec", "networkTopology", to={}), "spec.networkTopology", "has no mode, which means hard"),
    (changed(group("g"), "spec", "subGroupPolicy", to=[HARD]), "spec.subGroupPolicy[0].networkTopology", "pods wait"),
    (changed(group("g"), "spec", "subGroupPolicy", to=[{"subGroupSize": 2}]), "spec.subGroupPolicy[0]", "pods wait"),
    (changed(JOB, "spec", "networkTopology", to={}), "spec.networkTopology", "so its pods wait"),
    (
        changed(JOB, *TASK, "partitionPolicy", to={"partitionSize": 2, **HARD}),
        "spec.tasks[1].partitionPolicy.networkTopology",
        "so its pods wait",
    ),
    (
        changed(workload("Deployment", "web"), "spec", "template", *NOTED, to={MODE: "hard"}),
        f"spec.template.metadata.annotations[{MODE}]",
        "so the pods wait",
    ),
    (queue("q", affinity={"nodeGroupAffinity": NODE_GROUPS}), "spec.affinity.nodeGroupAffinity", "has no effect"),
    (
        queue("q", affinity={"nodeGroupAntiAffinity": NODE_GROUPS}),
        "spec.affinity.nodeGroupAntiAffinity",
        "has no effect: volsched knows no node groups",
    ),
    (changed(JOB, *TASK, "topologyPolicy", to="restricted"), "spec.tasks[1].topologyPolicy", "knows no NUMA nodes"),
    (changed(pod("p"), *NOTED, to={NUMA: "best-effort"}), f"metadata.annotations[{NUMA}]", "has no effect"),
    (changed(pod("p"), *NOTED, to={ZONE: "*"}), f"metadata.annotations[{ZONE}]", "knows no revocable zones"),
    (changed(group("g"), *NOTED, to={NUMA: "restricted"}), f"metadata.annotations[{NUMA}]", "knows no NUMA nodes"),
    (changed(group("g"), *NOTED, to={ZONE: "*"}), f"metadata.annotations[{ZONE}]", "has no effect"),
    (changed(JOB, *NOTED, to={ZONE: "*"}), f"metadata.annotations[{ZONE}]", "has no effect"),
]


@pytest.mark.parametrize(("manifest", "field", "said"), UNSERVED)
def test_what_volsched_does_not_have_is_warned_of(manifest: Manifest, field: str, said: str) -> None:
    [found] = problems(manifest)

    assert (found.field, found.code, found.severity) == (field, "NotSupported", "warning")
    assert said in found.message


@pytest.mark.parametrize(
    "manifest",
    [
        changed(group("g"), "spec", "networkTopology", to={"mode": "soft"}),
        changed(group("g"), "spec", "subGroupPolicy", to=[{"subGroupSize": 1, "minSubGroups": 0}]),
        changed(JOB, *TASK, "partitionPolicy", to={"partitionSize": 2, "minPartitions": 1}),
        changed(JOB, *TASK, "topologyPolicy", to="none"),
        changed(pod("p"), *NOTED, to={MODE: "soft"}),
        queue("q", affinity={}),
        queue("q", affinity={"nodeGroupAffinity": {}}),
    ],
)
def test_what_makes_no_difference_is_not_warned_of(manifest: Manifest) -> None:
    assert problems(manifest) == []


MANY_LABELS = {f"k{number}": "v" * 60 for number in range(200)}


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (pod("p"), ("metadata",)),
        (group("g"), ("metadata",)),
        (workload("Deployment", "web"), ("spec", "template", "metadata")),
    ],
)
def test_more_labels_than_are_looked_at_are_warned_of(manifest: Manifest, field: tuple[str, ...]) -> None:
    labels = manifest
    for step in (*field, "labels"):
        labels = labels.get(step) or {}
    [found] = problems(changed(manifest, *field, "labels", to={**MANY_LABELS, **labels}))

    assert (found.field, found.code, found.severity) == (".".join((*field, "labels")), "Invalid", "warning")
    assert "have more than 8192 characters" in found.message


# --- native resources, annotations of Volcano -----------------------------------------------------------------------


def asks(requests: Manifest, limits: Manifest | None = None) -> Manifest:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return changed(pod("p"), "spec", "containers", to=[{"name": "main", "resources": resources}])


@pytest.mark.parametrize("name", ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "x.kubernetes.io/y", "cpu"])
def test_native_resources_may_be_overcommitted_and_need_be_no_whole_numbers(name: str) -> None:
    assert problems(asks({name: "1500m"})) == []
    assert problems(asks({name: "1500m"}, {name: "2"})) == []
    (found,) = problems(asks({name: "3"}, {name: "2"}))
    assert "3 is more than the limit 2" in found.message


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "example.com/kubernetes.io", "hugepages-2Mi"])
def test_other_resources_may_not(name: str) -> None:
    amount = "2Mi" if name.startswith("hugepages") else "2"
    assert [found.message for found in problems(asks({name: amount}))] == [
        f"is missing; {name} cannot be overcommitted"
    ]


@pytest.mark.parametrize("key", sorted(NOT_READ))
@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_what_decides_in_volcano_and_not_here_is_warned_about(key: str, field: str) -> None:
    (found,) = problems(changed(pod("p"), "metadata", field, to={key: "x", "volcano.sh/qos-level": "LC"}))
    assert (found.field, found.severity) == (f"metadata.{field}[{key}]", "warning")
    assert found.message.startswith("volsched does not read it: ")


def test_annotations_of_templates_and_of_every_kind_are_looked_at() -> None:
    web = workload("Deployment", "web", template_annotations={"volcano.sh/cooldown-time": "10m"})
    assert [p.field for p in problems(web)] == ["spec.template.metadata.annotations[volcano.sh/cooldown-time]"]
    team = changed(queue("q"), "metadata", "annotations", to={"volcano.sh/hierarchy": "root/q"})
    assert [p.field for p in problems(team)] == ["metadata.annotations[volcano.sh/hierarchy]"]


def test_a_group_that_is_named_by_both_keys_is_named_by_the_one_that_is_read() -> None:
    both = {"scheduling.volcano.sh/group-name": "g", "scheduling.k8s.io/group-name": "g"}
    assert problems(changed(pod("p"), "metadata", "annotations", to=both)) == []


@pytest.mark.parametrize("key", ["volcano.sh/sla-waiting-time", "sla-waiting-time"])
def test_a_waiting_time_that_is_none_is_warned_about(key: str) -> None:
    (found,) = problems(changed(group("g"), "metadata", "annotations", to={key: "soon"}))
    assert (found.field, found.severity) == (f"metadata.annotations[{key}]", "warning")
    assert problems(changed(group("g"), "metadata", "annotations", to={key: "1h"})) == []


WAITING = "volcano.sh/sla-waiting-time"


@pytest.mark.parametrize(
    ("on", "key", "read"),
    [
        (("metadata",), WAITING, True),
        (("metadata",), "sla-waiting-time", False),
        (("spec", "template", "metadata"), WAITING, False),
        (("spec", "template", "metadata"), "sla-waiting-time", False),
    ],
)
def test_a_waiting_time_is_warned_about_where_it_reaches_no_group(on: tuple[str, ...], key: str, read: bool) -> None:
    deployment = changed(workload("Deployment", "w", 1), *on, "annotations", to={key: "1h"})

    [made] = simulation(deployment).api_server.groups.values()

    assert (key in made.metadata.annotations) is read
    assert [p.field for p in problems(deployment)] == ([] if read else [f"{'.'.join(on)}.annotations[{key}]"])


def test_a_waiting_time_of_a_bare_pod_is_warned_about() -> None:
    lone = changed(pod("p"), "metadata", "annotations", to={WAITING: "1h"})

    [made] = simulation(lone).api_server.groups.values()

    assert made.metadata.annotations == {}
    [found] = problems(lone)
    assert (found.severity, found.message) == (
        "warning",
        "is not read of pods, as in Volcano; write it on their PodGroup, Job or workload",
    )
