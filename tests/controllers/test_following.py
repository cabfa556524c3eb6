"""PodGroups follow their pods: what was copied from the first one is corrected by the newest that waits for a node."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.controllers.cases import (
    Cluster,
    Json,
    a_group,
    a_pod,
    a_task,
    a_workload,
    annotations_of,
    metadata,
    reference,
)
from tests.controllers.test_retries import World, merged
from volsched.controllers import grouping
from volsched.controllers.authors import MANAGER, OURS, WRITTEN, Authorship, authorship_of
from volsched.controllers.group_controller import reconcile_group, reconcile_pod
from volsched.controllers.objects import ManagedPodGroup, StatefulSet
from volsched.controllers.store import Key
from volsched.controllers.writes import Create, Patch
from volsched.kube.client.rest import USER_AGENT
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api
from volsched.model.changes import Deleted, Refused

DB = reference("StatefulSet", "db")
KEY = "ns/podgroup-uid-db"
NAME = "podgroup-uid-db"
HIGH = {"priorityClassName": "high"}


def pod(name: str, cpu: str = "1", *, made: int = 0, queue: str = "", node: str = "", **more: Any) -> api.Pod:
    """A pod of the workload, made at a second of a minute."""
    annotations = {grouping.QUEUE_NAME: queue} if queue else {}
    annotations |= more.pop("annotations", {})
    found = a_pod(name, owner=DB, cpu=cpu, node=node, annotations=annotations, **more)
    raw = api.as_json(api_dict(found))
    raw["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{made:02}Z"
    return api.decode_as(api.Pod, raw)


def api_dict(found: api.Pod) -> Json:
    return dict(msgspec.to_builtins(found))


class Watched:
    """A PodGroup that volsched has made, as the API server has it and says who wrote what.

    One that is not `noted` is of a version that did not note on the object what it wrote.
    """

    def __init__(self, *pods: api.Pod, noted: bool = True) -> None:
        self.cluster = Cluster().put(*pods, a_statefulset())
        [made] = reconcile_group(self.cluster.store, KEY)
        assert isinstance(made, Create)
        self.body = merged(made.body, {"metadata": {"uid": "uid-group"}})
        if not noted:
            self.body["metadata"]["annotations"].pop(WRITTEN)
        self.managers: dict[str, Json] = {}
        self.wrote(MANAGER, {"spec": self.body["spec"], "metadata": {
            field: self.body["metadata"].get(field, {}) for field in ("annotations", "labels")
        }})  # fmt: skip
        self.show()

    def wrote(self, manager: str, patch: Json) -> None:
        """Note who wrote these fields last, as the API server does."""
        for fields in self.managers.values():
            _without(fields, _fields_of(patch))
        self.managers[manager] = merged(self.managers.get(manager, {}), _fields_of(merged({}, patch)))

    def write(self, manager: str, patch: Json) -> None:
        """Patch it, as a user does, or as we do: that version which was looked at."""
        meta = dict(patch.get("metadata", {}))
        assert meta.pop("resourceVersion", self.version) == self.version
        patch = {**patch, "metadata": meta} if meta else patch
        self.body = merged(self.body, patch)
        self.wrote(manager, patch)
        self.show()

    def show(self) -> None:
        entries = [
            {"manager": name, "operation": "Update", "fieldsV1": fields} for name, fields in self.managers.items()
        ]
        meta = metadata(NAME) | self.body["metadata"] | {"managedFields": entries}
        owners = [dict(owner) for owner in meta["ownerReferences"]]
        self.version = metadata("")["resourceVersion"]
        raw = self.body | {"metadata": meta | {"ownerReferences": owners, "resourceVersion": self.version}}
        self.cluster.put(api.decode_as(ManagedPodGroup, raw))

    def follow(self) -> Json:
        """Look at it and write what is to be written; return that."""
        writes = list(reconcile_group(self.cluster.store, KEY))
        for write in writes:
            assert isinstance(write, Patch)
            assert write.body["metadata"]["resourceVersion"] == self.version
            self.write(MANAGER, dict(write.body))
        assert list(reconcile_group(self.cluster.store, KEY)) == []
        return {**writes[0].body} if writes else {}

    @property
    def spec(self) -> Json:
        return dict(self.body["spec"])


def a_statefulset(annotations: Json | None = None) -> StatefulSet:
    found = a_workload("db", 3, annotations)
    return StatefulSet(metadata=found.metadata, spec=found.spec)


def _fields_of(patch: Json) -> Json:
    return {f"f:{key}": _fields_of(value) if isinstance(value, dict) else {} for key, value in patch.items()}


def _without(fields: Json, others: Json) -> None:
    for key, inner in others.items():
        if key in fields:
            _without(fields[key], inner)
            if not fields[key]:
                del fields[key]


def test_the_user_agent_is_the_author() -> None:
    assert USER_AGENT.partition("/")[0] == MANAGER


def test_what_is_corrected_in_a_template_reaches_the_podgroup_with_the_first_new_pod() -> None:
    first = pod(
        "db-0",
        "6",
        queue="q1",
        annotations={"volcano.sh/preemptable": "true"},
        labels={"volcano.sh/preemptable": "true"},
        **HIGH,
    )
    watched = Watched(first)
    assert watched.spec == {"minMember": 1, "minResources": {"cpu": "6"}, "queue": "q1", "priorityClassName": "high"}

    watched.cluster.store.gone(Deleted("Pod", "ns", "db-0", "uid-db-0"))
    watched.cluster.keys.clear()
    corrected = pod("db-0", "1", made=9, queue="q2", annotations={"volcano.sh/cooldown-time": "1m"})
    corrected = api.decode_as(api.Pod, merged(api_dict(corrected), {"metadata": {"uid": "uid-new"}}))
    watched.cluster.put(corrected)

    assert Key("PodGroup", KEY) in watched.cluster.keys
    watched.follow()
    assert watched.spec == {"minMember": 1, "minResources": {"cpu": "1"}, "queue": "q2"}
    assert annotations_of(watched.body) == {"volcano.sh/cooldown-time": "1m"}
    assert watched.body["metadata"]["labels"] == {}


def test_resources_that_nobody_asks_for_any_more_are_not_asked_for() -> None:
    watched = Watched(a_pod("db-0", owner=DB, overhead={"example.com/gpu": "6"}))
    assert watched.spec["minResources"] == {"cpu": "1", "example.com/gpu": "6"}

    watched.cluster.put(pod("db-1", made=9))
    assert watched.follow()["spec"] == {"minResources": {"example.com/gpu": None}}


def test_a_pod_that_is_annotated_otherwise_takes_its_podgroup_along() -> None:
    watched = Watched(pod("db-0", queue="q1"))
    watched.cluster.keys.clear()

    watched.cluster.put(pod("db-0", queue="q2"))

    assert Key("PodGroup", KEY) in watched.cluster.keys
    assert watched.follow()["spec"] == {"queue": "q2"}


FIELDS = [
    ("minMember", {"spec": {"minMember": 2}}),
    ("minResources", {"spec": {"minResources": {"cpu": "3"}}}),
    ("queue", {"spec": {"queue": "mine"}}),
    ("priorityClassName", {"spec": {"priorityClassName": "mine"}}),
    ("annotations", {"metadata": {"annotations": {"volcano.sh/preemptable": "mine"}}}),
]


@pytest.fixture(params=[True, False], ids=["noted", "by managers"])
def noted(request: pytest.FixtureRequest) -> bool:
    """Whether the PodGroup has a note of what was written, or managedFields tell."""
    return bool(request.param)


@pytest.mark.parametrize(("field", "edit"), FIELDS)
def test_what_others_wrote_into_a_field_stays_and_all_other_fields_follow(
    field: str, edit: Json, *, noted: bool
) -> None:
    old = {"annotations": {"volcano.sh/preemptable": "true", "volcano.sh/revocable-zone": "a"}}
    watched = Watched(pod("db-0", "6", queue="q1", **HIGH, **old), noted=noted)
    watched.write("kubectl-edit", edit)
    edited = watched.body

    new = {"annotations": {"volcano.sh/preemptable": "false", "volcano.sh/revocable-zone": "b"}}
    watched.cluster.put(a_statefulset({grouping.GROUP_MIN_MEMBER: "3"}))
    watched.cluster.put(pod("db-1", "1", made=9, queue="q2", priorityClassName="low", **new))
    watched.follow()

    wanted = {
        "metadata": {"annotations": new["annotations"]},
        "spec": {"minMember": 3, "minResources": {"cpu": "3"}, "queue": "q2", "priorityClassName": "low"},
    }
    note = {"metadata": {"annotations": {WRITTEN: watched.body["metadata"]["annotations"][WRITTEN]}}}
    assert watched.body == merged(merged(merged(edited, wanted), edit), note)
    assert field != "queue" or watched.spec["queue"] == "mine"


def test_a_part_of_the_minimum_that_others_wrote_keeps_the_whole_minimum(*, noted: bool) -> None:
    watched = Watched(pod("db-0", "6"), noted=noted)
    watched.write("kubectl-patch", {"spec": {"minResources": {"memory": "1Gi"}}})

    watched.cluster.put(pod("db-1", "1", made=9))

    assert watched.follow() == {}


def test_a_queue_that_others_took_away_does_not_come_back(*, noted: bool) -> None:
    watched = Watched(pod("db-0", "6", queue="q1"), noted=noted)
    watched.write("kubectl-patch", {"spec": {"queue": None}})

    watched.cluster.put(pod("db-1", "1", made=9, queue="q2"))

    assert watched.follow()["spec"] == {"minResources": {"cpu": "1"}}


def test_a_minimum_that_others_took_away_does_not_come_back(*, noted: bool) -> None:
    watched = Watched(pod("db-0", "6", queue="q1"), noted=noted)
    watched.write("kubectl-edit", {"spec": {"minResources": None}})

    watched.cluster.put(pod("db-1", "1", made=9, queue="q2"))

    assert watched.follow()["spec"] == {"queue": "q2"}


def test_one_field_follows_after_another() -> None:
    watched = Watched(pod("db-0", queue="q1", annotations={"volcano.sh/preemptable": ""}))

    watched.cluster.put(pod("db-1", "1", made=5, queue="q2", annotations={"volcano.sh/preemptable": ""}))
    assert watched.follow()["spec"] == {"queue": "q2"}
    watched.cluster.put(pod("db-2", "2", made=9, queue="q2"))
    assert watched.follow()["spec"] == {"minResources": {"cpu": "2"}}
    assert annotations_of(watched.body) == {}


def test_where_all_pods_have_nodes_their_requests_decide_nothing_until_the_minimum_changes() -> None:
    watched = Watched(pod("db-0", "6"))
    watched.cluster.store.gone(Deleted("Pod", "ns", "db-0", "uid-db-0"))
    watched.cluster.put(pod("db-1", "1", node="n1", phase="Running"))
    assert watched.follow() == {}

    watched.cluster.put(a_statefulset({grouping.GROUP_MIN_MEMBER: "3"}))
    assert watched.follow()["spec"] == {"minMember": 3, "minResources": {"cpu": "3"}}


TAKEN_AWAY = [
    ("minResources", {"spec": {"minResources": {"example.com/gpu": None}}}),
    ("priorityClassName", {"spec": {"priorityClassName": None}}),
    ("annotation", {"metadata": {"annotations": {"volcano.sh/preemptable": None}}}),
    ("label", {"metadata": {"labels": {"volcano.sh/preemptable": None}}}),
]


@pytest.mark.parametrize(("field", "edit"), TAKEN_AWAY)
def test_what_others_took_away_does_not_come_back_until_they_set_it_back(field: str, edit: Json) -> None:
    told = {"annotations": {"volcano.sh/preemptable": "true"}, "labels": {"volcano.sh/preemptable": "true"}}
    gpus = {"overhead": {"example.com/gpu": "6"}}
    watched = Watched(pod("db-0", queue="q1", **gpus, **HIGH, **told))
    made = watched.body

    watched.write("kubectl-edit", edit)
    assert watched.follow() == {}
    watched.cluster.put(a_statefulset({grouping.GROUP_MIN_MEMBER: "3"}))
    watched.follow()
    edited = watched.body
    assert (edited["spec"]["minMember"], field in edited["spec"]) == (3, field == "minResources")

    stated = {"spec": {name: made["spec"][name] for name in ("minResources", "priorityClassName")}}
    watched.write("kubectl-edit", stated | {"metadata": {name: made["metadata"][name] for name in told}})
    again = {name: {"volcano.sh/preemptable": "false"} for name in told}
    watched.cluster.put(pod("db-1", "1", made=9, queue="q1", priorityClassName="low", **again))
    watched.follow()
    assert watched.spec["priorityClassName"] == "low"
    assert watched.spec["minResources"] == {"cpu": "3"}
    assert annotations_of(watched.body) == watched.body["metadata"]["labels"] == {"volcano.sh/preemptable": "false"}


def test_a_field_that_others_added_stays_and_one_that_they_set_back_follows(*, noted: bool) -> None:
    watched = Watched(pod("db-0", queue="q1"), noted=noted)
    watched.write("kubectl-edit", {"spec": {"queue": "mine", "priorityClassName": "mine"}})
    watched.cluster.put(pod("db-1", "2", made=9, queue="q2", priorityClassName="low"))
    assert set(watched.follow()["spec"]) == {"minResources"}
    assert watched.spec == {
        "minMember": 1, "minResources": {"cpu": "2"}, "queue": "mine", "priorityClassName": "mine"
    }  # fmt: skip

    watched.write("kubectl-edit", {"spec": {"queue": "q1", "priorityClassName": None}})

    assert watched.follow().get("spec") == ({"queue": "q2", "priorityClassName": "low"} if noted else None)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"queue": 7}', "null", '"x"', "[" * 100_000])
def test_where_the_note_cannot_be_read_managers_tell_who_wrote_what(note: str) -> None:
    watched = Watched(pod("db-0", queue="q1"))
    watched.write("kubectl-edit", {"metadata": {"annotations": {WRITTEN: note}}, "spec": {"queue": "mine"}})

    watched.cluster.put(pod("db-1", "2", made=9, queue="q2"))

    assert watched.follow()["spec"] == {"minResources": {"cpu": "2"}}
    assert "minResources" in watched.body["metadata"]["annotations"][WRITTEN]


def test_a_note_has_the_same_room_for_a_value_of_any_length() -> None:
    sizes = set()
    for length in (10, grouping.LONGEST_INHERITED):
        cluster = Cluster().put(pod("db-0"), a_statefulset({"volcano.sh/x": "y" * length}))
        [made] = reconcile_group(cluster.store, KEY)
        assert isinstance(made, Create)
        sizes.add(len(made.body["metadata"]["annotations"][WRITTEN]))
    assert len(sizes) == 1


def test_pods_that_asked_for_nothing_have_a_minimum_that_follows_them(*, noted: bool) -> None:
    watched = Watched(pod("db-0", "0"), noted=noted)
    assert watched.spec["minResources"] == {}

    watched.cluster.put(pod("db-1", "1", made=9))

    assert watched.follow()["spec"] == {"minResources": {"cpu": "1"}}


@pytest.mark.parametrize("change", [{"ownerReferences": [reference("StatefulSet", "other")]}, {"ownerReferences": []}])
def test_a_pod_that_goes_over_to_another_owner_leaves_the_podgroup_to_the_others(change: Json) -> None:
    watched = Watched(pod("db-0", "6"))
    watched.cluster.put(pod("db-1", "1", made=9))
    watched.follow()
    watched.cluster.keys.clear()

    watched.cluster.put(api.decode_as(api.Pod, merged(api_dict(pod("db-1", "1", made=9)), {"metadata": change})))

    assert Key("PodGroup", KEY) in watched.cluster.keys
    assert watched.follow()["spec"] == {"minResources": {"cpu": "6"}}


def test_where_pods_differ_the_newest_without_a_node_decides() -> None:
    watched = Watched(pod("db-0", "6", made=1))
    watched.cluster.put(pod("db-1", "2", made=5), pod("db-2", "4", made=3))
    assert watched.follow()["spec"] == {"minResources": {"cpu": "2"}}

    watched.cluster.keys.clear()
    watched.cluster.put(pod("db-1", "2", made=5, node="n1", phase="Running"))
    assert Key("PodGroup", KEY) in watched.cluster.keys
    assert watched.follow()["spec"] == {"minResources": {"cpu": "4"}}

    watched.cluster.store.gone(Deleted("Pod", "ns", "db-2", "uid-db-2"))
    assert watched.follow()["spec"] == {"minResources": {"cpu": "6"}}

    watched.cluster.put(pod("db-0", "6", made=1, node="n1", phase="Running"), pod("db-3", "9", made=9, node="n1"))
    assert watched.follow() == {}, "all have nodes"


def test_of_pods_made_in_the_same_second_the_one_that_came_last_decides() -> None:
    watched = Watched(pod("db-0", "6"))
    watched.cluster.put(pod("db-1", "5"), pod("db-2", "4"))

    assert watched.follow()["spec"] == {"minResources": {"cpu": "4"}}


def test_pods_that_are_alike_cost_no_look_when_they_get_nodes() -> None:
    watched = Watched(*(pod(f"db-{number}", made=number) for number in range(5)))
    watched.cluster.keys.clear()

    for number in range(5):
        watched.cluster.put(pod(f"db-{number}", made=number, node="n1"))

    assert watched.cluster.keys == []
    assert all(not waiting for owners in watched.cluster.store._waiting.values() for waiting in owners.values())


def test_a_pod_that_names_the_uid_of_another_ones_owner_decides_nothing() -> None:
    watched = Watched(pod("db-0", "6"))
    forged = a_pod("evil", owner={**DB, "name": "other"}, cpu="64", annotations={grouping.QUEUE_NAME: "rich"})

    watched.cluster.put(forged)

    assert watched.follow() == {}


def test_a_podgroup_that_is_to_name_another_queue_does_so_before_pods_name_it() -> None:
    watched = Watched(pod("db-0", queue="q1"))
    store = watched.cluster.store
    watched.cluster.put(pod("db-1", queue="q2", made=9))

    first, then = reconcile_pod(store, "uid-db-1")
    assert isinstance(first, Patch)
    assert isinstance(then, Patch)
    assert first.body["spec"] == {"queue": "q2"}
    assert then.body["metadata"]["annotations"] == {GROUP_NAME: NAME}

    watched.follow()
    assert list(reconcile_pod(store, "uid-db-1")) == [then]


def test_a_pod_that_names_another_owner_of_that_uid_decides_nothing_any_more() -> None:
    watched = Watched(pod("db-0", "6"))
    watched.cluster.put(pod("db-1", "1", made=9))
    watched.follow()

    meta = {"metadata": {"ownerReferences": [{**DB, "name": "other"}]}}
    watched.cluster.put(api.decode_as(api.Pod, merged(api_dict(pod("db-1", "1", made=9)), meta)))

    assert watched.follow()["spec"] == {"minResources": {"cpu": "6"}}


def test_pods_do_not_wait_for_a_queue_that_others_wrote(*, noted: bool) -> None:
    watched = Watched(pod("db-0", queue="q1"), noted=noted)
    watched.write("kubectl-edit", {"spec": {"queue": "mine"}})
    watched.cluster.put(pod("db-1", queue="q2", made=9))

    assert len(list(reconcile_pod(watched.cluster.store, "uid-db-1"))) == 1


def test_a_namespace_that_names_another_queue_takes_along_what_waits_there() -> None:
    watched = Watched(pod("db-0"))
    watched.cluster.keys.clear()

    namespace = {"metadata": {"name": "ns", "annotations": {grouping.QUEUE_NAME: "team"}}}
    for _ in range(2):
        watched.cluster.put(api.decode_as(api.Namespace, namespace))

    assert watched.cluster.keys == [Key("PodGroup", KEY)]
    assert watched.follow()["spec"] == {"queue": "team"}


# --- Volcano Jobs ---------------------------------------------------------------------------------------------------


def in_queue(world: World, queue: str) -> str:
    """Give a Job another queue; return where its PodGroup is then."""
    world.patch_job({"spec": {"queue": queue}})
    world.settle()
    assert world.group is not None
    return str(world.group["spec"]["queue"])


def test_a_volcano_job_that_waits_may_be_given_another_queue() -> None:
    world = World(a_task("w", 2), pod_phase="Pending", queue="full")

    assert in_queue(world, "free") == "free"

    world.change("train-w-0", phase="Running")
    assert in_queue(world, "other") == "free", "what runs counts where it was placed"


def test_the_queue_that_others_wrote_into_the_podgroup_of_a_volcano_job_stays() -> None:
    for written in ({"f:spec": {"f:queue": {}}}, {}):
        world = World(a_task("w", 2), pod_phase="Pending", queue="full")
        edited = {"metadata": {"managedFields": [{"manager": "kubectl-edit", "fieldsV1": written}]}}
        world.group = merged(world.group, edited | {"spec": {"queue": "mine"}})
        world._show(world._show_group)

        assert in_queue(world, "free") == ("mine" if written else "free")


# --- who wrote what -------------------------------------------------------------------------------------------------


def entry(manager: str, **fields: Any) -> Json:
    return {"manager": manager, "fieldsV1": _fields_of(fields)}


def authors(*entries: Json) -> Authorship:
    """Return who wrote what of a PodGroup without a note, by its managedFields."""
    raw = {"metadata": {"managedFields": entries}, "spec": {"queue": "q", "minResources": {}}}
    return authorship_of(api.decode_as(ManagedPodGroup, raw))


def test_what_volcanos_controllers_made_of_pods_is_kept_as_our_own() -> None:
    made = entry("vc-controller-manager", spec={"queue": ""}, metadata={"annotations": {"volcano.sh/x": ""}})

    assert authors(made) == Authorship(ours=frozenset({"annotations/volcano.sh/x"}))


def test_of_a_field_that_two_have_written_alike_we_are_the_author() -> None:
    ours, theirs = entry(MANAGER, spec={"queue": ""}), entry("kubectl", spec={"queue": "", "minMember": 1})

    assert authors(theirs, ours) == Authorship(frozenset({"minMember"}))


@pytest.mark.parametrize(
    "odd", [None, 7, [], {"f:spec": None}, {"f:metadata": {"f:annotations": 3}}, {"f:spec": {"x": 1}}]
)
def test_what_nobody_can_read_was_written_by_nobody(odd: Any) -> None:
    found = authors({"manager": "somebody", "fieldsV1": odd})
    assert found in (OURS, Authorship(frozenset({"annotations/"})))


def test_who_wrote_what_is_kept_once_for_podgroups_that_are_alike_and_ends_with_them() -> None:
    watched = Watched(pod("db-0"))
    store = watched.cluster.store
    watched.write("kubectl-edit", {"spec": {"queue": "mine"}})
    assert store.authors(KEY).others == {"queue"}
    assert not hasattr(store.groups[KEY].metadata, "managed_fields")

    store.gone(Deleted("PodGroup", "ns", NAME, "uid-group"))
    assert (store._authors, len(store._known_authors)) == ({}, 0)


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    cluster = Cluster().put(pod("db-0"), pod("db-1", "2"))
    for name in ("db-0", "db-1"):
        cluster.store.gone(Deleted("Pod", "ns", name, f"uid-{name}"))

    assert (cluster.store._waiting, cluster.store._pods_of_group) == ({}, {})


def test_a_new_pod_is_looked_at_once_its_podgroup_is_there_and_not_before() -> None:
    cluster = Cluster().put(pod("db-0"))
    assert [key.kind for key in cluster.keys] == ["PodGroup"]
    assert [key.kind for key in cluster.store.everything()] == ["PodGroup"]


def test_pods_that_have_ended_cost_nothing_more() -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.put(pod(f"db-{number}"))
    [key] = {key.name for key in cluster.keys if key.kind == "PodGroup"}
    assert len(cluster.store.pods_of_group(key)) == 200

    for number in range(200):
        cluster.put(pod(f"db-{number}", phase="Succeeded"))

    assert (list(cluster.store.pods_of_group(key)), cluster.store._waiting) == ([], {})
    cluster.put(pod("db-200"))
    assert [one.name for one in cluster.store.pods_of_group(key)] == ["db-200"]


def test_the_watch_shows_nothing_new_of_what_an_answer_has_shown() -> None:
    found, group = pod("db-0"), a_group(NAME)
    store = Cluster().put(found, group).store
    before = store.pods[found.metadata.uid], store.groups[KEY]

    store.put(found)
    store.put(group)
    assert (store.pods[found.metadata.uid], store.groups[KEY]) == before
    assert store.pods[found.metadata.uid] is before[0]
    assert store.groups[KEY] is before[1]

    store.refuse(Refused("PodGroup", "ns", NAME, group.metadata.uid, "no memory"))
    store.put(group)
    assert (store.refused, store.groups[KEY]) == (set(), before[1])
