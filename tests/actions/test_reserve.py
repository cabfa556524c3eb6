"""reserve: nodes are held for gangs that starve else, the promise is kept, and others may fill the gaps.

Jobs are played in virtual time by `replay`, so that what is promised can be held against what comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from actions.reserve.book import Book, DurationSettings
from actions.reserve.trust import Trust
from tests.actions.rigs import conf, cycle, echo, events, finished, gone, rig
from volsched.model import api
from volsched.model.durations import end_of
from volsched.model.held_nodes import RESERVED, condition_of, stated_reservation_in
from volsched.model.plan import WriteGroupStatus
from volsched.model.pods.task import TaskInfo
from volsched.registry import load_profile
from volsched.replay.jobs import ReplayJob, Role
from volsched.replay.records import JobRecord
from volsched.replay.runner import Replay, ReplaySettings
from volsched.simulation.manifests import Inventory, decode
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster, a_node, a_pod, a_queue, put

HOUR = 3600.0
NOW = 1_767_225_600.0
PLAIN = conf("enqueue, allocate, backfill", "priority gang", "predicates")
RESERVING = conf("enqueue, reserve, allocate, backfill", "priority gang", "predicates")
CARD = "nvidia.com/gpu"


def with_arguments(base: str = RESERVING, **arguments: Any) -> str:
    lines = [f"    reserve.{key}: {value}" for key, value in arguments.items()]
    return "\n".join([base, "configurations:", "- name: reserve", "  arguments:", *lines])


# -- in virtual time ------------------------------------------------------------------------------------------------


def a_job(name: str, submit: float, duration: float, cards: int, pods: int = 1, **further: Any) -> ReplayJob:
    container = api.Container(name="main", resources=api.ResourceRequirements(requests={CARD: str(cards)}))
    template = api.PodTemplateSpec(spec=api.PodSpec(scheduler_name="volsched", containers=(container,)))
    return ReplayJob(
        name, "default", "default", submit * HOUR, duration * HOUR, (Role.of(template, pods),), pods, **further
    )


def played(configuration: str, jobs: Sequence[ReplayJob], nodes: int = 2, **queue: Any) -> dict[str, JobRecord]:
    inventory = Inventory()
    inventory.objects += [decode(a_node(f"n{number}", **{CARD: 8})) for number in range(nodes)]
    inventory.objects += [decode(a_queue(name, **queue)) for name in sorted({"default", *(job.queue for job in jobs)})]
    profile, _ = load_profile(configuration)
    return {record.job.name: record for record in Replay(inventory, profile, jobs, ReplaySettings(("volsched",))).run()}


def a_stream(declared: bool, hours: int = 60) -> list[ReplayJob]:
    """One-card jobs of two hours, more than two nodes can take, and a gang that needs both nodes."""
    spare = {"declared": 2 * HOUR} if declared else {}
    small = [a_job(f"small-{n}", n / 9, 2, 1, **spare) for n in range(9 * hours)]
    return [*small, a_job("gang", 2, 1, 8, pods=2, **({"declared": HOUR} if declared else {}))]


def wait_of(record: JobRecord) -> float:
    assert record.start is not None
    return (record.start - record.job.submit) / HOUR


@pytest.mark.slow(reason="days of a stream of jobs")
def test_without_the_action_a_gang_waits_until_the_stream_of_small_jobs_is_over() -> None:
    assert wait_of(played(PLAIN, a_stream(declared=False))["gang"]) > 50


@pytest.mark.slow(reason="days of a stream of jobs")
def test_a_gang_starts_once_the_longest_job_is_over_though_nobody_says_how_long_jobs_run() -> None:
    gang = played(RESERVING, a_stream(declared=False))["gang"]

    assert wait_of(gang) <= 1 + 2.01
    assert gang.promised[0][1] is None


@pytest.mark.slow(reason="days of a stream of jobs")
def test_a_gang_starts_when_promised_where_durations_are_declared() -> None:
    gang = played(RESERVING, a_stream(declared=True))["gang"]

    promised = gang.promised[0][1]
    assert promised is not None
    assert gang.start is not None
    assert gang.start <= promised
    assert wait_of(gang) <= 1 + 2.01


def test_short_jobs_fill_held_nodes_and_long_ones_do_not() -> None:
    busy = [a_job(f"busy-{n}", 0, 4, 8, declared=4 * HOUR) for n in range(2)]
    first = [a_job("over-soon", 0, 1.5, 4, declared=1.5 * HOUR)]
    gang = a_job("gang", 0.1, 1, 8, pods=3, declared=HOUR)
    later = [a_job("short", 1.6, 1, 4, declared=HOUR), a_job("long", 1.6, 9, 4, declared=9 * HOUR)]
    found = played(RESERVING, [*busy, *first, gang, *later], nodes=3)

    assert wait_of(found["short"]) == 0
    assert found["gang"].start == 4 * HOUR
    assert found["long"].start == 5 * HOUR


@pytest.mark.slow(reason="days of a stream of jobs")
def test_jobs_of_one_node_are_promised_nothing_unless_asked_for() -> None:
    stream = [job for job in a_stream(declared=False) if job.name != "gang"] + [a_job("whole", 2, 1, 8)]

    assert wait_of(played(RESERVING, stream)["whole"]) > 50
    assert wait_of(played(with_arguments(minNodes=0), stream)["whole"]) <= 1 + 2.01


def test_a_gang_that_no_nodes_can_ever_take_holds_none() -> None:
    jobs = [*a_stream(declared=False, hours=6), a_job("huge", 2, 1, 8, pods=3)]
    found = played(RESERVING, [job for job in jobs if job.name != "gang"])

    assert found["huge"].start is None
    assert found["huge"].promised == ()


AT_ONCE = {"volsched.io/reserve-after": "0s"}


def promised_at(configuration: str, gang: dict[str, str], queue: dict[str, str]) -> float:
    """When a gang that comes after two hours is promised nodes, in hours after that."""
    stream = a_stream(declared=True, hours=8)[:-1]
    jobs = [*stream, a_job("gang", 2, 1, 8, pods=2, annotations=gang)]
    return played(configuration, jobs, annotations=queue)["gang"].promised[0][0] / HOUR - 2


@pytest.mark.parametrize(
    ("gang", "queue", "hours"),
    [
        (AT_ONCE, {}, 1),
        ({"volcano.sh/sla-waiting-time": "1m"}, {}, 1),
        ({"sla-waiting-time": "1m"}, {}, 1),
        ({"volsched.io/reserve-after": "-1h"}, {}, 1),
        ({"volsched.io/reserve-after": "2h"}, {}, 2),
        ({}, AT_ONCE, 0),
        ({"volsched.io/reserve-after": "30m"}, AT_ONCE, 0.5),
        ({}, {"volsched.io/reserve-after": "9h"}, 1),
        ({}, {"volsched.io/reserve-after": "soon"}, 1),
    ],
)
def test_only_who_writes_queues_has_nodes_held_before_the_configured_time(
    gang: dict[str, str], queue: dict[str, str], hours: float
) -> None:
    assert promised_at(RESERVING, gang, queue) == pytest.approx(hours, abs=0.03)


def test_a_queue_that_says_so_later_has_its_jobs_due_then() -> None:
    made = rig(a_full_cluster(), with_arguments(after="9h"))
    cycle(made)
    assert held(made) == ()

    cycle(made, put(a_queue("default", annotations=AT_ONCE)))

    assert held(made) == ("n1", "n2")


SHARED = conf("enqueue, reserve, allocate, backfill", "priority gang", "predicates proportion")


def in_queue(queue: str, *jobs: ReplayJob) -> list[ReplayJob]:
    return [replace(job, queue=queue) for job in jobs]


@pytest.mark.parametrize("declared", [True, False])
def test_a_promise_holds_though_other_queues_ask_for_more_and_leave_its_queue_a_smaller_share(declared: bool) -> None:
    """The gang needs two of four nodes, which its queue deserves until a third queue asks for as much."""
    said = {"declared": 4 * HOUR} if declared else {}
    busy = in_queue("b", *(a_job(f"busy{number}", 0, 4, 8, **said) for number in range(3)))
    gang = a_job("gang", 0.1, 1, 8, pods=2, **({"declared": HOUR} if declared else {}))
    more = [a_job(f"more{number}", 2, 6, 8, **({"declared": 6 * HOUR} if declared else {})) for number in range(6)]
    found = played(SHARED, [*busy, gang, *in_queue("b", *more[:3]), *in_queue("c", *more[3:])], nodes=4)["gang"]

    assert found.promised[0][1] == (4 * HOUR if declared else None)
    assert found.start == 4 * HOUR


def test_a_job_is_promised_nothing_while_its_queue_holds_its_share() -> None:
    """Nodes are free after two hours, but the queue holds its share until its own job is over after four."""
    own = a_job("own", 0, 4, 8, declared=4 * HOUR)
    busy = in_queue("b", *(a_job(f"busy{number}", 0, 2, 8, declared=2 * HOUR) for number in range(2)))
    wanting = in_queue("b", *(a_job(f"wanting{number}", 0.2, 9, 8, declared=9 * HOUR) for number in range(4)))
    gang = a_job("gang", 0.1, 1, 8, pods=2, declared=HOUR)
    found = played(SHARED, [own, *busy, gang, *wanting], nodes=4)["gang"]

    assert found.promised == () or found.promised[0][0] >= 4 * HOUR
    assert found.start is not None
    assert found.start >= 4 * HOUR


WORLDS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 6), st.integers(1, 8), st.integers(1, 3)), min_size=4, max_size=25
)


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(WORLDS, st.integers(1, 4))
def test_no_job_starts_later_than_first_promised_where_durations_are_exact(
    world: list[tuple[int, int, int, int]], most: int
) -> None:
    jobs = [
        a_job(f"j{number:02}", submit / 2, hours, cards, pods=pods, declared=hours * HOUR)
        for number, (submit, hours, cards, pods) in enumerate(world)
    ]
    found = played(with_arguments(jobs=most, after="30m"), jobs, nodes=3)

    for record in found.values():
        start = next((start for _, start in record.promised), None)
        assert record.start is not None
        assert start is None or record.start <= start


def shadow_time(gang: ReplayJob, at: float, records: Sequence[JobRecord], nodes: int) -> float:
    """Return when EASY backfilling says that the head of the queue starts: as running jobs end, by their durations.

    Each pod of these worlds has more than half a node, or its job has one pod: no node has two pods of a job.
    """
    cards = _cards_of(gang)
    running = [r for r in records if r.start is not None and r.end is not None and r.start <= at < r.end]
    for time in sorted({at, *(record.end or 0.0 for record in running)}):
        used = dict.fromkeys((f"n{number}" for number in range(nodes)), 0)
        for record in running:
            for node in record.nodes if (record.end or 0.0) > time else ():
                used[node] += _cards_of(record.job)
        if sum(1 for taken in used.values() if taken + cards <= 8) >= gang.min_pods:
            return time
    raise AssertionError(f"{gang.name} never fits")


def _cards_of(job: ReplayJob) -> int:
    return int(job.roles[0].request[CARD]) // 1000


@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(WORLDS)
def test_the_one_promised_job_starts_exactly_when_easy_backfilling_says(
    world: list[tuple[int, int, int, int]],
) -> None:
    """Of all the starts before it, none made it later, and none of those after it went first."""
    jobs = [
        a_job(f"j{n:02}", submit / 2, hours, max(cards, 5) if pods > 1 else cards, pods=pods, declared=hours * HOUR)
        for n, (submit, hours, cards, pods) in enumerate(world)
    ]
    records = list(played(with_arguments(jobs=1, after="30m"), jobs, nodes=3).values())

    for record in (record for record in records if record.promised):
        said_at, promised = record.promised[0]
        assert promised == shadow_time(record.job, said_at, records, nodes=3)
        assert record.start == promised


# -- what is said, and remembered -----------------------------------------------------------------------------------


def a_full_cluster(**group: Any) -> ClusterBuilder:
    """Two nodes that a job of unknown length fills, and a gang that has waited for hours."""
    made = a_cluster().node("n1", **{CARD: 8}).node("n2", **{CARD: 8}).queue("default")
    made.group("old").pod("old-0", "old", on="n1", **{CARD: 1})
    made.group("gang", minimum=2, created="2025-12-31T20:00:00Z", **group)
    for number in range(2):
        made.pod(f"gang-{number}", "gang", **{CARD: 8})
    return made


def held(on: Rig, name: str = "gang") -> tuple[str, ...]:
    condition = next((c for c in on.cluster.jobs[f"default/{name}"].conditions if c.type == RESERVED), None)
    promise = stated_reservation_in(condition.message) if condition is not None else None
    return promise.nodes if promise is not None else ()


def in_order(on: Rig) -> list[str]:
    """Whose promises come first: the first one takes room, and its share of a queue, before the others."""
    [book] = [observer for observer in on.cluster.observers if isinstance(observer, Book)]
    return list(book.kept)


def test_the_gang_is_told_its_nodes_and_others_who_has_them() -> None:
    made = rig(a_full_cluster(), RESERVING)
    first = cycle(made)
    small = cycle(made, *[put(o) for o in a_cluster().job("small", 1, **{CARD: 1}).objects])

    assert held(made) == ("n1", "n2")
    assert "kept free for gang default/gang" in first.waiting["gang-0"]
    assert "1 pod(s) there declare no duration" in first.waiting["gang-0"]
    assert [reason for about, reason, _ in events(first) if about == "PodGroup/gang"].count(RESERVED) == 1
    assert "2 node(s) were reserved for default/gang" in small.waiting["small-0"]
    assert any(isinstance(step, WriteGroupStatus) and step.name == "gang" for step in first.steps)


def test_room_is_kept_for_who_waits_for_nodes_that_are_held_for_others() -> None:
    """Its nodes are held for a while, which eviction does not change; it is no job that could never be placed."""
    made = rig(a_full_cluster(), conf("enqueue, reserve, allocate", "priority gang", "overcommit predicates"))
    cycle(made)
    asks = a_cluster().group("small", phase="Pending", minResources={CARD: "1"}).pod("small-0", "small", **{CARD: 1})

    assert "2 node(s) were reserved" in cycle(made, *[put(o) for o in asks.objects]).waiting["small-0"]
    assert made.cluster.jobs["default/small"].keeps_room


def test_a_new_leader_holds_the_same_nodes_in_the_same_order() -> None:
    cluster = a_full_cluster().node("n3", **{CARD: 8}).pod("other-0", on="n3", **{CARD: 8})
    before = rig(cluster, RESERVING)
    after_write = echo(before, cluster, cycle(before))
    again = rig(cluster, RESERVING)
    again.mirror.apply(after_write)
    second = cycle(again)

    assert held(again) == held(before) == ("n1", "n2")
    assert ("PodGroup/gang", RESERVED) not in [(about, reason) for about, reason, _ in events(second)]


@pytest.mark.parametrize("bound", ["n1", None])
def test_a_promise_that_a_leader_leaves_behind_is_taken_out_of_the_status_when_it_is_over(bound: str | None) -> None:
    """It died between the bindings and the status of the PodGroup, or a node that it had promised is gone."""
    promise = promise_in_words("n1" if bound else "gone")
    cluster = a_cluster().node("n1", **{CARD: 8}).group("gang", minimum=1, phase="Running", status=promise)
    cluster.pod("gang-0", "gang", bound, **{CARD: 8 if bound else 16})
    on = rig(cluster, RESERVING)

    decision = cycle(on)

    [status] = [step for step in decision.steps if isinstance(step, WriteGroupStatus)]
    assert RESERVED not in {condition.type for condition in status.conditions}
    assert held(on) == ()


def promise_in_words(*nodes: str) -> dict[str, Any]:
    stated = condition_of(0.0, None, nodes)
    parts = {"type": stated.type, "status": stated.status, "reason": stated.reason, "message": stated.message}
    return {"conditions": [parts]}


def two_promises() -> ClusterBuilder:
    """Four nodes that long jobs hold in part, and two gangs of different queues that need two nodes each."""
    made = a_cluster()
    for number in range(4):
        made.node(f"n{number}", **{CARD: 8}).group(f"old{number}")
        made.pod(f"old{number}-0", f"old{number}", on=f"n{number}", **{CARD: 1 + number})
    for name, hour in (("late", 21), ("early", 20)):
        made.queue(name).group(name, minimum=2, queue=name, created=f"2025-12-31T{hour}:00:00Z")
        for number in range(2):
            made.pod(f"{name}-{number}", name, **{CARD: 8})
    return made


def test_a_scheduler_that_dies_between_any_two_writes_is_followed_by_one_that_promises_the_same() -> None:
    """Writes of one session are made side by side: any of them may be the one that was not made."""
    configuration = with_arguments(drains=2, share=1)
    before = rig(two_promises(), configuration)
    decision = cycle(before)
    promised = {name: held(before, name) for name in ("early", "late")}
    assert sorted(promised.values()) == [("n0", "n1"), ("n2", "n3")]

    written = [decision.steps[:count] for count in range(len(decision.steps) + 1)]
    written += [[*decision.steps[:count], *decision.steps[count + 1 :]] for count in range(len(decision.steps))]
    for steps in written:
        cluster = two_promises()
        again = rig(cluster, configuration)
        again.mirror.apply(echo(before, cluster, replace(decision, steps=steps)))
        for _ in range(2):
            cycle(again)
            assert {name: held(again, name) for name in promised} == promised
            assert in_order(again) == in_order(before) == ["default/early", "default/late"]


def test_what_somebody_annotates_promises_nothing() -> None:
    notes = {"volsched.io/reserved-nodes": "n2", RESERVED: condition_of(NOW, None, ["n2"]).message}
    cluster = a_cluster().node("n1", **{CARD: 8}).node("n2", **{CARD: 8}).queue("default")
    cluster.group("liar", minimum=2, annotations=notes).pod("liar-0", "liar", **{CARD: 8})
    made = rig(cluster, RESERVING)
    decision = cycle(made, *[put(o) for o in a_cluster().job("whole", 2, **{CARD: 8}).objects])

    assert set(decision.bindings.values()) == {"n1", "n2"}


def test_a_gang_beyond_its_quota_holds_no_nodes() -> None:
    tiers = ("priority gang", "predicates proportion")
    cluster = a_full_cluster(queue="small").queue("small", capability={CARD: 4})
    made = rig(cluster, conf("enqueue, reserve, allocate", *tiers))
    cycle(made)

    assert held(made) == ()


def test_a_more_important_pod_goes_where_nodes_are_held() -> None:
    made = rig(a_full_cluster(), RESERVING)
    cycle(made)
    important = a_cluster().job("urgent", 1, **{CARD: 1}, spec={"priority": 1000})
    important.add(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    )
    for each in important.objects:
        if each["kind"] == "PodGroup":
            each["spec"]["priorityClassName"] = "high"
    changes = sorted(
        (put(each) for each in important.objects), key=lambda c: type(c.object).__name__ != "PriorityClass"
    )
    decision = cycle(made, *changes)

    assert "urgent-0" in decision.bindings


def test_a_gang_that_is_given_up_leaves_its_nodes() -> None:
    made = rig(a_full_cluster(), RESERVING)
    cycle(made)
    changed = {**a_full_cluster().objects[5], "spec": {"queue": "default", "minMember": 5}}
    decision = cycle(made, put(changed))

    assert held(made) == ()
    assert "ReservationLost" in [reason for _, reason, _ in events(decision)]


@pytest.mark.parametrize(
    ("duration", "now", "end"), [(60, 30, 60), (60, 60, 360), (3600, 3600, 7200), (3600, 8000, 14400)]
)
def test_who_outlives_an_estimate_is_thought_to_run_as_long_again(duration: float, now: float, end: float) -> None:
    assert end_of(0, duration, now) == end


def test_a_promise_is_read_as_it_was_written() -> None:
    for start in (None, NOW + HOUR):
        promise = stated_reservation_in(condition_of(NOW, start, ["n1", "n2"]).message)
        assert promise == (NOW, start, ("n1", "n2"))
    assert stated_reservation_in("promised at noon") is None


# -- beside a promise, and in its place -----------------------------------------------------------------------------


def test_a_pod_goes_on_a_held_node_where_there_is_room_for_both_and_on_no_other() -> None:
    made = rig(a_parted_cluster(), RESERVING)
    cycle(made)
    assert held(made) == ("n1", "n2")
    small = a_cluster()
    for number in range(3):
        small.job(f"small{number}", 1, cpu=4)
    decision = cycle(made, *changes_of(small))

    assert sorted(decision.bindings.values()) == ["n1", "n2"]
    assert "were reserved for default/gang" in decision.waiting["small2-0"]


def a_parted_cluster() -> ClusterBuilder:
    """A gang waits for cards; it leaves six CPUs on each of the two nodes that are held for it."""
    made = a_cluster().node("n1", cpu=16, **{CARD: 8}).node("n2", cpu=16, **{CARD: 8}).queue("default")
    made.group("old").pod("old-0", "old", on="n1", cpu=1, **{CARD: 1}).group("old2").pod(
        "old2-0", "old2", on="n2", cpu=1, **{CARD: 1}
    )
    made.group("gang", minimum=2, created="2025-12-31T20:00:00Z")
    for number in range(2):
        made.pod(f"gang-{number}", "gang", cpu=10, **{CARD: 8})
    return made


def changes_of(further: ClusterBuilder) -> list[Any]:
    return [put(each) for each in further.objects]


def an_important_gang() -> ClusterBuilder:
    made = a_cluster()
    made.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})
    made.group("urgent", minimum=2, created="2025-12-31T20:00:00Z", priorityClassName="high")
    for number in range(2):
        made.pod(f"urgent-{number}", "urgent", spec={"priority": 9}, **{CARD: 8})
    return made


def test_a_promise_ends_where_a_more_important_job_needs_its_place_and_is_told() -> None:
    made = rig(a_full_cluster(), RESERVING)
    cycle(made)
    decision = cycle(made, *changes_of(an_important_gang()))

    assert held(made, "urgent") == ("n1", "n2")
    assert held(made) == ()
    lost = [text for about, reason, text in events(decision) if (about, reason) == ("PodGroup/gang", "ReservationLost")]
    assert lost == [
        "nodes are held for it no longer: default/urgent, which is more important, is promised nodes in its place"
    ]


@pytest.mark.parametrize(("cards", "is_lost"), [(8, True), (5, False)])
def test_a_promise_is_made_anew_when_the_members_that_start_become_larger(cards: int, is_lost: bool) -> None:
    """The queue's share was judged for those that were there; the author may replace small members by large ones."""
    cluster = a_cluster().node("n1", **{CARD: 8}).node("n2", **{CARD: 8}).queue("default")
    cluster.group("old").pod("old-0", "old", on="n1", **{CARD: 7})
    cluster.group("gang", minimum=2, created="2025-12-31T20:00:00Z")
    for number, of_each in enumerate((5, 5, cards)):
        cluster.pod(f"gang-{number}", "gang", **{CARD: of_each})
    made = rig(cluster, RESERVING)
    cycle(made)
    assert held(made) == ("n1", "n2")
    decision = cycle(made, gone(made, "gang-0"))

    lost = [text for _, reason, text in events(decision) if reason == "ReservationLost"]
    assert lost == (["nodes are held for it no longer: the job asks for something else now"] if is_lost else [])
    assert held(made) == ("n1", "n2"), "the queue has room for the larger ones, too"


