"""Queues: which state follows from which, what is written, and that PodGroups are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.cases import Cluster, a_group, a_queue
from volsched.controllers import queues
from volsched.controllers.queues import PodGroupCounts
from volsched.controllers.store import Key
from volsched.controllers.writes import Patch
from volsched.model import api
from volsched.model.changes import Deleted

BY_PARENT = {queues.CLOSED_BY_PARENT: "true"}


def written(
    queue: api.Queue, parent: api.Queue | None = None, phases: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """What the one write says; empty when there is none."""
    found = list(queues.reconcile(queue, parent or a_queue("root"), phases or {}))
    if not found:
        return {}
    [patch] = found
    assert isinstance(patch, Patch)
    return {name: dict(value) for name, value in patch.body.items()}


def body(queue: api.Queue, parent: api.Queue | None = None, phases: Mapping[str, int] | None = None) -> dict[str, Any]:
    """What the one write says, the version aside that it is for."""
    told = written(queue, parent, phases)
    assert not told or told["metadata"].pop("resourceVersion") == queue.metadata.resource_version
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


def test_a_new_queue_gets_its_parent_then_its_state_and_counts_and_room_for_what_it_holds() -> None:
    raw = {"metadata": {"name": "team", "uid": "u", "resourceVersion": "7"}}
    queue = api.decode_as(api.Queue, raw)
    assert body(queue) == {"metadata": {}, "spec": {"parent": "root"}}

    queue = api.decode_as(api.Queue, raw | {"spec": {"parent": "root"}})
    zeros = dict.fromkeys(queues.PHASES, 0)
    assert body(queue) == {"metadata": {}, "status": {"state": "Open", **zeros, "allocated": {}}}


def a_standing_queue(**status: Any) -> api.Queue:
    metadata = {"name": "team", "uid": "u", "resourceVersion": "7"}
    return api.decode_as(
        api.Queue, {"metadata": metadata, "spec": {"parent": "root"}, "status": {"state": "Open", **status}}
    )


def test_counts_that_changed_are_written_to_the_same_queue_whatever_else_was_written_meanwhile() -> None:
    queue = a_standing_queue(running=2, allocated={"cpu": "1500m"})

    told = written(queue, phases={"running": 1, "pending": 2})

    assert told == {"metadata": {"uid": "u"}, "status": {"pending": 2, "running": 1}}


@pytest.mark.parametrize("allocated", [{}, {"cpu": "1500m", "nvidia.com/gpu": "4"}])
def test_what_a_queue_holds_is_neither_written_nor_taken_away(allocated: dict[str, str]) -> None:
    queue = a_standing_queue(allocated=allocated)
    assert body(queue) == {}

    [command] = queues.commanded(queue, "CloseQueue")
    counts = written(queue, phases={"running": 1})

    room = {} if allocated else {"allocated": {}}
    assert counts["status"] == {"running": 1, **room}
    assert command.body["status"] == {"state": "Closing", **room}


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


# --- counting --------------------------------------------------------------------------------------------------------


def phases(cluster: Cluster, queue: str) -> Mapping[str, int]:
    return cluster.store.pod_group_counts.phases(queue)


def test_a_queue_counts_its_podgroups_by_phase() -> None:
    cluster = Cluster().put(a_queue("team"), a_group("g", queue="team", phase="Running"))
    cluster.put(a_group("h", queue="team", phase=""), a_group("i", queue="other", phase="Running"))

    assert phases(cluster, "team") == {"running": 1, "pending": 1}


def test_a_podgroup_that_is_gone_counts_no_more() -> None:
    cluster = Cluster().put(a_group("g", queue="team", phase="Running"))

    cluster.store.gone(Deleted("PodGroup", "ns", "g", "uid-g"))

    assert phases(cluster, "team") == {}
    assert cluster.keys[-2:] == [Key("Queue", "team"), Key("PodGroup", "ns/g")]


def test_a_podgroup_that_changes_its_queue_is_told_to_both() -> None:
    cluster = Cluster().put(a_group("g", queue="one", phase="Running"))
    cluster.keys.clear()

    cluster.put(a_group("g", queue="two", phase="Running"))

    assert (phases(cluster, "one"), phases(cluster, "two")) == ({}, {"running": 1})
    assert cluster.keys == [Key("Queue", "one"), Key("Queue", "two")]


def test_queues_below_are_looked_at_when_a_queue_opens_or_closes_and_not_when_its_numbers_change() -> None:
    cluster = Cluster().put(a_queue("above"), a_queue("below", parent="above"))
    cluster.keys.clear()

    cluster.put(a_queue("above"))
    assert cluster.keys == [Key("Queue", "above")]
    cluster.put(a_queue("above", "Closed"))
    assert cluster.keys[1:] == [Key("Queue", "above"), Key("Queue", "below")]


CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"), st.sampled_from("ghi"), st.sampled_from(["q", "r"]), st.sampled_from(["", "Running"])
        ),
        st.tuples(st.just("drop"), st.sampled_from("ghi")),
    ),
    max_size=40,
)


@given(CHANGES)
def test_books_equal_what_is_counted_from_scratch(changes: list[tuple[Any, ...]]) -> None:
    pod_group_counts, groups = PodGroupCounts(), {}
    for change in changes:
        if change[0] == "put":
            pod_group_counts.put_group(*change[1:])
            groups[change[1]] = (change[2], change[3].lower() or "pending")
        else:
            pod_group_counts.drop_group(change[1])
            groups.pop(change[1], None)

    for queue in ("q", "r"):
        assert pod_group_counts.phases(queue) == Counter(phase for of, phase in groups.values() if of == queue)


def test_a_queue_that_is_gone_is_looked_at_and_forgotten() -> None:
    cluster = Cluster().put(a_queue("above"), a_queue("below", parent="above"))
    cluster.keys.clear()

    cluster.store.gone(Deleted("Queue", "", "below", "uid-below"))

    assert cluster.keys == [Key("Queue", "below")]
    assert "below" not in cluster.store.queues


def test_names_that_podgroups_made_up_are_forgotten_with_them() -> None:
    cluster = Cluster()
    for number in range(20):
        cluster.put(a_group("g", queue=f"q{number}"))
    cluster.put(a_queue("a", parent="b"), a_queue("a", parent="c"))
    assert len(cluster.store.pod_group_counts._phases) == 1

    cluster.store.gone(Deleted("PodGroup", "ns", "g", "uid-g"))
    cluster.store.gone(Deleted("Queue", "", "a", "uid-a"))

    assert (cluster.store.pod_group_counts._phases, cluster.store._tree._parents, cluster.store._tree._below) == (
        {},
        {},
        {},
    )
