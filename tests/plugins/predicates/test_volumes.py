"""Rules about claims, volumes and disks; what placed pods are about to take; and the volume limits of drivers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.predicates.plugin import ARGUMENTS, build
from plugins.predicates.volumes.binding import VolumeBinding
from plugins.predicates.volumes.disks import LegacyDisks
from plugins.predicates.volumes.limits import VolumeLimits
from plugins.predicates.volumes.uses import ClaimUses
from tests.examples import at_least
from tests.plugins.clusters import HOST, ZONE, Lab
from volsched.framework.config.arguments import values_of
from volsched.model import api
from volsched.model.plan import Bind, VolumeWrite
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus

Json = dict[str, Any]
DRIVER = "csi.example.com"
UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
ONE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


class Store(Lab):
    """A lab with storage objects."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(build(values_of("plugin predicates", ARGUMENTS, arguments)))
        self.storage = self.cluster.storage

    def keep(self, kind: type[api.ApiObject], name: str, namespace: str = "", **rest: Any) -> None:
        meta = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
        meta.update(rest.pop("meta", {}))
        self.storage.put(api.decode_as(kind, {"metadata": meta, **rest}))

    def storage_class(
        self, name: str, provisioner: str = DRIVER, mode: str = "WaitForFirstConsumer", **rest: Any
    ) -> None:
        self.keep(api.StorageClass, name, provisioner=provisioner, volumeBindingMode=mode, **rest)

    def claim(
        self,
        name: str,
        storage_class: str | None = "wait",
        size: str = "1Gi",
        bound_to: str = "",
        modes: tuple[str, ...] = ("ReadWriteOnce",),
        meta: Json | None = None,
        phase: str = "",
        **spec: Any,
    ) -> None:
        meta = dict(meta or {})
        if bound_to:
            meta["annotations"] = {"pv.kubernetes.io/bind-completed": "yes", **meta.get("annotations", {})}
            spec["volumeName"] = bound_to
        if storage_class is not None:
            spec["storageClassName"] = storage_class
        body = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
        self.keep(api.PersistentVolumeClaim, name, "default", meta=meta, spec=body, status={"phase": phase})

    def volume(
        self, name: str, storage_class: str = "wait", size: str = "1Gi", meta: Json | None = None, **spec: Any
    ) -> None:
        phase = spec.pop("phase", "Available")
        body = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            **spec,
        }
        self.keep(api.PersistentVolume, name, meta=meta or {}, spec=body, status={"phase": phase})

    def user(self, name: str, *claims: str, **more: Any) -> TaskInfo:
        listed = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}} for n, claim in enumerate(claims)]
        return self.pod(name, spec={"volumes": listed}, **more)

    def refusal(self, task: TaskInfo) -> str | None:
        verdict = self.session.rules.pre_refusal(task)
        return verdict.message if verdict is not None else None


def on(key: str, *values: str) -> Json:
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def two_zones(world: Store) -> Store:
    for name, zone in (("n1", "z1"), ("n2", "z1"), ("n3", "z2")):
        world.node(name, labels={ZONE: zone})
    return world


# --- claims that are not ready --------------------------------------------------------------------------------------