@pytest.mark.slow(reason="days of a stream of jobs")
def test_a_single_pod_of_a_whole_node_is_promised_one_and_a_small_one_is_not() -> None:
    stream = [job for job in a_stream(declared=False) if job.name != "gang"]
    found = played(with_arguments(minNodes=0.5), [*stream, a_job("whole", 2, 1, 8)])

    assert wait_of(found["whole"]) <= 1 + 2.01
    assert [name for name, record in found.items() if record.promised] == ["whole"]


def test_pods_of_a_queue_are_thought_to_run_as_long_as_it_says() -> None:
    cluster = a_full_cluster()
    queue = a_queue("default")
    queue["metadata"]["annotations"] = {"volsched.io/default-duration": "24h"}
    made = rig(cluster, RESERVING)
    cycle(made, put(queue))
    said = next(c.message for c in made.cluster.jobs["default/gang"].conditions if c.type == RESERVED)
    promise = stated_reservation_in(said)

    assert promise is not None
    assert promise.start is not None


def test_a_namespace_whose_pods_outlive_what_they_declare_is_not_believed_until_most_keep_to_it() -> None:
    trust = Trust(2)
    template = rig(a_full_cluster(), RESERVING).cluster.jobs["default/gang"].waiting.popitem()[1].template
    pods = [TaskInfo(f"u{n}", "team", f"p{n}", template) for n in range(6)]
    trust.outlived(pods[0], "q", 1.0)
    trust.outlived(pods[0], "q", 3.0)
    assert not trust.is_lost("team", "other")
    trust.outlived(pods[1], "q", 1.0)
    assert trust.is_lost("team", "other")
    assert trust.is_lost("other", "q")
    assert not trust.is_lost("other", "other")
    for pod in pods[2:5]:
        trust.over(pod, "q", 1.0)
    trust.over(pods[0], "q", 3.0)
    assert trust.is_lost("team", "q"), "4 are late and 3 are not, though these are more pods"
    trust.over(pods[5], "q", 1.0)
    assert not trust.is_lost("team", "q")
    assert trust.counts == {"team": 2}


