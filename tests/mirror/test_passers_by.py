"""Pods that come with a node: in which queue they count, whoever counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.actions.rigs import conf, cycle, events, rig
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Deleted, Put
from volsched.model.job import NATIVE
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES
from volsched.testing.builders import (
    a_cluster,
    a_group,
    a_member,
    a_namespace,
    a_native_group,
    a_node,
    a_pod,
    a_queue,
    put,
)
from volsched.testing.recount import faults

QUEUE = "scheduling.volcano.sh/queue-name"
PLAIN = conf("enqueue, allocate", "priority gang", "predicates")


def let(*namespaces: str) -> dict[str, str]:
    return {ALLOWED_NAMESPACES: ", ".join(namespaces)} if namespaces else {}


def a_passer(
    name: str = "p", queue: str = "", group: str = "", namespace: str = "evil", cpu: int = 1
) -> dict[str, Any]:
    notes = {QUEUE: queue} if queue else {}
    made: dict[str, Any] = a_pod(name, group or None, "n1", cpu=cpu, annotations=notes)
    made["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{name}"}
    return made


def queue(name: str, *namespaces: str, created: int = 1, **further: Any) -> dict[str, Any]:
    meta = {"creationTimestamp": f"2026-01-0{created}T00:00:00Z"}
    return a_queue(name, annotations=let(*namespaces), metadata=meta, **further)


def named(name: str, queue_name: str = "", **labels: str) -> dict[str, Any]:
    made = a_namespace(name, **labels)
    if queue_name:
        made["metadata"]["annotations"] = {QUEUE: queue_name}
    return made


def group(name: str, of: str) -> dict[str, Any]:
    made = a_group(name, of)
    made["metadata"] |= {"namespace": "evil", "uid": f"evil-{name}"}
    return made


def holding(mirror: Mirror) -> dict[str, int]:
    return {name: found.allocated["cpu"] // 1000 for name, found in mirror.cluster.queues.items() if found.allocated}


def mirror_of(objects: Iterable[dict[str, Any]], **settings_: Any) -> Mirror:
    mirror = Mirror(MirrorSettings(**settings_))
    mirror.apply([put(found) for found in objects])
    return mirror


NODE = a_node("n1")


@pytest.mark.parametrize(
    ("objects", "counts_in"),
    [
        pytest.param([queue("default"), a_passer()], "default", id="names none"),
        pytest.param([queue("default"), queue("q"), a_passer(queue="q")], "q", id="its annotation"),
        pytest.param([queue("default"), a_passer(queue="none")], "default", id="a queue that is not there"),
        pytest.param(
            [queue("default"), queue("q", "honest"), a_passer(queue="q")], "default", id="one that it may not use"
        ),
        pytest.param([queue("default"), queue("q"), named("evil", "q"), a_passer()], "q", id="its namespace"),
        pytest.param(
            [queue("default", "honest"), queue("new", created=3), queue("old", created=2), a_passer()],
            "old",
            id="the oldest that lets it in",
        ),
        pytest.param(
            [queue("default", "honest"), queue("older", "honest"), queue("q", created=3), a_passer()],
            "q",
            id="the older one does not",
        ),
        pytest.param(
            [queue("default", "honest"), queue("up"), queue("q", parent="up", created=3), a_passer()],
            "q",
            id="one with others below it takes no pods",
        ),
        pytest.param(
            [queue("default", "honest"), queue("up", "honest"), queue("q", parent="up"), a_passer(queue="q")],
            "",
            id="a queue above it counts too",
        ),
        pytest.param([queue("default", "honest"), a_passer()], "", id="none"),
        pytest.param([queue("default"), a_passer(queue="default", group="nobody")], "default", id="of no PodGroup"),
        pytest.param([queue("default"), queue("q"), group("g", "q"), a_passer(group="g")], "q", id="its PodGroup"),
    ],
)
def test_a_pod_with_a_node_counts_in_the_first_queue_that_lets_its_namespace_in(
    objects: list[dict[str, Any]], counts_in: str
) -> None:
    for arranged in (objects, objects[::-1]):
        mirror = mirror_of([NODE, *arranged])

        assert holding(mirror) == ({counts_in: 1} if counts_in else {})
        assert faults(mirror.cluster) == []
        assert mirror.cluster.nodes["n1"].used_of("cpu") == 1000


def test_a_podgroup_that_may_not_use_its_queue_counts_elsewhere_with_pods_that_came_with_a_node() -> None:
    given_ = a_cluster().add(NODE).add(queue("default", "honest")).add(queue("evil", "evil")).add(group("g", "default"))
    on = rig(given_, PLAIN)
    cycle(on)

    decision = cycle(on, put(a_passer(group="g")), put(a_passer("r", group="g")))

    assert holding(on.mirror) == {"evil": 2}
    assert "QueueKept" in [reason for what, reason, _ in events(decision) if what == "PodGroup/g"]
    assert faults(on.cluster) == []
    job = on.cluster.jobs["evil/g"]
    again = group("g", "default")
    again["status"] = {
        "phase": job.phase,
        "conditions": [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message} for c in job.conditions
        ],
    }
    anew = mirror_of([NODE, queue("default", "honest"), queue("evil", "evil"), again, a_passer(group="g")])
    assert holding(anew) == {"evil": 1}


def test_a_podgroup_of_a_namespace_that_no_queue_lets_in_counts_on_nodes_alone() -> None:
    given_ = a_cluster().add(NODE).add(queue("default", "honest")).add(group("g", "default"))
    on = rig(given_, PLAIN)
    cycle(on)

    decision = cycle(on, put(a_passer(group="g")))
    cycle(on, put(group("g", "default")))

    assert holding(on.mirror) == {}
    assert [what for what, reason, _ in events(decision) if reason == "CountsInNoQueue"] == ["Pod/p"]
    cycle(on, put(queue("default")))
    cycle(on, put(group("g", "default")))
    assert holding(on.mirror) == {"default": 1}


def test_who_counts_in_no_queue_is_told_once_and_counted() -> None:
    on = rig(a_cluster().add(NODE).add(queue("default", "honest")), PLAIN)
    cycle(on)

    first = cycle(on, put(a_passer()))
    second = cycle(on, put(queue("other", "honest", created=2)))

    assert [what for what, reason, _ in events(first) if reason == "CountsInNoQueue"] == ["Pod/p"]
    assert [what for what, reason, _ in events(second) if reason == "CountsInNoQueue"] == []
    assert len(on.mirror.passers_by.uncharged) == 1
    cycle(on, put(queue("third", created=3)))
    assert len(on.mirror.passers_by.uncharged) == 0


def test_what_is_kept_ends_with_the_pod() -> None:
    mirror = mirror_of([NODE, queue("default", "honest"), a_passer()])
    assert len(mirror.passers_by) == 1

    mirror.apply([Deleted("Pod", "evil", "p", "evil-p")])

    assert (len(mirror.passers_by), len(mirror.passers_by.uncharged)) == (0, 0)


def native(of: str = "") -> dict[str, Any]:
    return a_native_group(
        "n", 1, annotations={QUEUE: of} if of else {}, metadata={"namespace": "evil", "uid": "evil-n"}
    )


def a_native_passer(name: str, on: str = "n1") -> dict[str, Any]:
    made: dict[str, Any] = a_member(name, "n", on=on or None, cpu=1)
    made["metadata"] |= {"namespace": "evil", "uid": f"evil-{name}"}
    return made


def as_shown(of: dict[str, Any], mirror: Mirror) -> dict[str, Any]:
    """A PodGroup as it is once its status is written."""
    meta, kind = of["metadata"], "" if of["apiVersion"].startswith("scheduling.volcano.sh") else NATIVE
    job = mirror.cluster.jobs[f"{meta['namespace']}/{kind}{meta['name']}"]
    stated = mirror.cluster.queue_cache.moves.condition(job)
    known = (
        [] if stated is None else [{name: getattr(stated, name) for name in ("type", "status", "reason", "message")}]
    )
    return {**of, "status": {"conditions": known}}


@pytest.mark.parametrize("made", [native("q"), native()], ids=["named", "by default"])
@pytest.mark.parametrize(("evils", "counts_in"), [(["evil"], {"mine": 2}), (["honest"], {})], ids=["own", "none"])
def test_a_native_group_that_may_not_use_its_queue_counts_elsewhere_with_pods_that_came_with_a_node(
    made: dict[str, Any], evils: list[str], counts_in: dict[str, int]
) -> None:
    queues = [queue("default", "honest"), queue("q", "honest", created=2), queue("mine", *evils, created=3)]
    pods = [a_native_passer("n-0"), a_native_passer("n-1")]
    for before, after in (([made], pods), (pods, [made])):
        mirror = mirror_of([NODE, *queues, *before])
        mirror.cluster.queue_cache.settle_queues()
        mirror.apply([put(found) for found in after])

        assert holding(mirror) == counts_in
        assert faults(mirror.cluster) == []
        anew = mirror_of([NODE, *queues, as_shown(made, mirror), *pods])
        anew.cluster.queue_cache.settle_queues()
        assert holding(anew) == counts_in
        mirror.apply([Deleted("Pod", "evil", pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in pods])
        mirror.cluster.queue_cache.settle_queues()
        [job] = mirror.cluster.jobs.values()
        assert job.queue == (made["metadata"].get("annotations", {}).get(QUEUE) or "default")


def test_members_of_a_native_group_that_is_not_there_count_as_other_pods_that_came_with_a_node() -> None:
    pods = [a_native_passer(f"n-{number}") for number in range(3)]
    for pod in pods:
        pod["metadata"]["annotations"] = {QUEUE: "q"}
    mirror = mirror_of([NODE, queue("default", "honest"), queue("q", "honest"), queue("mine", "evil"), *pods])
    assert holding(mirror) == {"mine": 3}

    mirror.apply([Deleted("Pod", "evil", "n-0", "evil-n-0")])

    assert holding(mirror) == {"mine": 2}
    assert mirror.cluster.queue_cache.moves.kept == {}


@pytest.mark.parametrize("made", [group("g", "q"), native("q")], ids=["volcano", "native"])
def test_pods_that_are_added_with_a_node_once_the_right_is_lost_fill_no_queue_of_others(made: dict[str, Any]) -> None:
    is_native = made["metadata"]["name"] == "n"
    pods = [a_native_passer(f"n-{n}") if is_native else a_passer(f"g-{n}", group="g") for n in range(3)]
    mirror = mirror_of(
        [NODE, queue("q"), queue("mine", "evil", created=3), queue("default", "honest"), made, *pods[:2]]
    )
    mirror.cluster.queue_cache.settle_queues()
    mirror.apply([put(queue("q", "honest"))])
    assert holding(mirror) == {"q": 2}

    mirror.apply([put(pods[2])])

    assert holding(mirror) == {"mine": 3}
    assert faults(mirror.cluster) == []
    left = [Deleted("Pod", "evil", pod["metadata"]["name"], pod["metadata"]["uid"]) for pod in pods]
    mirror.apply(left)
    mirror.cluster.queue_cache.settle_queues()
    [job] = mirror.cluster.jobs.values()
    assert (job.queue, holding(mirror)) == ("q", {})


QUEUES, NAMESPACES = ("default", "a", "b"), ("evil", "honest")

CHANGES = st.lists(
    st.one_of(
        st.builds(queue, st.sampled_from(QUEUES), st.sampled_from(("", *NAMESPACES)), created=st.integers(1, 3)),
        st.builds(named, st.sampled_from(NAMESPACES), st.sampled_from(("", *QUEUES))),
        st.builds(
            a_passer,
            st.sampled_from(("p", "r")),
            st.sampled_from(("", *QUEUES)),
            namespace=st.sampled_from(NAMESPACES),
        ),
        st.builds(group, st.just("g"), st.sampled_from(QUEUES)),
        st.builds(a_passer, st.sampled_from(("g-0", "g-1")), group=st.just("g")),
        st.builds(native, st.sampled_from(("", *QUEUES))),
        st.builds(a_native_passer, st.sampled_from(("n-0", "n-1"))),
        st.tuples(st.sampled_from(("Queue", "Pod")), st.sampled_from((*QUEUES, "p", "r", "g-0", "g-1", "n-0", "n-1"))),
    ),
    max_size=25,
)


def key_of(found: dict[str, Any]) -> tuple[str, str, str]:
    return found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]


@settings(max_examples=200, deadline=None)
@given(CHANGES)
def test_the_account_is_what_whoever_counts_anew_comes_to(changes: list[Any]) -> None:
    live, have = mirror_of([NODE]), {key_of(NODE): NODE}
    for change in changes:
        if isinstance(change, dict):
            change["metadata"].get("annotations", {}).pop(ALLOWED_NAMESPACES, None) if _opens(change) else None
            have[key_of(change)] = change
            live.apply([Put(put(change).object)])
        else:
            kind, name = change
            for key in [key for key in have if key[0] == kind and key[2] == name]:
                live.apply([Deleted(*key, have.pop(key)["metadata"].get("uid", ""))])
        live.cluster.queue_cache.settle_queues()

        assert faults(live.cluster) == []

    groups = (found for found in have.values() if found["kind"] == "PodGroup")
    anew = mirror_of((have | {key_of(found): as_shown(found, live) for found in groups}).values())
    anew.cluster.queue_cache.settle_queues()
    assert holding(live) == holding(anew)
    assert {k: j.queue for k, j in live.cluster.jobs.items()} == {k: j.queue for k, j in anew.cluster.jobs.items()}


def _opens(change: dict[str, Any]) -> bool:
    """Whether a queue was drawn that lets everybody in."""
    return change["kind"] == "Queue" and change["metadata"]["annotations"].get(ALLOWED_NAMESPACES) == ""
