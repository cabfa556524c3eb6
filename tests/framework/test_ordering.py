"""Orders of queues, jobs and tasks: keys in tier order, then fallbacks that end every tie."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.framework.stage import Plug, Stage
from volsched.framework.callbacks import QueueLevel
from volsched.framework.dispatch.ordering import Heap, TreeHeap, in_order, job_key, queue_key
from volsched.framework.rules import JobOrder, QueueOrder, TaskOrder
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import PodProperties, TaskInfo, index_in_name
from volsched.model.pods.template import PodTemplate
from volsched.model.queues.queue import QueueInfo, QueueProperties
from volsched.testing.builders import a_cluster


def task(name: str, created: float = 0.0, priority: int = 0, uid: str = "") -> TaskInfo:
    made = TaskInfo(uid or f"uid-{name}", "default", name, PodTemplate(0))
    made.created, made.spec = created, PodProperties(priority=priority)
    return made


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("job-worker-2", 2),
        ("a-b-c-10", 10),
        ("job-worker-007", 7),
        ("job-2", None),  # fewer than three parts
        ("job-worker-x", None),
        ("job-worker-", None),
        ("job-worker-2x", None),
        ("job-worker-٣", None),  # digits of other scripts are letters here
        ("", None),
    ],
)
def test_the_index_is_the_number_after_the_last_of_two_or_more_dashes(name: str, index: int | None) -> None:
    assert index_in_name(name) == index


@pytest.mark.parametrize(
    ("tasks", "order"),
    [
        ([task("j-w-10"), task("j-w-9")], ["j-w-9", "j-w-10"]),
        ([task("j-w-10", created=1), task("j-w-9", created=2)], ["j-w-9", "j-w-10"]),  # the index goes before age
        ([task("j-w-1", created=2), task("k-w-1", created=1)], ["k-w-1", "j-w-1"]),  # equal indices: age
        ([task("b", created=1), task("a", created=2)], ["b", "a"]),  # no indices: age
        ([task("b", uid="1"), task("a", uid="2")], ["b", "a"]),  # equal ages: uid
        ([task("j-w-9", created=2), task("x", created=1)], ["x", "j-w-9"]),  # one index is none: age
        ([task("x", created=3), task("j-w-9", created=2)], ["j-w-9", "x"]),
    ],
)
def test_tasks_fall_back_to_the_index_in_their_names_then_age_then_uid(tasks: list[TaskInfo], order: list[str]) -> None:
    for listed in itertools.permutations(tasks):
        assert [t.name for t in in_order([], listed)] == order


@pytest.mark.parametrize("names", [("w-a-2", "x", "w-a-1"), ("w-a-3", "x", "y", "w-a-1", "z", "w-a-2")])
def test_names_that_go_round_in_a_circle_have_one_order_all_the_same(names: tuple[str, ...]) -> None:
    """w-a-1 before w-a-2 by index, w-a-2 before x and x before w-a-1 by age: no order is right, but it is one."""
    tasks = [task(name, created=float(age)) for age, name in enumerate(names)]

    orders = {tuple(t.name for t in in_order([], listed)) for listed in itertools.permutations(tasks)}

    assert len(orders) == 1


def test_the_first_key_that_differs_decides_and_the_fallback_only_after_all() -> None:
    tasks = [task("j-w-1", priority=1), task("j-w-2", priority=2), task("j-w-3", priority=2, created=-1)]
    odd: Callable[[TaskInfo], int] = lambda t: int(t.name[-1]) % 2  # noqa: E731

    def names(*keys: Callable[[TaskInfo], Any]) -> list[str]:
        return [t.name[-1] for t in in_order(keys, tasks)]

    assert names() == ["1", "2", "3"]
    assert names(lambda t: -t.spec.priority) == ["2", "3", "1"]
    assert names(odd, lambda t: -t.spec.priority) == ["2", "3", "1"]
    assert names(lambda t: -t.spec.priority, odd) == ["2", "3", "1"]
    assert names(lambda t: 0, lambda t: -int(t.name[-1])) == ["3", "2", "1"]


def test_jobs_fall_back_to_age_then_to_namespace_and_name() -> None:
    jobs = [JobInfo("b", "x"), JobInfo("a", "y"), JobInfo("a", "x"), JobInfo("z", "old")]
    jobs[3].created = -1.0

    assert [job.key for job in sorted(jobs, key=lambda job: job_key([], job))] == ["z/old", "a/x", "a/y", "b/x"]


def test_queues_fall_back_to_age_then_to_their_name() -> None:
    old, *young = QueueProperties("c", created=-1.0), QueueProperties("b"), QueueProperties("a")
    queues = [QueueInfo(spec) for spec in (old, *young)]

    assert [queue.name for queue in sorted(queues, key=lambda queue: queue_key([], queue))] == ["c", "a", "b"]


ORDERS: dict[str, tuple[str, Callable[[Session], None], Callable[[Stage], list[str]]]] = {
    "queues": (
        "enableQueueOrder",
        lambda r: r.register(QueueOrder(lambda queue: -ord(queue.name[-1]))),
        lambda g: [
            q.name for q in sorted(g.cluster.queues.values(), key=g.session.rules.queue_key) if q.name[0] == "q"
        ],
    ),
    "jobs": (
        "enableJobOrder",
        lambda r: r.register(JobOrder(lambda job: -ord(job.name[-1]))),
        lambda g: [job.name for job in sorted(g.cluster.jobs.values(), key=g.session.rules.job_key)],
    ),
    "tasks": (
        "enableTaskOrder",
        lambda r: r.register(TaskOrder(lambda task: -ord(task.name[-1]))),
        lambda g: [task.name for task in g.session.rules.in_order(g.cluster.tasks.values())],
    ),
}


@pytest.mark.parametrize("what", ORDERS)
def test_an_order_can_be_switched_off(what: str) -> None:
    switch, register, order = ORDERS[what]
    stamp = "2026-01-01T00:00:00Z"
    world = a_cluster()
    for letter in "ab":
        world.queue(f"q-{letter}").group(f"g-{letter}", f"q-{letter}", created=stamp)
        world.pod(f"p-{letter}", f"g-{letter}", created=stamp, cpu="1")

    forward = order(Stage(world, Plug(register, switches={switch: False})))
    backward = order(Stage(world, Plug(register)))

    assert [name[-1] for name in forward] == ["a", "b"]
    assert [name[-1] for name in backward] == ["b", "a"]


def test_queues_and_their_jobs_are_handed_out_together() -> None:
    world = a_cluster().queue("q1").queue("q2").group("a", "q2").group("b", "q1").group("c", "q2")
    stage = Stage(world, lambda r: r.register(JobOrder(lambda job: -ord(job.name))))

    queues, jobs = stage.session.rules.queues_of(stage.cluster.jobs.values())

    assert [queues.pop().name, queues.pop().name, len(queues)] == ["q1", "q2", 0]
    assert {name: [heap.pop().name for _ in range(len(heap))] for name, heap in jobs.items()} == {
        "q1": ["b"],
        "q2": ["c", "a"],
    }


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=10))
def test_a_heap_gives_things_out_in_order(first: list[int], later: list[int]) -> None:
    names = itertools.count()
    items = [(value, next(names)) for value in first]
    heap: Heap[tuple[int, int]] = Heap(lambda item: item, items)
    for value in later:
        items.append((value, next(names)))
        heap.push(items[-1])

    assert len(heap) == len(items)
    assert [heap.pop() for _ in range(len(heap))] == sorted(items)


def test_a_heap_takes_the_place_of_a_thing_when_it_is_pushed() -> None:
    share = {"a": 0, "b": 1}
    heap: Heap[str] = Heap(lambda name: (share[name], name), "ab")

    first = heap.pop()
    share[first] = 2
    heap.push(first)

    assert [heap.pop(), heap.pop()] == ["b", "a"]


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), min_size=1, max_size=12),
    st.lists(st.tuples(st.booleans(), st.integers(-2, 3)), max_size=40),
)
def test_queues_in_a_tree_are_taken_out_in_the_order_of_their_levels_now(
    ways: list[list[str]], turns: list[tuple[bool, int]]
) -> None:
    """Each turn gives something to a queue and those above it, as a placement does; it may go back in line."""
    has: Counter[QueueLevel] = Counter()
    way_to = {f"{number}": ["/".join(way[: n + 1]) for n in range(len(way))] for number, way in enumerate(ways)}
    for name, levels in way_to.items():
        levels.append(name)

    def way(queue: QueueInfo) -> list[QueueLevel]:
        return list(way_to[queue.name])

    def level_key(level: QueueLevel) -> tuple[int, QueueLevel]:
        return has[level], level

    queues = {name: QueueInfo(QueueProperties(name)) for name in way_to}
    heap = TreeHeap(way, level_key, queues.values())
    waiting = set(queues)
    for goes_back, gets in turns:
        assert len(heap) == len(waiting)
        if not waiting:
            break
        first = heap.pop()
        assert first.name == min(waiting, key=lambda name: [level_key(level) for level in way_to[name]])
        for level in way_to[first.name]:
            has[level] += gets
        waiting.discard(first.name)
        if goes_back:
            heap.push(first)
            waiting.add(first.name)


def test_a_level_that_has_grown_meanwhile_is_put_in_its_place() -> None:
    share = {"a": 0, "b": 1}
    heap = TreeHeap(
        lambda queue: (-queue.spec.priority, queue.name),
        lambda level: share.get(str(level), level),
        [QueueInfo(QueueProperties(name)) for name in "ab"],
    )
    share["a"] = 2

    assert [heap.pop().name, heap.pop().name] == ["b", "a"]
    assert not heap
