"""The bound on what is kept of all namespaces: who has to go, and who never has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.controllers.objects import ManagedEntry, ManagedMeta, ManagedPodGroup
from volsched.kube.watch.inbox import FULL_KIB, Inbox
from volsched.kube.write.views import Views
from volsched.mirror.apply import Mirror
from volsched.mirror.memory_bound import MemoryUse, lightened
from volsched.mirror.quarantine import MEMORY, NO_MEMORY
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import Change, Deleted, Put, Refused, Unreadable
from volsched.model.dra import api as dra
from volsched.model.status import TaskStatus
from volsched.testing.builders import a_node, a_pod, put

KIB = 1024


def a_claim(namespace: str, name: str, size: int = 10 * KIB, *, allocated: bool = False, uid: str = "") -> Put:
    meta = api.ObjectMeta(name=name, namespace=namespace, uid=uid or f"{namespace}-{name}", labels={"a": "x" * size})
    allocation = dra.Allocation() if allocated else None
    return Put(dra.ResourceClaim(meta, status=dra.ResourceClaimStatus(allocation)))


def gone(of: Put) -> Deleted:
    meta = of.object.metadata
    return Deleted(native.kind_of(of.object), meta.namespace, meta.name, meta.uid)


def refused_in(changes: Sequence[Change]) -> list[str]:
    return [f"{found.namespace}/{found.name}" for found in changes if isinstance(found, Refused)]


def test_below_the_bound_everything_passes_as_it_is() -> None:
    changes = [a_claim("a", "1"), a_claim("b", "1"), put(a_node("n"))]
    assert list(MemoryUse(100 * KIB).of(changes)) == changes


def test_without_a_bound_nothing_is_weighed() -> None:
    memory_use = MemoryUse(0)
    assert memory_use.of([a_claim("a", "1", 10**6)]) == [a_claim("a", "1", 10**6)]
    assert memory_use.kept_bytes == 0


def test_above_it_the_newest_object_goes_of_the_namespace_that_holds_most() -> None:
    memory_use = MemoryUse(60 * KIB)
    assert refused_in(memory_use.of([a_claim("hog", str(n)) for n in range(5)])) == []
    assert refused_in(memory_use.of([a_claim("hog", "new")])) == ["hog/new"]
    assert refused_in(memory_use.of([a_claim("honest", "1")])) == ["hog/4"]
    assert memory_use.kept_bytes <= memory_use.most


def test_many_namespaces_together_stay_below_it_too() -> None:
    memory_use = MemoryUse(100 * KIB)
    memory_use.of([a_claim(f"n{space}", str(n)) for n in range(20) for space in range(10)])
    assert memory_use.kept_bytes <= memory_use.most


def test_what_holds_something_always_counts() -> None:
    memory_use = MemoryUse(60 * KIB)
    running = put(a_pod("p", on="n", labels={"a": "x" * 100 * KIB}))
    claim = a_claim("hog", "1", 100 * KIB, allocated=True)
    assert refused_in(memory_use.of([running, claim, a_claim("honest", "1")])) == ["honest/1"]
    assert memory_use.kept_bytes > 200 * KIB


HOLDING = [
    api.PodGroup(api.ObjectMeta(name="g", namespace="ns"), status=api.PodGroupStatus(phase="Running")),
    api.PersistentVolumeClaim(api.ObjectMeta(name="c", namespace="ns"), status=api.VolumePhase("Bound")),
    native.PodGroupV1alpha2(
        api.ObjectMeta(name="g", namespace="ns"),
        status=native.PodGroupStatus((api.Condition("PodGroupScheduled", "True"),)),
    ),
]


@pytest.mark.parametrize("found", HOLDING, ids=native.kind_of)
def test_of_every_kind_what_is_in_use_stays(found: api.ApiObject) -> None:
    assert refused_in(MemoryUse(1).of([Put(found)])) == []


NOT_HOLDING = [
    api.PersistentVolumeClaim(api.ObjectMeta(name="c", namespace="ns"), api.PersistentVolumeClaimSpec(volume_name="v")),
    put(a_pod("p", "g", on="n", phase="Failed")).object,
    put(a_pod("p", "g", on="n", phase="Succeeded")).object,
]


@pytest.mark.parametrize("found", NOT_HOLDING, ids=["named volume", "failed", "succeeded"])
def test_what_only_says_that_it_holds_something_goes(found: api.ApiObject) -> None:
    assert len(refused_in(MemoryUse(1).of([Put(found)]))) == 1


def large_pod(name: str, namespace: str = "hog", on: str | None = None, values: int = 1000) -> Put:
    terms = [{"matchExpressions": [{"key": "k", "operator": "NotIn", "values": [f"{name}{n}" for n in range(values)]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"affinity": {"nodeAffinity": required}}
    return put(a_pod(name, on=on, spec=spec, metadata={"namespace": namespace}))


def test_large_objects_fill_half_of_the_bound_and_no_more_of_it() -> None:
    """A tenant's large pods get nodes one after the other; others go on, and small ones of the tenant do, too."""
    memory_use = MemoryUse(4096 * KIB)
    placed = 0
    for number in range(40):
        if not refused_in(memory_use.of([large_pod(f"p{number}")])):
            memory_use.of([large_pod(f"p{number}", on="n")])
            placed += 1
    assert 2 < placed < 20
    assert memory_use.kept_bytes < 0.6 * memory_use.most
    assert refused_in(memory_use.of([large_pod("p", "honest")])) == []
    assert refused_in(memory_use.of([put(a_pod("small", metadata={"namespace": "hog"}))])) == []
    assert not memory_use.has_room_again
    memory_use.of([gone(large_pod(f"p{number}")) for number in range(2)])
    assert memory_use.has_room_again


