"""What admitted jobs reserve of devices: as if counted anew after whatever happened, for the price of what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_dra.demands import DeviceDemands
from plugins.capacity_dra.usage import ClaimUsage
from tests.framework.dra.worlds import claim, device_class, exactly, held
from tests.plugins.capacity_dra.test_announced import template
from tests.plugins.capacity_dra.test_capacity_dra import EXTENDED, HIERARCHY, a_world, quota, quotas_of, wanting
from tests.plugins.predicates.test_devices import using
from volsched.framework.dra.amounts import Amount, Amounts
from volsched.model.changes import BindFailed, Change, Deleted
from volsched.model.cluster import Cluster
from volsched.model.dra.announced import ANNOTATION
from volsched.model.job import INQUEUE, JobInfo
from volsched.model.pods.task import UNGATED
from volsched.model.queues.queue import QueueInfo, levels
from volsched.model.status import TaskStatus
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_group, a_node, a_pod, a_queue, a_rig, put, puts

JOBS, CLAIMS = 5, 3
LET_IN = 3
"""The kind of pods with an extended resource that were let in by the gate of their queue."""
QUEUES = ("a", "b", "dept")


def counted_anew(cluster: Cluster, queue: str) -> tuple[Amounts, Amounts, Amounts]:
    """What jobs reserve in a queue, in all queues below it as well, and beside what each of them holds itself."""
    usage = ClaimUsage(cluster, with_admin=False)
    demands = DeviceDemands(cluster, usage, with_admin=False)
    users = set(usage.account(queue).users)
    admitted = [job for job in cluster.jobs.values() if job.phase == INQUEUE and job.keeps_room]
    own = [job for job in admitted if job.queue == queue]
    below = [job for job in admitted if job in own or queue in levels(cluster.queues, job.queue)]
    return (
        total(demands.minimum(job, users) for job in own),
        total(demands.minimum(job, users) for job in below),
        total(demands.minimum(job, usage.held_by(job)) for job in own),
    )


def total(found: Iterable[Amounts]) -> dict[Amount, Fraction]:
    sums: dict[Amount, Fraction] = {}
    for amounts in found:
        for key, amount in amounts.items():
            sums[key] = sums.get(key, Fraction(0)) + amount
    return {key: amount for key, amount in sums.items() if amount}


def check(rig: Rig) -> None:
    quotas = quotas_of(rig)
    for queue in (*QUEUES, "root", "nowhere"):
        now = quotas.reservations.of(queue)
        assert (now.own, now.below, now.shown) == counted_anew(rig.cluster, queue), queue
    check_ungated(rig)


def check_ungated(rig: Rig) -> None:
    """What pods count for that were let in and have no node is what they count for when everything is counted anew."""
    followed, anew = quotas_of(rig).usage, ClaimUsage(rig.cluster, with_admin=False)
    for task in rig.cluster.tasks.values():
        if task.ungated and task.status is TaskStatus.PENDING:
            keys = followed.claims_of(task)
            assert (task.uid in followed.pod_charges) == (task.uid in anew.pod_charges), task.uid
            assert [followed.charge(key) for key in keys] == [anew.charge(key) for key in keys], task.uid


def a_member(job: int, number: int, kind: int, named: bool) -> dict[str, Any]:
    """A pod with shared claims, with one made from a template (whose name may be known), or with an extended resource.

    The role is said by an annotation, which may change. Of the last kind are those whose gate was lifted.
    """
    name = f"j{job}-{number}"
    spec: dict[str, Any] = {}
    requests = {EXTENDED: 1} if kind in {2, LET_IN} else {}
    if kind == 0:
        spec = using(f"c{number % CLAIMS}", f"c{job % CLAIMS}")
    if kind == 1:
        spec = {"resourceClaims": [{"name": "made", "resourceClaimTemplateName": f"t{job % 2}"}]}
    pod = a_pod(name, f"j{job}", cpu="1", spec=spec, **requests)
    pod["metadata"]["annotations"]["volcano.sh/task-spec"] = "w" if named else "ps"
    if kind == LET_IN:
        pod["status"]["conditions"] = [{"type": UNGATED, "status": "True"}]
    if kind == 1 and named:
        pod["status"]["resourceClaimStatuses"] = [{"name": "made", "resourceClaimName": f"{name}-made"}]
    return pod


def a_gang(job: int, queue: str, minimum: int, phase: str) -> dict[str, Any]:
    told = {} if job % 2 else {"minTaskMember": {"w": 1, "ps": 1}}
    extended = {"minResources": {EXTENDED: 2}} if job == 4 else {}
    group = a_group(f"j{job}", queue, minimum, phase, **told, **extended)
    if job == 3:
        shared, made = '{"name": "x", "claim": "c1"}', '{"name": "y", "template": "t0"}'
        group["metadata"]["annotations"] = {ANNOTATION: f'{{"": [{shared}, {made}]}}'}
    return group


@st.composite
def steps(draw: st.DrawFn) -> list[Change]:
    """One change, or two: an object that is put, in one of few versions of it, or one that goes."""
    job, number, count = draw(st.integers(0, JOBS - 1)), draw(st.integers(0, 2)), draw(st.integers(1, 3))
    kind, yes = draw(st.integers(0, LET_IN)), draw(st.booleans())
    queue, phase = draw(st.sampled_from(("a", "b", "nowhere"))), draw(st.sampled_from((INQUEUE, INQUEUE, "Pending")))
    pod, uid = a_member(job, number, kind, yes), f"pod-default-j{job}-{number}"
    made = claim(f"j{job}-{number}-made", exactly(count=count))
    for_extended = extended_claim(job, number, count)
    choices: list[list[Any]] = [
        [a_gang(job, queue, count, phase)],
        [a_gang(job, queue, count, phase), pod],
        [pod],
        [Deleted("Pod", "default", f"j{job}-{number}", uid)],
        [Deleted("PodGroup", "default", f"j{job}", f"podgroup-default-j{job}")],
        [BindFailed(uid, "n1", "no", 0)],
        [claim(f"c{number}", exactly(count=count))],
        [held(f"c{number}", *(f"d{n:02}" for n in range(count)), driver="gpu.example.com", pool="gpu")],
        [made],
        [Deleted("ResourceClaim", "default", made["metadata"]["name"], "")],
        [for_extended],
        [Deleted("ResourceClaim", "default", for_extended["metadata"]["name"], "")],
        [template(f"t{job % 2}", exactly(count=count))],
        [Deleted("ResourceClaimTemplate", "default", f"t{job % 2}", "")],
        [an_extended_class(yes)],
        [a_node("n2", **({EXTENDED: 3} if yes else {}))],
        [a_queue("b", **({"parent": "dept"} if yes else {}))],
    ]
    return [found if not isinstance(found, dict) else put(found) for found in draw(st.sampled_from(choices))]


@pytest.mark.slow(reason="a hundred random clusters and their sessions")
@given(st.lists(st.tuples(steps(), st.booleans()), max_size=25))
def test_sums_are_those_that_are_counted_anew(history: list[tuple[list[Change], bool]]) -> None:
    cluster = a_world().queue("dept").queue("a", parent="dept").queue("b", parent="dept")
    cluster.add(template("t0", exactly())).add(template("t1", exactly(count=2)))
    for number in range(CLAIMS):
        cluster.add(claim(f"c{number}", exactly(count=number + 1)))
    for job in range(JOBS):
        cluster.add(a_gang(job, "ab"[job % 2], 2, INQUEUE)).add(a_member(job, 0, job % 3, named=False))
    rig = a_rig(cluster, HIERARCHY)
    rig.cycle()
    check(rig)
    for changes, decides in history:
        if decides:
            rig.cycle(*changes)
        else:
            rig.mirror.apply(changes)
        check(rig)


def of_pod(job: int, number: int) -> dict[str, Any]:
    """The mark of a claim that was made for a pod's extended resources."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": f"j{job}-{number}", "uid": f"pod-default-j{job}-{number}"}
    owner |= {"controller": True}
    return {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, "ownerReferences": [owner]}


