"""A tenant who changes its own objects each second has no jobs of others tried again, if the changes cannot help these.

Without an action that evicts, it does not matter which pods may be evicted.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.actions.rigs import conf, cycle, rig
from volsched.framework.registration import Registrar
from volsched.framework.rules import PrePredicate, never
from volsched.model.changes import Change, Deleted
from volsched.model.pods.task import TaskInfo
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_group, a_pod, put

Manifest = dict[str, Any]
Toggle = Callable[[int], list[Change]]

JOBS: Final = 5
"""Of the other tenant; all have pods of different sizes."""
ROUNDS: Final = 4

PLAIN: Final = conf("enqueue, allocate, backfill", "priority gang overcommit", "drf predicates nodeorder")
QUOTAS: Final = conf("enqueue, allocate, backfill", "priority gang", "capacity predicates nodeorder")
EVICTING: Final = conf("enqueue, allocate, preempt, backfill", "priority gang overcommit", "predicates nodeorder")

PREEMPTABLE: Final = "volcano.sh/preemptable"
ROLE: Final = "volcano.sh/task-spec"
CLAIM: Final = {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}


def mine(manifest: Manifest) -> Manifest:
    """Return an object in the namespace of the tenant who toggles."""
    found = copy.deepcopy(manifest)
    found["metadata"] |= {"namespace": "evil", "uid": f"evil-{found['kind']}-{found['metadata']['name']}"}
    return found


def of_kind(version: str, kind: str, name: str, **rest: Any) -> Manifest:
    return mine({"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest})


RUNNING: Final = mine(a_pod("run", "run", on="n1", cpu="100m", labels={"app": "x"}))
RUNNING_GROUP: Final = mine(a_group("run", "evil", phase="Running"))
WAITING: Final = mine(a_pod("wait", "wait", cpu="6"))
GROUP: Final = mine(a_group("wait", "evil"))
BUDGET: Final = of_kind(
    "policy/v1",
    "PodDisruptionBudget",
    "budget",
    spec={"selector": {"matchLabels": {"app": "x"}}},
    status={"disruptionsAllowed": 0},
)
DEVICES: Final = of_kind("resource.k8s.io/v1", "ResourceClaim", "claim", spec=CLAIM)


def shown(manifest: Manifest, number: int) -> Change:
    found = copy.deepcopy(manifest)
    found["metadata"]["resourceVersion"] = str(1000 + number)
    return put(found)


def changed(manifest: Manifest, path: str, values: tuple[Any, Any]) -> Toggle:
    """A field has one of two values, in turns."""

    def toggle(number: int) -> list[Change]:
        found = copy.deepcopy(manifest)
        *heads, last = path.split(" ")
        at = found
        for head in heads:
            at = at.setdefault(head, {})
        at[last] = values[number % 2]
        return [shown(found, number)]

    return toggle


def come_and_go(*manifests: Manifest) -> Toggle:
    """Objects are made, and deleted again."""

    def toggle(number: int) -> list[Change]:
        if number % 2:
            return [shown(manifest, number) for manifest in manifests]
        metas = [(manifest["kind"], manifest["metadata"]) for manifest in reversed(manifests)]
        return [Deleted(kind, "evil", meta["name"], meta["uid"]) for kind, meta in metas]

    return toggle


TOGGLES: Final[dict[str, Toggle]] = {
    "a condition of a pod": changed(RUNNING, "status message", ("a", "b")),
    "an annotation: may be evicted": changed(RUNNING, f"metadata annotations {PREEMPTABLE}", ("true", "false")),
    "a label of a waiting pod": changed(WAITING, "metadata labels app", ("x", "y")),
    "a role of a waiting pod": changed(WAITING, f"metadata annotations {ROLE}", ("x", "y")),
    "the selector of a budget": changed(BUDGET, "spec selector matchLabels app", ("x", "y")),
    "what a budget allows": changed(BUDGET, "status disruptionsAllowed", (0, 1)),
    "a budget": come_and_go(BUDGET),
    "minMember of what waits": changed(GROUP, "spec minMember", (1, 2)),
    "minTaskMember": changed(GROUP, "spec minTaskMember", ({"a": 1}, {"a": 2})),
    "a priority": changed(GROUP, "spec priorityClassName", ("low", "high")),
    "a label of a group": changed(GROUP, "metadata labels app", ("x", "y")),
    "an annotation of a group": changed(RUNNING_GROUP, f"metadata annotations {PREEMPTABLE}", ("true", "false")),
    "a label of a claim": changed(DEVICES, "metadata labels app", ("x", "y")),
}


def world(waits_for: str) -> ClusterBuilder:
    """Nodes on which two members of each gang of the other tenant fit, or a queue that lets in one; three are needed.

    ``unlike``: their members differ. ``admission``: they are not admitted.
    """
    given = a_cluster().node("n1", cpu=5).node("n2", cpu=4).queue("evil").queue("other")
    given.queue("honest", **({"capability": {"cpu": "4"}} if waits_for == "quota" else {}))
    given.group("hold", "honest", phase="Running").pod("hold-0", "hold", on="n2", cpu="500m")
    for manifest in (RUNNING_GROUP, RUNNING, GROUP, WAITING, BUDGET, DEVICES):
        given.add(manifest)
    for number in range(JOBS):
        name, cpu = f"gang{number}", (2000 if waits_for == "quota" else 3000) + number
        if waits_for == "admission":
            given.group(name, "honest", 3, phase="Pending", minResources={"cpu": "90"})
            continue
        given.group(name, "honest", 3)
        for member in range(3):
            given.pod(f"{name}-{member}", name, cpu=f"{cpu + (10 * member if waits_for == 'unlike' else 0)}m")
    return given


class Asked:
    """Counts questions about jobs and pods of the other tenant."""

    def __init__(self) -> None:
        self.about: Counter[str] = Counter()

    def __call__(self, registrar: Registrar) -> None:
        registrar.register(PrePredicate(self._try, for_each_pod=never))

    def _try(self, task: TaskInfo) -> None:
        if task.namespace == "default":
            self.about["pods"] += 1


def settled(waits_for: str, configuration: str, toggle: Toggle) -> tuple[Rig, Asked]:
    """A rig that has lived through some rounds of a toggle: what is new at first is not any more."""
    asked = Asked()
    on = rig(world(waits_for), configuration, asked)
    for _ in range(3):
        cycle(on)
    for number in (1, 2, 3):
        cycle(on, *toggle(number))
    assert asked.about["pods"] or waits_for == "admission"
    asked.about.clear()
    return on, asked


@pytest.mark.parametrize("what", TOGGLES)
@pytest.mark.parametrize(("waits_for", "configuration"), [("nodes", PLAIN), ("nodes", QUOTAS), ("quota", QUOTAS)])
def test_jobs_of_others_are_not_tried_again(what: str, waits_for: str, configuration: str) -> None:
    on, asked = settled(waits_for, configuration, TOGGLES[what])

    for number in range(4, 4 + ROUNDS):
        cycle(on, *TOGGLES[what](number))

    assert asked.about == {}


@pytest.mark.parametrize("what", TOGGLES)
def test_gangs_of_unlike_pods_are_not_tried_again(what: str) -> None:
    on, asked = settled("unlike", PLAIN, TOGGLES[what])

    for number in range(4, 4 + ROUNDS):
        cycle(on, *TOGGLES[what](number))

    assert asked.about == {}


@pytest.mark.parametrize("what", TOGGLES)
def test_jobs_that_are_not_admitted_are_not_asked_about_again(what: str) -> None:
    """Without an action that evicts: which pods may be evicted does not matter."""
    on = rig(world("admission"), PLAIN)
    for _ in range(3):
        cycle(on)
    for number in (1, 2, 3):
        cycle(on, *TOGGLES[what](number))
    jobs = [job for job in on.cluster.jobs.values() if job.phase == "Pending"]
    assert len(jobs) == JOBS
    before = [job.unschedulable_at for job in jobs]

    for number in range(4, 4 + ROUNDS):
        cycle(on, *TOGGLES[what](number))

    assert [job.unschedulable_at for job in jobs] == before


def test_victims_are_searched_again_if_a_pod_of_the_queue_may_be_evicted_that_might_not() -> None:
    given = a_cluster().node("n1", cpu=4).queue("q")
    classes = {"low": 1, "high": 10}
    for name, value in classes.items():
        given.add(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        )
    given.group("old", "q", minimum=0, phase="Running", priorityClassName="low")
    spec = {"priority": 1, "priorityClassName": "low"}
    given.pod("old-0", "old", on="n1", cpu=4, annotations={PREEMPTABLE: "false"}, spec=spec)
    given.group("new", "q", priorityClassName="high").pod("new-0", "new", cpu=4, spec={"priority": 10})
    on = rig(given, EVICTING)
    assert cycle(on).evictions == []
    assert cycle(on).report.victim_searches == {}

    spared_no_longer = a_cluster().pod("old-0", "old", on="n1", cpu=4, annotations={PREEMPTABLE: "true"}, spec=spec)

    assert cycle(on, *spared_no_longer.changes()).evictions == ["old-0"]


@pytest.mark.parametrize("path", ["minResources", "queue"])
def test_jobs_are_admitted_when_a_group_of_another_tenant_leaves_them_more(path: str) -> None:
    given = a_cluster().node("n1", cpu=9).queue("shared", capability={"cpu": "4"}).queue("other")
    taken = mine(a_group("big", "shared", phase="Inqueue", minResources={"cpu": "4"}))
    given.add(taken).group("small", "shared", phase="Pending", minResources={"cpu": "2"})
    on = rig(given, QUOTAS)
    for _ in range(3):
        cycle(on)
    assert on.cluster.jobs["default/small"].phase == "Pending"

    less = {"minResources": {"cpu": "1"}, "queue": "other"}
    cycle(on, *changed(taken, f"spec {path}", (less[path], less[path]))(1))
    cycle(on)

    assert on.cluster.jobs["default/small"].phase == "Inqueue"