def test_a_pod_that_ran_for_longer_than_it_declared_is_counted_though_nothing_happened_meanwhile() -> None:
    made = rig(a_cluster().node("n1", **{CARD: 8}).queue("default"), RESERVING)
    short, long = ({"volsched.io/expected-duration": length} for length in ("1m", "1h"))
    jobs = a_cluster().job("short", 1, annotations=short, **{CARD: 1}).job("long", 1, annotations=long, **{CARD: 1})
    decision = cycle(made, *changes_of(jobs))
    cycle(made, *echo(made, jobs, decision))
    made.clock.time += 600
    report = cycle(made, finished(made, "short-0"), finished(made, "long-0")).report

    assert [numbers for series, numbers in report.series if series.name == "volsched_outlived_durations"] == [
        {("default",): 1.0}
    ]


@pytest.mark.parametrize(("cards", "is_believed"), [(2, True), (4, False)])
def test_many_small_pods_that_keep_to_what_they_declare_do_not_make_up_for_a_large_one(
    cards: int, is_believed: bool
) -> None:
    made = rig(a_cluster().node("n1", **{CARD: 8}).queue("default"), with_arguments(outlived=1))
    late, kept = ({"volsched.io/expected-duration": length} for length in ("1m", "1h"))
    jobs = a_cluster().job("large", 1, annotations=late, **{CARD: cards}).job("small", 3, annotations=kept, **{CARD: 1})
    cycle(made, *echo(made, jobs, cycle(made, *changes_of(jobs))))
    made.clock.time += 600
    book = made.scheduler._accounts.get("reserve.book", lambda cluster: Book(cluster, DurationSettings(1.0, 0.0)))
    cycle(made, finished(made, "large-0"), *(finished(made, f"small-{n}") for n in range(3)))

    assert book.trust.is_lost("default", "default") is not is_believed