def extended_claim(job: int, number: int, count: int) -> dict[str, Any]:
    made = claim(f"x-{job}-{number}", exactly(count=count))
    made["metadata"] |= of_pod(job, number)
    return made


def an_extended_class(named: bool = True) -> dict[str, Any]:
    more = {"extendedResourceName": EXTENDED} if named else {}
    return device_class("gpu", driver="gpu.example.com", **more)


def on_node(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "spec": {**pod["spec"], "nodeName": "n1"}, "status": {**pod["status"], "phase": "Running"}}


SHARED_BY_TWO = (
    *(a_gang(0, "a", 2, INQUEUE), a_member(0, 0, 0, True), a_member(0, 1, 0, True)),
    *(a_gang(2, "a", 1, "Running"), a_member(2, 0, 0, True)),
)
WITH_EXTENDED = (an_extended_class(), a_gang(1, "a", 1, INQUEUE), a_member(1, 0, 2, True))
WITHOUT_PODS = (an_extended_class(), a_gang(4, "a", 1, INQUEUE))
OF_ROLES = (a_gang(0, "a", 2, INQUEUE), a_member(0, 0, 0, True), a_member(0, 1, 0, True), a_member(0, 2, 0, False))


@pytest.mark.parametrize(
    ("before", "change"),
    [
        pytest.param(SHARED_BY_TWO, on_node(a_member(2, 0, 0, True)), id="another job's pod uses a claim of it"),
        pytest.param(
            (*SHARED_BY_TWO[:4], on_node(a_member(2, 0, 0, True))),
            Deleted("Pod", "default", "j2-0", "pod-default-j2-0"),
            id="another job's pod lets go of a claim of it",
        ),
        pytest.param(
            WITH_EXTENDED,
            a_node("n2", **{EXTENDED: 3}),
            id="a node offers what pods have claims for",
        ),
        pytest.param(WITHOUT_PODS, a_node("n2", **{EXTENDED: 3}), id="a node offers what is announced"),
        pytest.param(
            (*WITHOUT_PODS, a_node("n2", **{EXTENDED: 3})),
            Deleted("Node", "", "n2", ""),
            id="the last node that offers it goes",
        ),
        pytest.param(WITH_EXTENDED, extended_claim(1, 0, 3), id="the claim for extended resources is made"),
        pytest.param(
            (*WITH_EXTENDED, extended_claim(1, 0, 3)),
            Deleted("ResourceClaim", "default", "x-1-0", ""),
            id="and goes again",
        ),
        pytest.param(WITH_EXTENDED, an_extended_class(named=False), id="a class no longer stands for a resource"),
        pytest.param(
            (a_gang(0, "a", 1, INQUEUE), a_member(0, 0, 1, False), claim("j0-0-made", exactly(count=3))),
            a_member(0, 0, 1, True),
            id="a pod says the name of the claim that was made for it",
        ),
        pytest.param(OF_ROLES, a_member(0, 2, 0, True), id="a pod says another role"),
        pytest.param(SHARED_BY_TWO, claim("c0", exactly(count=3)), id="a claim asks for more"),
        pytest.param(
            (a_gang(0, "a", 1, INQUEUE), a_member(0, 0, 1, False)),
            template("t0", exactly(count=3)),
            id="a template does",
        ),
        pytest.param(SHARED_BY_TWO, a_queue("a"), id="the queue is below no other any more"),
        pytest.param(SHARED_BY_TWO, a_gang(0, "b", 2, INQUEUE), id="the job is in another queue"),
        pytest.param(SHARED_BY_TWO, a_gang(0, "a", 2, "Pending"), id="the job is no longer admitted"),
        pytest.param(SHARED_BY_TWO, Deleted("PodGroup", "default", "j0", ""), id="the PodGroup goes"),
    ],
)
def test_what_is_reserved_changes_with_what_it_is_made_from(before: tuple[Any, ...], change: Any) -> None:
    cluster = a_world().queue("dept").queue("a", parent="dept").queue("b", parent="dept")
    cluster.add(template("t0", exactly())).add(template("t1", exactly(count=2)))
    for number in range(CLAIMS):
        cluster.add(claim(f"c{number}", exactly(count=number + 1)))
    rig = a_rig(cluster, HIERARCHY)
    rig.cycle()
    rig.mirror.apply(puts(*before))
    check(rig)
    earlier = figures(rig)

    rig.mirror.apply([change if isinstance(change, Deleted) else put(change)])

    check(rig)
    assert figures(rig) != earlier


