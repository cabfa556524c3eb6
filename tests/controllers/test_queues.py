"""Queues: which state follows from which, what is written, and that the books add up."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.cases import Cluster, a_group, a_pod, a_queue
from volsched.controllers import grouping, queues
from volsched.controllers.queues import Books, Standing
from volsched.controllers.store import Key
from volsched.controllers.writes import Patch
from volsched.model import api
from volsched.model.changes import Gone

NOTHING = Standing({}, {})
SOME = Standing({"running": 1}, {})
BY_PARENT = {queues.CLOSED_BY_PARENT: "true"}


def body(queue: api.Queue, parent: api.Queue | None = None, standing: Standing = NOTHING) -> dict[str, Any]:
    """What the one write says, its version aside; empty when there is none."""
    found = list(queues.reconcile(queue, parent or a_queue("root"), standing))
    if not found:
        return {}
    [patch] = found
    assert isinstance(patch, Patch)
    told = {name: dict(value) for name, value in patch.body.items()}
    assert told["metadata"].pop("resourceVersion") == queue.metadata.resource_version
    return told


@pytest.mark.parametrize(
    ("state", "wish", "groups", "expected"),
    [
        ("", "", 0, "Open"),
        ("", "", 1, "Open"),
        ("Unknown", "", 0, "Open"),
        ("Open", "", 1, "Open"),
        ("Open", "Closed", 1, "Closing"),
        ("Open", "Closed", 0, "Closed"),
        ("Closing", "", 1, "Closing"),
        ("Closing", "", 0, "Closed"),
        ("Closed", "", 0, "Closed"),
        ("Closed", "", 1, "Closed"),
        ("Closed", "Open", 0, "Open"),
        ("Closing", "Open", 1, "Open"),
        ("Closed", "Closed", 0, "Closed"),
    ],
)
def test_state_follows_from_the_last_one_from_what_is_wished_and_from_podgroups(
    state: str, wish: str, groups: int, expected: str
) -> None:
    queue = a_queue("team", state, state=wish) if wish else a_queue("team", state)

    assert queues.wanted_state(queue, a_queue("root"), groups) == expected


def test_the_root_is_never_closed() -> None:
    assert queues.wanted_state(a_queue("root", "Closed"), None, 0) == "Open"


def test_nothing_is_written_when_everything_is_said() -> None:
    assert body(a_queue("team")) == {}


def test_a_new_queue_gets_its_parent_then_its_state_and_numbers() -> None:
    raw = {"metadata": {"name": "team", "uid": "u", "resourceVersion": "7"}}
    queue = api.decode_as(api.Queue, raw)
    assert body(queue) == {"metadata": {}, "spec": {"parent": "root"}}

    queue = api.decode_as(api.Queue, raw | {"spec": {"parent": "root"}})
    zeros = dict.fromkeys(queues.PHASES, 0)
    status = {"state": "Open", **zeros, "allocated": {"cpu": "0", "memory": "0"}}
    assert body(queue) == {"metadata": {}, "status": status}


def test_numbers_that_changed_are_written_and_resources_that_are_no_longer_used_go() -> None:
    status = {"state": "Open", "running": 2, "allocated": {"cpu": "1500m", "memory": "0", "nvidia.com/gpu": "4"}}
    raw = {"metadata": {"name": "team", "resourceVersion": "7"}, "spec": {"parent": "root"}, "status": status}
    standing = Standing({"running": 1, "pending": 2}, {"cpu": 1500, "memory": 1024})

    told = body(api.decode_as(api.Queue, raw), standing=standing)

    assert told == {
        "metadata": {},
        "status": {"pending": 2, "running": 1, "allocated": {"memory": "1Ki", "nvidia.com/gpu": None}},
    }


def test_amounts_are_compared_and_not_their_spelling() -> None:
    status = {"state": "Open", "allocated": {"cpu": "1000m", "memory": "1024"}}
    raw = {"metadata": {"name": "team", "resourceVersion": "7"}, "spec": {"parent": "root"}, "status": status}

    assert body(api.decode_as(api.Queue, raw), standing=Standing({}, {"cpu": 1000, "memory": 1024})) == {}


def test_a_queue_that_is_being_deleted_is_left_alone() -> None:
    raw = {"metadata": {"name": "team", "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert body(api.decode_as(api.Queue, raw)) == {}


def test_closing_a_parent_marks_the_queue_then_closes_it_and_opening_reverses_that() -> None:
    closed, opened = a_queue("above", "Closed"), a_queue("above")

    assert body(a_queue("q", parent="above"), closed) == {
        "metadata": {"annotations": {queues.CLOSED_BY_PARENT: "true"}}
    }
    assert body(a_queue("q", annotations=BY_PARENT, parent="above"), closed)["status"] == {"state": "Closed"}
    assert body(a_queue("q", "Closed", BY_PARENT, parent="above"), closed) == {}
    assert body(a_queue("q", "Closed", BY_PARENT, parent="above"), opened)["status"] == {"state": "Open"}
    told = body(a_queue("q", annotations=BY_PARENT, parent="above"), opened)
    assert told == {"metadata": {"annotations": {queues.CLOSED_BY_PARENT: None}}}


def test_a_queue_that_was_closed_for_itself_stays_closed_when_its_parent_opens() -> None:
    assert body(a_queue("q", "Closed", parent="above"), a_queue("above", "Closed")) == {}
    assert body(a_queue("q", "Closed", parent="above"), a_queue("above")) == {}


@pytest.mark.parametrize(
    ("action", "wish", "expected"),
    [
        ("CloseQueue", "", {"status": {"state": "Closing"}}),
        ("OpenQueue", "", {"status": {"state": "Open"}}),
        ("CloseQueue", "Open", {"spec": {"state": "Closed"}}),
        ("OpenQueue", "Closed", {"spec": {"state": "Open"}}),
        ("AbortJob", "", None),
    ],
)
def test_a_command_speaks_where_the_state_is_said(action: str, wish: str, expected: dict[str, Any] | None) -> None:
    queue = a_queue("q", state=wish) if wish else a_queue("q")

    found = [
        {k: v for k, v in patch.body.items() if k != "metadata"} for patch in queues.commanded(queue, action)
    ]  # fmt: skip

    assert found == ([expected] if expected else [])


# --- books ----------------------------------------------------------------------------------------------------------


def placed(name: str, group: str, cpu: str = "1", **fields: Any) -> api.Pod:
    return a_pod(name, annotations={grouping.GROUP_NAME: group}, phase="Running", node="n", cpu=cpu, **fields)


def test_a_queue_counts_groups_by_phase_and_what_their_placed_pods_use() -> None:
    cluster = Cluster().put(
        a_queue("team"), a_group("g", queue="team", phase="Running"), a_group("h", queue="team", phase="")
    )
    cluster.put(placed("p", "g"), placed("q", "g", cpu="500m"), a_pod("waits", annotations={grouping.GROUP_NAME: "g"}))

    standing = cluster.store.standing("team")

    assert standing.phases == {"running": 1, "pending": 1}
    assert standing.allocated == {"cpu": 1500, "pods": 2}


def test_a_pod_that_was_seen_before_its_podgroup_counts_once_that_is_known() -> None:
    cluster = Cluster().put(placed("p", "g"))
    assert cluster.store.standing("team").allocated == {}

    cluster.put(a_group("g", queue="team"))

    assert cluster.store.standing("team").allocated == {"cpu": 1000, "pods": 1}


def test_a_podgroup_that_is_gone_counts_no_more_and_its_pods_do_when_it_comes_back() -> None:
    cluster = Cluster().put(a_group("g", queue="team", phase="Running"), placed("p", "g"))

    cluster.store.gone(Gone("PodGroup", "ns", "g", "uid-g"))

    assert cluster.store.standing("team") == NOTHING
    again = a_group("g", queue="team", phase="Running")
    cluster.put(msgspec.structs.replace(again, metadata=msgspec.structs.replace(again.metadata, uid="uid-new")))
    assert cluster.store.standing("team") == Standing({"running": 1}, {"cpu": 1000, "pods": 1})


def test_a_podgroup_that_changes_its_queue_takes_its_pods_along() -> None:
    cluster = Cluster().put(a_group("g", queue="one", phase="Running"), placed("p", "g"))

    cluster.put(a_group("g", queue="two", phase="Running"))

    assert cluster.store.standing("one") == NOTHING
    assert cluster.store.standing("two") == Standing({"running": 1}, {"cpu": 1000, "pods": 1})


def test_queues_above_show_what_those_below_use_but_not_their_podgroups() -> None:
    cluster = Cluster().put(a_queue("root"), a_queue("above"), a_queue("below", parent="above"))
    cluster.keys.clear()

    cluster.put(a_group("g", queue="below", phase="Running"), placed("p", "g"))

    assert {Key("Queue", name) for name in ("below", "above", "root")} <= set(cluster.keys)
    assert cluster.store.standing("above") == Standing({}, {"cpu": 1000, "pods": 1})
    assert cluster.store.standing("root").allocated == {"cpu": 1000, "pods": 1}


def test_queues_in_a_circle_are_counted_once() -> None:
    cluster = Cluster().put(
        a_queue("a", parent="b"), a_queue("b", parent="a"), a_group("g", queue="a"), placed("p", "g")
    )

    assert cluster.store.standing("a").allocated == cluster.store.standing("b").allocated == {"cpu": 1000, "pods": 1}


def test_finished_and_terminating_pods_use_nothing() -> None:
    cluster = Cluster().put(a_group("g", queue="team"), placed("p", "g"))
    done = a_pod("p", annotations={grouping.GROUP_NAME: "g"}, phase="Succeeded", node="n")

    cluster.put(done)

    assert cluster.store.standing("team").allocated == {}


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.sampled_from("ghi"), st.sampled_from(["q", "r"]), st.sampled_from(["", "Running"])
        ),
        st.tuples(st.just("drop"), st.sampled_from("ghi")),
        st.tuples(st.just("charge"), st.sampled_from("ghi"), st.integers(0, 3)),
        st.tuples(st.just("return"), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(CHANGES)
def test_books_equal_what_is_counted_from_scratch(changes: list[tuple[Any, ...]]) -> None:
    books, groups, charges = Books(), {}, []
    for change in changes:
        if change[0] == "put":
            books.put_group(*change[1:])
            groups[change[1]] = (change[2], change[3].lower() or "pending")
        elif change[0] == "drop":
            books.drop_group(change[1])
            groups.pop(change[1], None)
        elif change[0] == "charge":
            books.charge(change[1], {"cpu": change[2]}, 1)
            charges.append(change[1:])
        elif change[1] < len(charges):
            key, amount = charges.pop(change[1])
            books.charge(key, {"cpu": amount}, -1)

    for queue in ("q", "r"):
        mine = {key for key, (of, _) in groups.items() if of == queue}
        used = sum(amount for key, amount in charges if key in mine)
        assert books.phases(queue) == Counter(phase for of, phase in groups.values() if of == queue)
        assert books.used(queue) == ({"cpu": used} if used else {})


def test_a_pod_costs_the_same_in_a_large_queue_as_in_a_small_one() -> None:
    cluster = Cluster().put(a_queue("root"), a_queue("team"))
    cluster.put(*(a_group(f"g{n}", queue="team") for n in range(300)))
    cluster.keys.clear()

    cluster.put(placed("p", "g7"))

    assert cluster.keys == [Key("Queue", "team"), Key("Queue", "root")]


def test_a_queue_that_is_gone_is_told_to_the_one_above() -> None:
    cluster = Cluster().put(a_queue("above"), a_queue("below", parent="above"))
    cluster.keys.clear()

    cluster.store.gone(Gone("Queue", "", "below", "uid-below"))

    assert Key("Queue", "above") in cluster.keys
    assert "below" not in cluster.store.queues