@pytest.mark.parametrize("annotations", [{}, {"volsched.io/expected-duration": "1000h"}], ids=["removed", "longer"])
@pytest.mark.parametrize("label", [{}, {"volsched.io/workload": "online"}], ids=["", "read anew"])
def test_a_pod_is_held_to_what_it_declared_when_it_was_placed(
    annotations: dict[str, str], label: dict[str, str]
) -> None:
    """Short pods may use held nodes, and the author of a running pod may change its annotations."""
    made = rig(a_cluster().node("n1", **{CARD: 8}).queue("default"), RESERVING)
    jobs = a_cluster().job("short", 1, annotations={"volsched.io/expected-duration": "1m"}, **{CARD: 1})
    cycle(made, *echo(made, jobs, cycle(made, *changes_of(jobs))))
    task = made.cluster.tasks["pod-default-short-0"]
    edited = a_pod("short-0", "short", on="n1", phase="Running", annotations=annotations, labels=label, **{CARD: 1})
    edited["metadata"] |= {"uid": task.uid, "resourceVersion": "edited"}
    cycle(made, put(edited))
    assert annotations.items() <= made.cluster.tasks[task.uid].spec.annotations.items()
    assert (made.cluster.tasks[task.uid] is task) is not bool(label)
    made.clock.time += 600
    report = cycle(made, finished(made, "short-0")).report

    assert [numbers for series, numbers in report.series if series.name == "volsched_outlived_durations"] == [
        {("default",): 1.0}
    ]