def test_missing_claim_is_named() -> None:
    world = two_zones(Store())

    assert world.refusal(world.user("p", "data")) == 'persistentvolumeclaim "data" not found'


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (
            {"bound_to": "pv", "phase": "Lost"},
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        ({"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, 'persistentvolumeclaim "data" is being deleted'),
        ({"storage_class": "now"}, "pod has unbound immediate PersistentVolumeClaims: data"),
        ({"storage_class": None}, "pod has unbound immediate PersistentVolumeClaims: data"),
        ({"storage_class": "unknown"}, "pod has unbound immediate PersistentVolumeClaims: data"),
        ({"volumeName": "pv"}, "pod has unbound immediate PersistentVolumeClaims: data"),
        ({"bound_to": "gone"}, 'persistentvolume "gone" of persistentvolumeclaim "data" not found'),
        ({}, None),
        ({"bound_to": "pv"}, None),
        ({"volumeName": "pv", "phase": "Bound"}, None),
    ],
)
def test_claims_that_refuse_a_pod(claim: Json, message: str | None) -> None:
    world = two_zones(Store())
    world.storage_class("wait")
    world.storage_class("now", mode="Immediate")
    world.volume("pv")
    world.claim("data", **claim)

    assert world.refusal(world.user("p", "data")) == message


def test_ephemeral_claims_must_be_made_for_the_pod() -> None:
    world = two_zones(Store())
    world.storage_class("wait")
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    task = world.pod("p", spec={"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]})
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert world.refusal(task) == waiting
    world.claim("p-scratch")
    assert "was not created for pod" in (world.refusal(task) or "")

    owner = {"kind": "Pod", "name": "p", "uid": task.uid, "controller": True}
    for other in ({"uid": "another"}, {"name": "q"}, {"kind": "Job"}):
        world.claim("p-scratch", meta={"ownerReferences": [owner | other]})
        assert "was not created for pod" in (world.refusal(task) or "")
    world.claim("p-scratch", meta={"ownerReferences": [owner]})

    assert world.refusal(task) is None


# --- where volumes are ----------------------------------------------------------------------------------------------


def test_bound_volume_must_be_reachable() -> None:
    world = two_zones(Store())
    world.volume("pv", **on(ZONE, "z1"))
    world.claim("data", bound_to="pv")
    task = world.user("p", "data")

    assert world.reasons(task) == {"n3": UNREACHED}
    world.check_twins(task)


def test_delayed_claim_is_provisioned_where_its_class_may() -> None:
    world = two_zones(Store())
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}]
    world.storage_class("zoned", allowedTopologies=topologies)
    world.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    world.claim("data", "zoned")
    world.claim("scratch", "local")
    task, local = world.user("p", "data"), world.user("q", "scratch")

    assert world.reasons(task) == {"n1": NO_VOLUME, "n2": NO_VOLUME}
    assert world.feasible(local) == set()
    world.check_twins(task)
    world.check_twins(local)


def test_selected_node_is_the_only_one() -> None:
    world = two_zones(Store())
    world.storage_class("wait")
    world.claim("data", meta={"annotations": {"volume.kubernetes.io/selected-node": "n2"}})
    task = world.user("p", "data")

    assert world.feasible(task) == {"n2"}
    world.check_twins(task)


@pytest.mark.parametrize(
    ("volume", "found"),
    [
        ({"size": "2Gi"}, True),
        ({"size": "1023Mi"}, False),
        ({"accessModes": ["ReadOnlyMany"]}, False),
        ({"volumeMode": "Block"}, False),
        ({"volumeAttributesClassName": "gold"}, False),
        ({"storage_class": "other"}, False),
        ({"phase": "Released"}, False),
        ({"meta": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"claimRef": {"namespace": "default", "name": "other"}}, False),
        ({"claimRef": {"namespace": "default", "name": "data"}}, True),
        ({"claimRef": {"namespace": "default", "name": "data", "uid": "older"}}, False),
    ],
)
def test_which_volumes_a_claim_may_have(volume: Json, found: bool) -> None:
    world = Store()
    world.node("n1")
    world.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    world.claim("data", "local")
    world.volume("pv", **{"storage_class": "local", **volume})

    assert world.feasible(world.user("p", "data")) == ({"n1"} if found else set())


def test_selector_of_a_claim_picks_volumes_by_label() -> None:
    world = Store()
    world.node("n1")
    world.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    world.volume("pv", "local", meta={"labels": {"kind": "slow"}})
    world.claim("data", "local", selector={"matchLabels": {"kind": "fast"}})
    task = world.user("p", "data")
    assert world.feasible(task) == set()

    world.volume("pv2", "local", meta={"labels": {"kind": "fast"}})

    assert world.feasible(task) == {"n1"}


def test_smallest_volumes_first_and_none_twice() -> None:
    world = Store()
    world.node("n1")
    world.node("n2")
    world.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    for name, size, node in (("a", "5Gi", "n1"), ("b", "2Gi", "n1"), ("c", "9Gi", "n1"), ("d", "9Gi", "n2")):
        world.volume(name, "local", size, **on(HOST, node))
    world.claim("small", "local", "1Gi")
    world.claim("large", "local", "3Gi")
    task = world.user("p", "large", "small")
    assert world.feasible(task) == {"n1"}
    world.check_twins(task)
    statement = world.session.statement()

    assert statement.allocate(task, world.cluster.nodes["n1"]) is None

    assert {(w.claim, w.volume) for w in task.bind_volumes} == {("default/small", "b"), ("default/large", "a")}
    statement.discard()
    assert task.bind_volumes == ()
    assert world.storage.assumed == {}


def test_storage_capacity_is_looked_at_when_the_driver_reports_it() -> None:
    world = two_zones(Store())
    world.storage_class("wait")
    world.claim("data", size="5Gi")
    task = world.user("p", "data")
    topology = {"matchLabels": {ZONE: "z2"}}
    world.keep(
        api.CSIStorageCapacity, "c", "kube-system", storageClassName="wait", capacity="5Gi", nodeTopology=topology
    )
    assert world.feasible(task) == {"n1", "n2", "n3"}

    world.keep(api.CSIDriver, DRIVER, spec={"storageCapacity": True})

    assert world.reasons(task) == {"n1": NO_SPACE, "n2": NO_SPACE}
    world.check_twins(task)
    world.keep(
        api.CSIStorageCapacity,
        "c",
        "kube-system",
        storageClassName="wait",
        capacity="9Gi",
        maximumVolumeSize="4Gi",
        nodeTopology=topology,
    )
    assert world.feasible(task) == set()


def test_zone_labels_of_old_volumes() -> None:
    world = two_zones(Store())
    world.node("n9")
    world.volume("pv", meta={"labels": {"failure-domain.beta.kubernetes.io/zone": "z2__z3"}})
    world.claim("data", bound_to="pv")
    task = world.user("p", "data")

    assert world.reasons(task) == dict.fromkeys(("n1", "n2"), "node(s) had no available volume zone")
    world.check_twins(task)


def test_legacy_disks_exclude_each_other() -> None:
    world = Store()
    world.node("n1")
    world.node("n2")

    def with_disk(name: str, read_only: bool, **more: Any) -> TaskInfo:
        disk = {"name": "d", "gcePersistentDisk": {"pdName": "x", "readOnly": read_only}}
        return world.pod(name, spec={"volumes": [disk]}, **more)

    with_disk("there", True, on="n1")
    writer, reader = with_disk("w", False), with_disk("r", True)

    assert world.reasons(writer) == {"n1": "node(s) had no available disk"}
    assert world.feasible(reader) == {"n1", "n2"}
    world.check_twins(writer)
    assert isinstance(world.accounts.get("predicates.disks", LegacyDisks), LegacyDisks)


# --- what placed pods are about to take -----------------------------------------------------------------------------


def test_claim_for_one_pod_is_refused_to_a_second_in_the_same_session() -> None:
    world = Store()
    world.node("n1")
    world.volume("pv")
    world.claim("data", bound_to="pv", modes=("ReadWriteOncePod",))
    first, second = world.user("a", "data"), world.user("b", "data")
    statement = world.session.statement()
    assert statement.allocate(first, world.cluster.nodes["n1"]) is None
    assert world.reasons(second) == {"n1": ONE_POD}
    assert world.reasons(first) == {}

    statement.discard()

    assert world.reasons(second) == {}


def test_two_pods_that_share_an_unbound_claim_go_to_the_same_node() -> None:
    world = two_zones(Store())
    world.storage_class("wait")
    world.claim("data")
    first, second = world.user("a", "data"), world.user("b", "data")
    statement = world.session.statement()
    assert statement.allocate(first, world.cluster.nodes["n2"]) is None
    assert world.feasible(second) == {"n2"}
    world.check_twins(second)
    assert statement.allocate(second, world.cluster.nodes["n2"]) is None

    steps = statement.commit()

    write = VolumeWrite("dynamic", "default/data", "", "n2")
    assert [step.volumes for step in steps if isinstance(step, Bind)] == [(write,), (write,)]


def test_volume_promised_to_one_pod_is_not_promised_to_another() -> None:
    world = Store()
    world.node("n1")
    world.node("n2")
    world.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    world.volume("pv", "local", **on(HOST, "n1"))
    world.volume("pv2", "local", **on(HOST, "n2"))
    world.claim("a", "local")
    world.claim("b", "local")
    first, second = world.user("p", "a"), world.user("q", "b")
    statement = world.session.statement()
    assert statement.allocate(first, world.cluster.nodes["n1"]) is None
    assert world.feasible(second) == {"n2"}

    steps = statement.commit()

    assert [s.volumes for s in steps if isinstance(s, Bind)] == [(VolumeWrite("static", "default/a", "pv", "n1"),)]
    assert world.feasible(second) == {"n2"}


def test_failed_binding_gives_the_volume_back() -> None:
    world = Store()
    world.node("n1")
    world.storage_class("local", provisioner="kubernetes.io/no-provisioner")
    world.volume("pv", "local")
    world.claim("a", "local")
    world.claim("b", "local")
    first, second = world.user("p", "a"), world.user("q", "b")
    statement = world.session.statement()
    assert statement.allocate(first, world.cluster.nodes["n1"]) is None
    statement.commit()
    assert world.feasible(second) == set()

    world.move(first, TaskStatus.PENDING)

    assert world.feasible(second) == {"n1"}
    assert first.bind_volumes == ()


def test_running_pod_is_taken_back_whatever_became_of_its_volume() -> None:
    world = Store()
    world.node("n1")
    world.volume("pv")
    world.claim("data", bound_to="pv")
    task = world.user("p", "data", on="n1")
    world.open_session()
    binding = world.accounts.get("predicates.binding", VolumeBinding)
    assert isinstance(binding, VolumeBinding)
    world.storage.drop("PersistentVolume", "", "pv")
    statement = world.session.statement()

    statement.evict(task, "a try")
    assert binding.allocate(task) is None
    statement.discard()

    assert task.status is TaskStatus.RUNNING
    assert task.node is world.cluster.nodes["n1"]


def test_what_came_true_is_no_longer_assumed() -> None:
    world = Store()
    world.node("n1")
    world.storage_class("wait")
    world.claim("data")
    task = world.user("p", "data")
    statement = world.session.statement()
    assert statement.allocate(task, world.cluster.nodes["n1"]) is None
    statement.commit()
    assert world.storage.assumed == {"default/data": ("", "n1")}

    world.volume("made", claimRef={"namespace": "default", "name": "data"})
    world.claim("data", bound_to="made")

    assert world.refusal(task) is None
    assert world.feasible(task) == {"n1"}
    assert world.storage.assumed == {}


# --- limits of drivers ----------------------------------------------------------------------------------------------


def limited(world: Store, node: str, count: int | None) -> None:
    driver = {"name": DRIVER, "nodeID": node, **({"allocatable": {"count": count}} if count is not None else {})}
    world.keep(api.CSINode, node, spec={"drivers": [driver]})


def a_bound_claim(world: Store, name: str, handle: str = "") -> str:
    world.volume(f"pv-{name}", csi={"driver": DRIVER, "volumeHandle": handle or name})
    world.claim(name, bound_to=f"pv-{name}")
    return name


@pytest.mark.parametrize(("limit", "fits"), [(3, True), (2, False), (None, True)])
def test_volumes_of_pods_and_attachments_count_towards_the_limit(limit: int | None, fits: bool) -> None:
    world = Store()
    world.node("n1")
    limited(world, "n1", limit)
    world.user("there", a_bound_claim(world, "a"), on="n1")
    world.volume("pv-old")
    for name, volume in (("va1", "pv-old"), ("va2", "pv-a"), ("va3", "unknown")):
        source = {"persistentVolumeName": volume}
        world.keep(api.VolumeAttachment, name, spec={"attacher": DRIVER, "nodeName": "n1", "source": source})
    task = world.user("p", a_bound_claim(world, "b"))

    assert world.reasons(task) == ({} if fits else {"n1": "node(s) exceed max volume count"})
    world.check_twins(task)


def test_volume_that_is_there_already_costs_nothing() -> None:
    world = Store()
    world.node("n1")
    world.node("n2")
    limited(world, "n1", 1)
    limited(world, "n2", 0)
    world.user("there", a_bound_claim(world, "a"), on="n1")

    assert world.feasible(world.user("same", "a")) == {"n1"}
    assert world.feasible(world.user("other", a_bound_claim(world, "b"))) == set()


def test_claims_not_bound_yet_count_by_their_class() -> None:
    world = Store()
    world.node("n1")
    limited(world, "n1", 1)
    world.storage_class("wait")
    world.claim("a")
    world.claim("b")
    task = world.user("q", "b")
    assert world.feasible(task) == {"n1"}

    world.user("p", "a", on="n1")

    assert world.feasible(task) == set()


CLAIMS = ("a", "b", "c")
VOLUMES = ("v1", "v2", "v3")
changes = st.lists(
    st.one_of(
        st.tuples(st.just("bind"), st.sampled_from(CLAIMS), st.sampled_from(["", *VOLUMES])),
        st.tuples(st.just("lose"), st.sampled_from(CLAIMS)),
        st.tuples(st.just("volume"), st.sampled_from(VOLUMES), st.sampled_from(["h1", "h2"]), st.integers(0, 2)),
        st.tuples(st.just("drop"), st.sampled_from(VOLUMES)),
        st.tuples(st.just("attach"), st.sampled_from(["x", "y"]), st.sampled_from(VOLUMES), st.integers(0, 1)),
        st.tuples(st.just("detach"), st.sampled_from(["x", "y"])),
        st.tuples(st.just("limit"), st.integers(0, 1), st.sampled_from([None, 0, 1, 2])),
        st.tuples(st.just("move"), st.integers(0, 3), st.sampled_from([None, 0, 1])),
        st.tuples(st.just("place"), st.integers(0, 3), st.integers(0, 1)),
        st.tuples(st.just("class")),
        st.tuples(st.just("ask")),
    ),
    min_size=10,
    max_size=20,
)


class StorageHistory:
    """Random changes of storage and pods."""

    def __init__(self) -> None:
        self.world = Store()
        for name in ("n0", "n1"):
            self.world.node(name)
        self.world.storage_class("wait")
        for claim in CLAIMS:
            self.world.claim(claim)
        wanted = (("a",), ("a", "b"), ("c",), ("b", "c"))
        self.tasks = [self.world.user(f"p{n}", *claims) for n, claims in enumerate(wanted)]

    def bind(self, claim: str, volume: str) -> None:
        self.world.claim(claim, bound_to=volume)

    def lose(self, claim: str) -> None:
        self.world.storage.drop("PersistentVolumeClaim", "default", claim)

    def volume(self, name: str, handle: str, node: int) -> None:
        """Make a volume that is reached from one node, or (2) from all."""
        where = on(HOST, f"n{node}") if node < 2 else {}
        self.world.volume(name, csi={"driver": DRIVER, "volumeHandle": handle}, **where)

    def drop(self, name: str) -> None:
        self.world.storage.drop("PersistentVolume", "", name)

    def attach(self, name: str, volume: str, node: int) -> None:
        spec = {"attacher": DRIVER, "nodeName": f"n{node}", "source": {"persistentVolumeName": volume}}
        self.world.keep(api.VolumeAttachment, name, spec=spec)

    def detach(self, name: str) -> None:
        self.world.storage.drop("VolumeAttachment", "", name)

    def limit(self, node: int, count: int | None) -> None:
        limited(self.world, f"n{node}", count)

    def move(self, which: int, node: int | None) -> None:
        task = self.tasks[which]
        if node is None:
            self.world.move(task, TaskStatus.PENDING)
        else:
            self.world.move(task, TaskStatus.RUNNING, f"n{node}")

    def place(self, which: int, node: int) -> None:
        task = self.tasks[which]
        session = self.world.session
        waits = task.status is TaskStatus.PENDING and session.rules.pre_refusal(task) is None
        if waits and f"n{node}" in self.world.feasible(task):
            assert session.statement().allocate(task, self.world.cluster.nodes[f"n{node}"]) is None

    def ask(self) -> None:
        cluster = self.world.cluster
        fresh_limits = VolumeLimits(cluster, ClaimUses(cluster))
        binding = self.world.accounts.get("predicates.binding", VolumeBinding)
        limits = self.world.accounts.get("predicates.limits", lambda _: fresh_limits)
        fresh = VolumeBinding(cluster)
        fresh._taken = dict(binding._taken)
        for task in self.tasks:
            for node in cluster.rows:
                assert limits.refuse(task, node) == fresh_limits.refuse(task, node)
                binding.stamp()
                fresh._taken = dict(binding._taken)
                assert binding.refuse(task, node) == fresh.refuse(task, node)
            self.world.check_twins(task)


@at_least(150)
@given(changes=changes)
def test_accounts_of_storage_agree_with_fresh_ones(changes: list[Any]) -> None:
    history = StorageHistory()
    history.world.open_session()
    for kind, *what in changes:
        if kind == "class":
            history.world.storage_class("wait")
        else:
            getattr(history, kind)(*what)
    history.ask()
    for task in history.tasks:
        history.world.move(task, TaskStatus.PENDING)
    history.ask()
    assert history.world.storage.assumed == {}
