"""What is known of the claims of waiting pods: kept until something of it changes, and then found out again."""

from __future__ import annotations

from typing import Any

import pytest

from plugins.predicates.devices.needs import KnownNeeds
from plugins.predicates.devices.resource_claims import ClaimNeeds, needs_of
from tests.actions.rigs import Tries, cycle, rig
from tests.framework.dra.worlds import claim, device_class, exactly, held
from tests.plugins.predicates.test_devices import CONFIGURATION, a_world, cards, using
from volsched.model.changes import Change, Deleted, Put
from volsched.model.values.bounded import entries_of
from volsched.testing.builders import Rig, a_cluster, a_rig, put

NODES = ("n1", "n2", "n3")


def said(needs: ClaimNeeds) -> tuple[Any, ...]:
    """All that needs say, without the caches in them."""
    given = [(one.key, one.version, selector) for one, selector in needs.given]
    return needs.fault, given, [one.key for one in needs.open], needs.key


def shown(name: str, version: int, count: int = 1, **metadata: Any) -> Put:
    manifest = claim(name, exactly(count=count))
    manifest["metadata"] |= {"resourceVersion": str(version), **metadata}
    return put(manifest)


def taken(name: str, version: int, node: str, *devices: str) -> Put:
    """Somebody else has given a claim devices of a node."""
    manifest = held(name, *devices, pool=node)
    manifest["metadata"]["resourceVersion"] = str(version)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    manifest["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": terms}
    return put(manifest)


# -- what changes it --------------------------------------------------------------------------------------------------


def test_a_claim_of_another_pod_changes_nothing() -> None:
    on = a_rig(a_world(claim("a", exactly()), claim("b", exactly())).pod("p", spec=using("a")), CONFIGURATION)
    known, task = KnownNeeds(on.cluster.devices), on.cluster.tasks["pod-default-p"]
    before = known.of(task)

    on.mirror.apply([taken("b", 2, "n1", "d1"), shown("c", 3)])

    assert known.of(task) is before


def test_what_is_known_ends_with_the_pods_though_their_claims_were_never_there() -> None:
    names = [f"p{number}" for number in range(4)]
    world = a_world()
    for name in names:
        world.pod(name, spec=using("absent"))
    on = a_rig(world, CONFIGURATION)
    known, tasks = KnownNeeds(on.cluster.devices), [on.cluster.tasks[f"pod-default-{name}"] for name in names]
    jobs = [task.job for task in tasks if task.job is not None]
    assert all(known.of(task).fault for task in tasks)
    apart = {id(on.cluster.devices)}
    assert entries_of(known, apart) > len(names)

    on.mirror.apply([Deleted("Pod", "default", name, f"pod-default-{name}") for name in names])
    for job in jobs:
        known.members_changed(job)

    assert len(jobs) == len(names)
    assert entries_of(known, apart) == 0


def test_a_claim_that_says_nothing_new_is_no_relief_and_keeps_what_is_known() -> None:
    on = a_rig(a_world(claim("a", exactly())).pod("p", spec=using("a")), CONFIGURATION)
    known, task, devices = KnownNeeds(on.cluster.devices), on.cluster.tasks["pod-default-p"], on.cluster.devices
    before, state = known.of(task), (on.cluster.generations.requeue, devices.log_end, devices.claims_version)

    on.mirror.apply([shown("a", 7, finalizers=["resource.kubernetes.io/delete-protection"])])

    assert known.of(task) is before
    assert state == (on.cluster.generations.requeue, devices.log_end, devices.claims_version)
    assert devices.claims["default/a"].version == "7"
    on.mirror.apply([taken("a", 6, "n1", "d1")])
    assert devices.claims["default/a"].allocation is None, "an older version than the one that said nothing new"