def test_a_promise_needs_free_quota_and_is_charged_to_its_queue_from_then_on() -> None:
    """The queue may hold 16 of 24 cards; its gang needs them all. Others hold nodes until after four hours."""
    busy = in_queue("other", *(a_job(f"busy-{n}", 0, 4, 8, declared=4 * HOUR) for n in range(2)))
    own = a_job("own", 0, 2, 4, declared=2 * HOUR)
    gang = a_job("gang", 0.1, 1, 8, pods=2, declared=HOUR)
    short = a_job("short", 2.2, 0.5, 4, declared=HOUR / 2)
    configuration = conf("reserve, allocate", "priority gang", "predicates capacity")
    found = played(configuration, [*busy, own, gang, short], nodes=3, capability={CARD: 16})

    assert found["gang"].promised[0] == (2 * HOUR, 4 * HOUR)
    assert found["gang"].start == 4 * HOUR
    assert found["short"].start == 5 * HOUR, "it is over long before, and the quota is charged"


# -- how long, and how many -------------------------------------------------------------------------------------------


def drained(made: Rig, hours: float) -> tuple[str, ...]:
    """Which nodes are held for the gang so many hours later, in the session for which the scheduler wakes."""
    made.clock.time = NOW + hours * HOUR
    cycle(made)
    return held(made)