def test_of_a_large_pod_that_comes_with_its_node_the_terms_are_left_out_from_half_of_the_bound_on() -> None:
    def has_terms(changes: Sequence[Change]) -> list[bool]:
        return [change.object.spec.affinity is not None for change in changes if isinstance(change, Put)]  # type: ignore[attr-defined]

    memory_use = MemoryUse(1024 * KIB)
    pods = [large_pod(f"p{number}", on="n") for number in range(10)]
    known = has_terms(memory_use.of(pods))
    assert known[0]
    assert not known[-1]
    assert has_terms(memory_use.of(pods)) == known
    assert memory_use.kept_bytes < 0.7 * memory_use.most
    memory_use.of([gone(pod) for pod in pods])
    assert has_terms(memory_use.of(pods[-1:])) == [True]


@pytest.mark.parametrize(
    "growth",
    [
        {"spec": {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(1000)]}},
        {"spec": {"containers": [{"name": "main", "image": "i" * 200 * KIB}]}},
        {"spec": {"containers": [{"name": f"c{n}", "image": "i" * KIB} for n in range(100)]}},
        {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "g" * 200 * KIB}}},
        {"metadata": {"annotations": {f"volcano.sh/gpu-index-{n}": "0" * 100 for n in range(1000)}}},
    ],
    ids=["tolerations", "an image", "images", "an annotation", "annotations"],
)
def test_a_pod_that_grows_on_its_node_is_kept_in_part_from_half_of_the_bound_on(growth: dict[str, Any]) -> None:
    """An author may add tolerations, an image and annotations to a running pod, which counts whatever it weighs."""
    memory_use = MemoryUse(2048 * KIB)
    names = [f"p{number}" for number in range(30)]
    memory_use.of([put(a_pod(name, on="n")) for name in names])
    for _ in range(2):
        memory_use.of([put(a_pod(name, on="n", **growth)) for name in names])
        assert memory_use.kept_bytes < 0.9 * memory_use.most
    assert refused_in(memory_use.of([put(a_pod("honest", metadata={"namespace": "honest"}))])) == []


def test_a_pod_group_that_grows_while_its_pods_run_is_kept_in_part_as_well() -> None:
    def group(name: str, roles: int = 0, note: str = "") -> Put:
        spec = api.PodGroupSpec(min_member=1, min_task_member=dict.fromkeys(map(str, range(roles)), 1), queue="q")
        meta = api.ObjectMeta(name=name, namespace="hog", uid=name, annotations={"a": note} if note else {})
        return Put(api.PodGroup(meta, spec, api.PodGroupStatus(phase="Running")))

    memory_use, names = MemoryUse(1024 * KIB), [f"g{number}" for number in range(30)]
    memory_use.of([group(name) for name in names])
    *_, last = memory_use.of([group(name, 1000, "a" * 100 * KIB) for name in names])
    assert memory_use.kept_bytes < 0.9 * memory_use.most
    assert isinstance(last, Put)
    assert isinstance(last.object, api.PodGroup)
    assert last.object.spec == api.PodGroupSpec(min_member=1, queue="q")
    assert not last.object.metadata.annotations


def test_what_may_go_although_it_is_in_use_goes_where_nothing_else_makes_room() -> None:
    """The controllers may forget a Volcano Job that runs: its author may have let it grow."""
    memory_use = MemoryUse(1024 * KIB, may_go=lambda found: isinstance(found, dra.ResourceClaim))
    honest = [a_claim("honest", str(n), 40 * KIB, allocated=True) for n in range(5)]
    small = [a_claim("hog", str(n), KIB, allocated=True) for n in range(30)]
    grown = [a_claim("hog", str(n), 60 * KIB, allocated=True) for n in range(30)]
    assert refused_in(memory_use.of([*honest, *small])) == []

    went = refused_in(memory_use.of(grown))
    assert went
    assert all(name.startswith("hog/") for name in went)
    assert memory_use.kept_bytes <= memory_use.most
    assert refused_in(memory_use.of(honest)) == []
    assert not memory_use.has_room_again
    memory_use.of([gone(each) for each in grown])
    assert memory_use.kept_bytes < 300 * KIB


def test_who_wrote_which_field_is_dropped_from_a_large_pod_group_in_use() -> None:
    entries = (ManagedEntry("hog", {"f:metadata": {"f:annotations": {f"f:{n}": {} for n in range(20_000)}}}),)
    found = ManagedPodGroup(ManagedMeta(name="g", namespace="hog", managed_fields=entries))
    light = lightened(found)

    assert isinstance(light, ManagedPodGroup)
    assert light.metadata.managed_fields == ()


