"""Volcano Jobs as large as users may write them: looked at in slices, each of which costs what it changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import msgspec
import pytest

from tests.controllers.cases import NOW, Cluster, Json, a_group, a_job, a_member, a_pod, a_task, reference
from volsched.controllers import jobs
from volsched.controllers.counted import KEY, Counted, Restart, counted_in
from volsched.controllers.job_controller import PODS_AT_ONCE, JobSurroundings, JobView, ReconcileResult, reconcile
from volsched.controllers.job_plugins import PLAYED
from volsched.controllers.job_plugins.flags import read
from volsched.controllers.job_pods import MOST_BYTES, MOST_BYTES_ADDED, PodMaker
from volsched.controllers.lifecycle import MOST_LOSSES, JobPod
from volsched.controllers.pod_index import JobPodIndex
from volsched.controllers.store import CONDEMNED_AT_ONCE
from volsched.controllers.writes import JOB, POD, Create, Delete, Patch
from volsched.model import api
from volsched.model.changes import Deleted

GROUP = a_group("train-uid-train", phase="Inqueue")
NUMBERS = 10
"""Steps that a number with more digits may take."""
FRAMEWORKS = [{}, {"svc": []}, {"ssh": []}, {"tensorflow": []}, {"mpi": []}, {"pytorch": []}]


def with_containers(task: Json, number: int) -> Json:
    spec = task["template"]["spec"]
    spec["containers"] = [{**spec["containers"][0], "name": f"c{at}"} for at in range(number)]
    return task


def pods(number: int, phase: str = "Running", task: str = "worker") -> list[JobPod]:
    return [a_member(task, at, phase) for at in range(number)]


def look(view: JobView, members: Iterable[JobPod] = ()) -> ReconcileResult:
    return reconcile(view, JobSurroundings(JobPodIndex.of("train", members), GROUP, {}, "default"), NOW)


def names(outcome: ReconcileResult, kind: type[Create] | type[Delete]) -> list[str]:
    return [write.name for write in outcome.writes if isinstance(write, kind) and write.kind is POD]


def steps(work: Callable[[], object]) -> int:
    """How many lines of Python a piece of work runs, those of loops each time."""
    count = 0

    def step(_: FrameType, event: str, __: Any) -> Any:
        nonlocal count
        count += event in ("line", "call")
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


# --- slices ---------------------------------------------------------------------------------------------------------


def test_no_more_than_a_slice_of_pods_is_made_at_a_look_and_the_rest_at_the_next_ones() -> None:
    view = a_job(a_task("worker", 1_200), phase="Pending")
    there: list[JobPod] = []
    made: list[int] = []
    while not made or made[-1] == PODS_AT_ONCE:
        outcome = look(view, there)
        new = names(outcome, Create)
        made.append(len(new))
        assert (outcome.room == 0) == (len(new) == PODS_AT_ONCE)
        there += [a_member("worker", int(name.rpartition("-")[2]), "Pending") for name in new]

    assert made == [500, 500, 200]
    assert names(look(view, there), Create) == []


def test_bodies_are_made_when_they_are_written_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    body = PodMaker.body

    def counted(self: PodMaker, member: jobs.WantedPod, group: str) -> Json:
        made.append(member.name)
        return body(self, member, group)

    monkeypatch.setattr(PodMaker, "body", counted)
    outcome = look(a_job(a_task("worker", 1_000), phase="Pending"))
    assert made == []

    create = next(write for write in outcome.writes if isinstance(write, Create) and write.kind is POD)
    assert create.body["metadata"]["name"] == "train-worker-0"
    assert made == ["train-worker-0"]


@pytest.mark.parametrize("phase", ["Restarting", "Aborting", "Completed"])
def test_a_job_is_stopped_in_slices(phase: str) -> None:
    pod_index = JobPodIndex.of("train", pods(1_200))
    view = a_job(a_task("worker", 1_200), phase=phase)
    gone: list[int] = []
    for _ in range(4):
        deleted = [
            write for write in look(view, pod_index).writes if isinstance(write, Delete) and write.kind.name == "Pod"
        ]
        gone.append(len(deleted))
        for write in deleted:
            pod_index.kill(write.uid)
            pod_index.asked(write.uid)

    assert gone == [500, 500, 200, 0]


def test_what_an_action_did_away_with_is_counted_once_and_deleted_in_slices() -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    view = a_job(a_task("worker", 1_200), phase="Running", policies=policies)
    pod_index = JobPodIndex.of("train", [*pods(1_199), a_member("worker", 1_199, "Failed")])

    outcome = look(view, pod_index)
    first, *deletions = outcome.writes
    assert isinstance(first, Patch)
    [restart] = counted_in(first.body["status"]["controlledResources"]).restarts
    condemned = list(restart.pods(pod_index))
    assert len(condemned) == 1_200
    assert len(deletions) == 500
    for pod in condemned:
        pod_index.kill(pod.uid)
    for write in deletions[:400]:  # the others are refused
        assert isinstance(write, Delete)
        pod_index.asked(write.uid)

    later = []
    for _ in range(3):
        outcome = look(view, pod_index)
        assert not outcome.acted
        uids = [write.uid for write in outcome.writes if isinstance(write, Delete)]
        later.append(len(uids))
        for uid in uids:
            pod_index.asked(uid)
    assert later == [500, 300, 0]


def a_pod_of(task: str, number: int, uid: str = "") -> api.Pod:
    notes = {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(number)}
    owner = reference("Job", "train", JOB.group_version)
    pod = a_pod(f"train-{task}-{number}", owner=owner, annotations=notes, phase="Running")
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid or pod.metadata.uid))


@pytest.mark.parametrize("is_replaced", [False, True], ids=["one version", "a version in between"])
def test_pods_that_a_restart_is_about_are_marked_in_slices(is_replaced: bool) -> None:
    number = 2 * CONDEMNED_AT_ONCE + 100
    cluster = Cluster()
    for at in range(number):
        cluster.put(a_pod_of("worker", at))
    tasks, counted = a_task("worker", number), Counted((Restart("worker", 0, None, 1),))
    status = {"retryCount": 1, "controlledResources": {KEY: counted.text()}}

    def put(**fields: Any) -> None:
        cluster.store.put_job("ns/train", a_job(tasks, phase="Running", **fields))

    def marked() -> int:
        return sum(pod.killed for pod in cluster.store.around(cluster.store.jobs["ns/train"]).pods)

    put()
    put(status=status)
    found = [marked()]
    if is_replaced:
        put(status=status | {"running": 5})
    while cluster.store.condemn_some(cluster.store.jobs["ns/train"]):
        found.append(marked())
    assert [*found, marked()] == [CONDEMNED_AT_ONCE, 2 * CONDEMNED_AT_ONCE, number]


def test_of_very_many_lost_pods_the_first_ones_of_each_task_are_remembered() -> None:
    cluster = Cluster()
    cluster.store.put_job("ns/train", a_job(a_task("worker", 1_000), a_task("master"), phase="Running"))
    gone = [("worker", at) for at in range(1_000)] + [("master", 0)]
    for task, number in gone:
        cluster.put(a_pod_of(task, number))
        cluster.store.gone(Deleted("Pod", "ns", f"train-{task}-{number}", f"uid-train-{task}-{number}"))

    losses = [(loss.task, loss.number) for loss in cluster.store.jobs["ns/train"].losses]
    assert losses == [*gone[:MOST_LOSSES], ("master", 0)]

    cluster.put(a_pod_of("worker", 3, "another"))
    assert len(cluster.store.jobs["ns/train"].losses) == MOST_LOSSES


# --- growth ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Running", "Completing", "Completed"])
def test_a_look_at_a_job_that_stands_costs_the_same_whatever_number_of_pods_it_has(phase: str) -> None:
    def cost(number: int) -> int:
        ended = "Running" if phase == "Running" else "Succeeded"
        view, pod_index = a_job(a_task("worker", number), phase=phase), JobPodIndex.of("train", pods(number, ended))
        return steps(lambda: look(view, pod_index))

    assert cost(5_000) <= cost(500) + NUMBERS


def test_nor_does_it_grow_with_the_pods_that_are_there_already_while_others_are_made() -> None:
    def cost(number: int) -> int:
        view = a_job(a_task("worker", number), phase="Pending")
        pod_index = JobPodIndex.of("train", pods(number - 10, "Pending"))
        return steps(lambda: look(view, pod_index))

    assert cost(5_000) <= cost(500) + NUMBERS


@pytest.mark.parametrize("event", ["PodPending", "PodRunning", "PodFailed", "TaskFailed", "TaskCompleted"])
def test_policies_cost_no_more_than_a_glance_at_each_pod(event: str) -> None:
    phase = {"PodPending": "Pending", "PodFailed": "Failed", "TaskCompleted": "Succeeded"}.get(event, "Running")

    def cost(number: int) -> int:
        policies = [{"event": event, "action": "RestartJob", "timeout": "1h"}]
        view = a_job(a_task("worker", number), phase="Running", policies=policies)
        pod_index = JobPodIndex.of("train", pods(number, phase))
        return steps(lambda: look(view, pod_index))

    assert cost(5_000) <= 11 * cost(500)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: ([a_task(f"t{at}") for at in range(n)], {}),
        lambda n: ([a_task(f"t{at}") for at in range(n)], {"plugins": {"svc": []}}),
        lambda n: ([a_task(f"t{at}", dependsOn={"name": [f"t{at - 1}"]} if at else {}) for at in range(n)], {}),
        lambda n: ([a_task(f"t{at}", dependsOn={"name": [f"t{(at + 1) % n}"]}) for at in range(n)], {}),
        lambda n: ([a_task("a"), a_task("b", dependsOn={"name": ["a"] * 100 * n})], {}),
        lambda n: ([a_task("a", policies=[{"exitCode": at + 1, "action": "AbortJob"} for at in range(n // 4)])], {}),
        lambda n: (
            [a_task("a")],
            {"volumes": [{"mountPath": f"/{at}", "volumeClaimName": "c"} for at in range(n // 4)]},
        ),
        lambda n: ([a_task("a")], {"plugins": {"svc": ["--odd"] * 100 * n}}),
        lambda n: ([a_task("a")], {"plugins": {f"p{at}": [] for at in range(100 * n)}}),
    ],
    ids=["tasks", "svc", "chain", "circle", "names", "policies", "volumes", "arguments", "plugins"],
)
def test_what_users_may_write_many_of_costs_no_square(make: Callable[[int], tuple[list[Json], Json]]) -> None:
    def cost(number: int) -> int:
        tasks, spec = make(number)

        def whole() -> None:
            outcome = look(a_job(*tasks, phase="Pending", **spec))
            list(outcome.writes[:1])

        return steps(whole)

    assert cost(200) <= 5 * cost(50)


@pytest.mark.parametrize("plugins", [*FRAMEWORKS[3:], {"tensorflow": [], "mpi": []}], ids=str)
def test_what_all_pods_are_told_is_made_once(plugins: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    pod_name = jobs.pod_name

    def counted(*args: Any) -> str:
        named.append(pod_name(*args))
        return named[-1]

    monkeypatch.setattr(jobs, "pod_name", counted)
    view = a_job(a_task("master"), a_task("worker", 4_000), phase="Pending", plugins=plugins)
    named.clear()

    outcome = look(view)
    for write in outcome.writes:
        if isinstance(write, Create):
            assert write.body

    assert len(names(outcome, Create)) == PODS_AT_ONCE
    assert len(named) <= 4_001 + 2 * PODS_AT_ONCE + NUMBERS


@pytest.mark.parametrize("plugins", FRAMEWORKS, ids=str)
def test_a_pod_takes_no_longer_to_make_when_it_has_more_companions(plugins: Json) -> None:
    def cost(workers: int) -> int:
        view = a_job(a_task("master"), a_task("worker", workers), phase="Pending", plugins=plugins)
        first, second, *_ = (write for write in look(view).writes if isinstance(write, Create) and write.kind is POD)
        assert first.body
        return steps(lambda: second.body)

    assert cost(2_000) <= cost(20) + NUMBERS


def test_arguments_beyond_those_that_are_read_cost_nothing() -> None:
    def cost(number: int) -> int:
        return steps(lambda: read(PLAYED["svc"].flags, ["--odd"] * number))

    assert cost(20_000) <= cost(65) + NUMBERS


# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "plugins", "said"),
    [
        ([a_task("worker", 60_000)], {"svc": []}, "the plugin svc would make an object of"),
        ([a_task("worker", 60_000)], {"ssh": []}, "the plugin ssh would make an object of"),
        ([with_containers(a_task("worker", 15_000), 3)], {"tensorflow": []}, "MiB of it by the plugin tensorflow"),
        ([a_task("worker", 10_000)], {"tensorflow": []}, "plugins would add"),
    ],
    ids=["svc", "ssh", "tensorflow", "all"],
)
def test_a_job_that_asks_for_more_than_kubernetes_takes_is_refused_before_it_is_made(
    tasks: list[Json], plugins: Json, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str] = []
    pod_name = jobs.pod_name
    monkeypatch.setattr(jobs, "pod_name", lambda *args: named.append("") or pod_name(*args))  # type: ignore[func-returns-value]

    outcome = look(a_job(*tasks, plugins=plugins))

    assert outcome.writes == []
    [tell] = outcome.events
    assert tell.reason == "JobTooLarge"
    assert said in tell.message
    assert len(named) < 50


@pytest.mark.parametrize(
    "plugins", [{}, {"svc": []}, {"ssh": []}, {"tensorflow": []}, {"mpi": []}, {"pytorch": []}], ids=str
)
@pytest.mark.parametrize("containers", [1, 3])
def test_what_is_made_is_never_larger_than_what_was_foreseen(plugins: Json, containers: int) -> None:
    tasks = [a_task("master"), a_task("worker", 300), a_task("side-car", 2)]
    for task in tasks:
        with_containers(task, containers)["template"]["spec"]["initContainers"] = [{"name": "before"}]
    volumes = [{"mountPath": "/data", "volumeClaimName": "c"}]
    view = a_job(*tasks, phase="Pending", plugins=plugins, volumes=volumes)
    assert view.problem == ""
    maker = PodMaker(view.job, view.parts)

    for task in view.job.spec.tasks:
        pod = maker.body(jobs.WantedPod(task, task.replicas - 1, jobs.pod_name(view.job, task, task.replicas - 1)), "g")
        foreseen = maker._bytes(task) + sum(maker._outfit.bytes_added(task).values())
        assert len(msgspec.json.encode(pod["spec"])) <= foreseen + 200
    for made in maker.preparations():
        foreseen = max(maker._outfit.bytes_made().values(), default=0)
        assert len(msgspec.json.encode(made.body.get("data", {}))) <= foreseen + 500


def test_limits_are_those_of_kubernetes() -> None:
    assert (MOST_BYTES, MOST_BYTES_ADDED) == (2**20, 2**30)


def test_a_job_of_ever_so_many_replicas_is_refused_before_anything_is_counted_one_by_one() -> None:
    def cost(replicas: int) -> int:
        return steps(lambda: look(a_job(a_task("worker", replicas), plugins={"svc": []})))

    assert cost(2**31 - 1) <= cost(200_000) + 5


def test_a_job_that_is_refused_leaves_nothing_in_memory_but_who_it_is() -> None:
    view = a_job(a_task("worker", 200_000))

    assert view.problem
    assert view.job.spec.tasks == ()
    assert view.parts.templates == ()
    assert view.status == {}