def test_a_drain_ends_and_the_next_ones_wait_for_longer_each_time() -> None:
    made = rig(a_full_cluster(), with_arguments(drainFor="6h", drainPause="2h"))
    cycle(made)
    assert held(made) == ("n1", "n2")
    assert made.scheduler.wake_at() == NOW + 6 * HOUR

    assert drained(made, 5.9) == ("n1", "n2")
    assert drained(made, 6) == ()
    assert made.scheduler.wake_at() == NOW + 8 * HOUR
    assert drained(made, 7.9) == ()
    assert drained(made, 8) == ("n1", "n2")
    assert drained(made, 14) == ()
    assert drained(made, 17.9) == ()
    assert drained(made, 18) == ("n1", "n2")


def test_the_end_of_a_drain_is_told_and_others_have_the_nodes() -> None:
    made = rig(a_full_cluster(), with_arguments(drainFor="6h"))
    cycle(made, *[put(o) for o in a_cluster().job("small", 1, **{CARD: 1}).objects])
    made.clock.time += 6 * HOUR

    decision = cycle(made)

    lost = [message for _, reason, message in events(decision) if reason == "ReservationLost"]
    assert lost == ["nodes are held for it no longer: it could not start within 6h, and waits for 1h"]
    assert decision.bindings.keys() == {"small-0"}