def figures(rig: Rig) -> list[Any]:
    """All sums, as they are now."""
    found = (quotas_of(rig).reservations.of(queue) for queue in QUEUES)
    return [(dict(sums.own), dict(sums.below), dict(sums.shown)) for sums in found]


def with_admitted(count: int) -> Rig:
    """So many jobs that are admitted, and wait for room, and a queue each of them beside."""
    cluster = a_world().queue("dept", **quota(gpu=2 * count + 5))
    cluster.objects[0]["status"]["allocatable"]["pods"] = "1"
    cluster.pod("there", on=cluster.objects[0]["metadata"]["name"])
    for number in range(count):
        cluster.queue(f"q{number}", parent="dept")
        wanting(cluster, f"j{number}", exactly(), queue=f"q{number}")
    rig = a_rig(cluster, HIERARCHY)
    rig.cycle()
    quotas_of(rig).reservations.refresh()
    return rig


@pytest.mark.parametrize("admitted", [4, 40])
def test_a_vote_counts_jobs_that_changed_and_not_all_that_are_admitted(
    admitted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = with_admitted(admitted)
    asked: list[str] = []
    minimum = DeviceDemands.minimum

    def counting(demands: DeviceDemands, job: JobInfo, *rest: Any) -> Amounts:
        asked.append(job.name)
        return minimum(demands, job, *rest)

    monkeypatch.setattr(DeviceDemands, "minimum", counting)
    voting = ClusterBuilder()
    for name in ("v0", "v1", "v2"):
        wanting(voting, name, exactly(), queue="q0", phase="Pending")
    rig.cycle(*voting.changes())

    assert [rig.cluster.jobs[f"default/{name}"].phase for name in ("v0", "v1", "v2")] == [INQUEUE] * 3
    voted, counted = ("v0", "v1", "v2") * 3, ("v0", "v1", "v2")
    assert sorted(asked) == sorted(voted + counted), "once for each of three queues, and once more when admitted"


class Watched(dict[str, QueueInfo]):
    """Queues that count how often all of them were walked through."""

    walks = 0

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()


def walks(pods: int) -> int:
    rig = with_admitted(3)
    more = a_cluster().node("n1")
    for number in range(pods):
        wanting(more, f"more{number}", exactly(), queue="q0")
    rig.mirror.apply(more.changes())
    watched = rig.cluster.queues = Watched(rig.cluster.queues)
    assert rig.cycle().bindings
    return watched.walks


def test_pods_that_are_asked_about_walk_through_no_queues() -> None:
    assert walks(20) == walks(1)