def test_an_object_that_grows_is_as_new_and_one_that_shrinks_keeps_its_place() -> None:
    memory_use = MemoryUse(60 * KIB)
    memory_use.of([a_claim("hog", str(n)) for n in range(5)])
    assert refused_in(memory_use.of([a_claim("hog", "0", 5 * KIB), a_claim("hog", "5", 6 * KIB)])) == ["hog/5"]
    assert refused_in(memory_use.of([a_claim("hog", "1", 30 * KIB)])) == ["hog/1"]


def test_there_is_room_again_once_enough_has_gone() -> None:
    memory_use = MemoryUse(60 * KIB)
    claims = [a_claim("hog", str(n)) for n in range(6)]
    memory_use.of(claims)
    assert memory_use.kinds_refused() == {"ResourceClaim"}
    assert not memory_use.has_room_again
    memory_use.of([gone(claims[0])])
    assert memory_use.has_room_again
    assert refused_in(memory_use.of([claims[5]])) == []
    assert not memory_use.refused


def test_what_was_refused_and_is_gone_is_forgotten() -> None:
    memory_use = MemoryUse(1)
    claim = a_claim("a", "1")
    memory_use.of([claim])
    assert memory_use.refused
    memory_use.of([gone(claim)])
    assert not memory_use.refused


def test_a_spec_that_pods_share_is_weighed_once() -> None:
    def weight(pods: Sequence[Put]) -> int:
        memory_use = MemoryUse()
        memory_use.of(pods)
        return memory_use.total

    terms = {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(50)]}
    alike = [put(a_pod(f"p{n}", spec=terms)) for n in range(10)]
    assert weight(alike) < 3 * weight(alike[:1])


CHANGES = st.lists(
    st.tuples(st.sampled_from(("a", "b", "c")), st.integers(0, 5), st.integers(0, 20), st.booleans(), st.booleans()),
    max_size=60,
)


@given(CHANGES)
def test_the_running_total_is_that_of_what_is_kept_and_never_above_the_bound(given_changes: list[Any]) -> None:
    """Whatever comes and goes: the total is what is kept, and what waits fits beside what holds something."""
    memory_use, kept = MemoryUse(40 * KIB), dict[tuple[str, str], Put]()
    for namespace, number, size, allocated, goes in given_changes:
        claim = a_claim(namespace, str(number), size * KIB, allocated=allocated)
        for change in memory_use.of([gone(claim) if goes else claim]):
            match change:
                case Put(found):
                    kept[found.metadata.namespace, found.metadata.name] = change
                case Deleted() | Refused() | Unreadable():
                    kept.pop((change.namespace, change.name), None)
        again = MemoryUse(10**9)
        again.of(list(kept.values()))
        assert memory_use.total == again.total
        alone = MemoryUse(10**9)
        alone.of([put for put in kept.values() if put.object.status.allocation is not None])  # type: ignore[attr-defined]
        assert memory_use.kept_bytes <= max(memory_use.most, alone.kept_bytes)


def test_an_inbox_is_full_by_what_its_objects_weigh() -> None:
    inbox = Inbox()
    inbox.put([a_claim("a", "1")], kib=FULL_KIB + 1)
    assert inbox.is_full
    assert len(inbox.take()) == 1
    assert not inbox.is_full


# --- what the mirror makes of it -------------------------------------------------------------------------------------


def test_an_object_that_is_refused_is_gone_named_and_counted_and_comes_back() -> None:
    mirror, claim = Mirror(), a_claim("hog", "1")
    mirror.apply([claim, Refused("ResourceClaim", "hog", "1", "hog-1", "too much")])
    assert "hog/1" not in mirror.cluster.devices.claims
    assert mirror.quarantine.counts == {("ResourceClaim", MEMORY): 1.0}
    [told] = mirror.events.take()
    assert (told.reason, told.kind, told.namespace, told.name) == (NO_MEMORY, "ResourceClaim", "hog", "1")
    assert "too much" in told.message
    mirror.apply([claim])
    assert "hog/1" in mirror.cluster.devices.claims
    assert not mirror.quarantine.counts


def test_a_pod_that_is_on_its_way_to_a_node_stays() -> None:
    mirror = Mirror()
    mirror.apply([put(a_node("n")), put(a_pod("p"))])
    [task] = mirror.cluster.tasks.values()
    mirror.cluster.move(task, TaskStatus.BINDING, mirror.cluster.nodes["n"])
    mirror.apply([Refused("Pod", "default", "p", task.uid, "too much")])
    assert task.uid in mirror.cluster.tasks
    assert not mirror.quarantine.counts


def test_the_executor_forgets_what_is_refused_and_does_not_take_it_for_gone() -> None:
    views, claim = Views(), a_claim("hog", "1")
    views.observe([claim, Refused("ResourceClaim", "hog", "1", "hog-1", "too much")])
    assert not views.resource_claims
    assert views.wrote(claim.object)