def test_another_gang_of_the_namespace_is_promised_nothing_in_the_pause_and_one_of_another_is() -> None:
    given = a_full_cluster()
    made = rig(given, with_arguments(drainFor="6h", drainPause="3h"))
    cycle(made)
    drained(made, 6)

    same = a_cluster().queue("q").group("again", minimum=2, queue="q", created="2025-12-31T20:00:00Z")
    for number in range(2):
        same.pod(f"again-{number}", "again", **{CARD: 8})
    cycle(made, *changes_of(same))
    assert held(made, "again") == ()

    other = a_cluster().queue("r").group("other", minimum=2, queue="r", created="2025-12-31T20:00:00Z")
    for number in range(2):
        other.pod(f"other-{number}", "other", **{CARD: 8})
    for added in other.objects:
        if added["kind"] != "Queue":
            added["metadata"] |= {"namespace": "team", "uid": f"team-{added['metadata']['name']}"}
    cycle(made, *changes_of(other))
    assert made.cluster.jobs["team/other"].conditions != ()


def test_a_pause_outlives_the_scheduler() -> None:
    given = a_full_cluster()
    configuration = with_arguments(drainFor="6h", drainPause="3h")
    before = rig(given, configuration)
    cycle(before)
    before.clock.time += 6 * HOUR
    decision = cycle(before)

    again = rig(given, configuration)
    again.mirror.apply(echo(before, given, decision))
    again.clock.time += 8.9 * HOUR
    cycle(again)
    assert held(again) == ()

    again.clock.time += 0.1 * HOUR
    cycle(again)
    assert held(again) == ("n1", "n2")