CHANGES: dict[str, Change] = {
    "it comes": shown("late", 2),
    "it is given devices": taken("a", 2, "n1", "d1"),
    "it is made again": shown("a", 2, uid="another"),
    "it is being deleted": shown("a", 2, deletionTimestamp="2026-01-01T00:00:00Z"),
    "it goes": Deleted("ResourceClaim", "default", "a", "uid-a"),
    "its class changes": put(device_class("gpu", "false")),
    "its class goes": Deleted("DeviceClass", "", "gpu", ""),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_of_its_own_claim_is_seen(what: str) -> None:
    name = "late" if what == "it comes" else "a"
    on = a_rig(a_world(claim("a", exactly())).pod("p", spec=using(name)), CONFIGURATION)
    known, task = KnownNeeds(on.cluster.devices), on.cluster.tasks["pod-default-p"]
    before = known.of(task)

    on.mirror.apply([CHANGES[what]])

    assert known.of(task) is not before
    assert said(known.of(task)) == said(needs_of(task, on.cluster.devices))


def test_claims_that_differ_in_parameters_for_drivers_alone_are_of_one_shape() -> None:
    opaque = {"driver": "gpu.example.com", "parameters": {"sharing": "none"}}
    on = a_rig(
        a_world(
            claim("a", exactly()), claim("b", exactly(), config=[{"opaque": opaque}]), claim("c", exactly(count=2))
        ),
        CONFIGURATION,
    )
    plain, parameters, more = (on.cluster.devices.claims[f"default/{name}"].spec for name in "abc")

    assert plain is not parameters
    assert plain.shape == parameters.shape != more.shape


# -- jobs that wait for devices ---------------------------------------------------------------------------------------


def waiting_rig(tries: Tries) -> Rig:
    """Two devices that somebody has, and three pods with a claim each."""
    cluster = a_world(cards("n1", "d1", "d2"), *(claim(name, exactly()) for name in "abc"), nodes=("n1",))
    cluster.add(held("x", "d1", pool="n1")).add(held("y", "d2", pool="n1"))
    for name in "abc":
        cluster.job(name, cpu="1", spec=using(name))
    on = rig(cluster, CONFIGURATION, tries)
    cycle(on)
    assert tries.take() == ["a-0", "b-0", "c-0"]
    return on


FUTILE: dict[str, list[Change]] = {
    "a claim of nobody's comes": [shown("z", 5)],
    "a claim is shown again": [shown("a", 5)],
    "somebody else's claim is used by one more": [taken("x", 5, "n1", "d1")],
}


@pytest.mark.parametrize("what", FUTILE)
def test_pods_for_whose_claims_there_are_no_devices_are_not_tried_again(what: str) -> None:
    tries = Tries()
    on = waiting_rig(tries)

    cycle(on, *FUTILE[what])

    assert tries.take() == []


def test_the_pod_alone_whose_claim_changed_is_tried_again() -> None:
    tries = Tries()
    on = waiting_rig(tries)

    decision = cycle(on, shown("b", 5, count=3))

    assert tries.take() == ["b-0"]
    assert decision.bindings == {}


def test_devices_that_are_free_again_let_one_in_for_each() -> None:
    tries = Tries()
    on = waiting_rig(tries)

    decision = cycle(on, Deleted("ResourceClaim", "default", "y", "uid-y"))

    assert decision.bindings == {"a-0": "n1"}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_shared_claim_goes_where_those_have_room_that_came_later_too(is_late: bool) -> None:
    cluster = a_world(claim("c", exactly()), nodes=()).node("n1", cpu=1).node("n2", cpu=4).group("g", minimum=1)
    on = a_rig(cluster.pod("g-0", "g", cpu=1, spec=using("c")), CONFIGURATION)
    assert on.cycle().bindings == {}

    late = a_cluster().pod("g-1", "g", cpu=1, spec=using("c")).changes() if is_late else []
    slices = [put(cards(node, "d1")) for node in ("n1", "n2")]

    assert set(on.cycle(*late, *slices).bindings.values()) == {"n2" if is_late else "n1"}