def test_a_start_that_is_put_off_for_ever_is_not_waited_for_for_ever() -> None:
    """A pod that declares a minute and runs on has the start put off again and again."""
    given = a_full_cluster()
    declared = a_cluster().pod(
        "old-0", "old", on="n1", annotations={"volsched.io/expected-duration": "1m"}, **{CARD: 1}
    )
    given.objects = [o for o in given.objects if o["metadata"]["name"] != "old-0"] + declared.objects
    made = rig(given, with_arguments(drainFor="6h"))
    cycle(made)
    assert held(made) == ("n1", "n2")

    made.clock.time += 5 * HOUR
    cycle(made)
    assert held(made) == ("n1", "n2")
    made.clock.time += 2 * HOUR
    cycle(made)
    assert held(made) == ()


@pytest.mark.parametrize(("share", "both"), [(0.5, False), (0.9, False), (1, True)])
def test_drains_together_hold_no_more_than_their_share(share: float, both: bool) -> None:
    made = rig(two_promises(), with_arguments(drains=2, share=share))
    cycle(made)

    assert held(made, "late") == ("n0", "n1")
    assert bool(held(made, "early")) is both


def test_one_gang_that_is_larger_than_the_share_drains_alone() -> None:
    made = rig(a_full_cluster(), with_arguments(drains=2, share=0.1))
    cycle(made)

    assert held(made) == ("n1", "n2")


@pytest.mark.parametrize(("drains", "left"), [(0, []), (1, ["default/early"]), (2, ["default/early", "default/late"])])
def test_no_more_jobs_drain_nodes_than_may_when_starts_become_unknown(drains: int, left: list[str]) -> None:
    def old(number: int, version: str, **annotations: Any) -> dict[str, Any]:
        name = f"old{number}-0"
        pod = a_pod(name, f"old{number}", on=f"n{number}", phase="Running", annotations=annotations, **{CARD: 1})
        pod["metadata"] |= {"uid": f"pod-default-{name}", "resourceVersion": version}
        return pod

    given = two_promises()
    pods = [old(number, "1", **{"volsched.io/expected-duration": "4h"}) for number in range(4)]
    names = {pod["metadata"]["name"] for pod in pods}
    given.objects = [o for o in given.objects if o["metadata"]["name"] not in names] + pods
    made = rig(given, with_arguments(drains=drains, share=1))
    cycle(made)
    assert in_order(made) == ["default/early", "default/late"]

    made.clock.time += 5 * HOUR
    lost = events(cycle(made, *(put(old(number, "2")) for number in range(4))))

    assert in_order(made) == left
    assert [about for about, reason, _ in lost if reason == "ReservationLost"] == [
        f"PodGroup/{name}" for name in ("early", "late") if f"default/{name}" not in left
    ]
