"""PodGroups of pods that name none, case by case after Volcano's pkg/controllers/podgroup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.cases import Cluster, Json, a_group, a_pod, a_workload, annotations_of, reference
from volsched.controllers import grouping
from volsched.controllers.authors import WRITTEN
from volsched.controllers.group_controller import reconcile_group, reconcile_pod
from volsched.controllers.objects import ManagedPodGroup
from volsched.controllers.store import Key
from volsched.controllers.writes import Create, Delete, Patch
from volsched.mirror.reading import GROUP_NAME
from volsched.model import api
from volsched.model.changes import Deleted

WEB = reference("ReplicaSet", "web")
KEY = "ns/podgroup-uid-web"
PRIORITY = {"priorityClassName": "high"}


def writes(cluster: Cluster, key: str = KEY) -> list[Create | Patch | Delete]:
    return list(reconcile_group(cluster.store, key))


def the_group(cluster: Cluster, key: str = KEY) -> Json:
    [made] = writes(cluster, key)
    assert isinstance(made, Create)
    return dict(made.body)


def owned(group: api.PodGroup, owner: dict[str, object]) -> api.PodGroup:
    raw = {"metadata": {"name": group.metadata.name, "namespace": "ns", "uid": "uid-group", "ownerReferences": [owner]}}
    spec = {"queue": "default", "minMember": 1, "minResources": {"cpu": "1"}}
    return api.decode_as(api.PodGroup, raw | {"spec": spec})


def test_a_bare_pod_owns_its_podgroup() -> None:
    cluster = Cluster().put(a_pod("alone"))

    body = the_group(cluster, "ns/podgroup-uid-alone")

    assert body["metadata"] == {
        "name": "podgroup-uid-alone",
        "namespace": "ns",
        "annotations": {WRITTEN: body["metadata"]["annotations"][WRITTEN]},
        "ownerReferences": (
            {"kind": "Pod", "name": "alone", "uid": "uid-alone", "apiVersion": "v1", "controller": True},
        ),
    }  # fmt: skip
    assert body["spec"] == {"minMember": 1, "queue": "default", "minResources": {"cpu": "1"}}


MODE, TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({MODE: "hard", TIER: "2"}, {"mode": "hard", "highestTierAllowed": 2}),
        ({MODE: "Soft"}, {"mode": "soft"}),
        ({MODE: "nonsense"}, {"mode": "hard"}),
        ({TIER: "1"}, {"mode": "hard", "highestTierAllowed": 1}),
        ({TIER: "one"}, {"mode": "hard"}),
    ],
)
def test_the_topology_that_a_pod_states_stands_in_its_podgroup(
    annotations: dict[str, str], expected: dict[str, object] | None
) -> None:
    body = the_group(Cluster().put(a_pod("alone", annotations=annotations)), "ns/podgroup-uid-alone")

    assert body["spec"].get("networkTopology") == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(("known", "patched"), [(None, {"mode": "hard"}), ({"mode": "soft"}, None)])
def test_a_podgroup_that_was_made_without_it_gets_the_topology_of_its_pods_and_one_that_others_wrote_stays(
    known: dict[str, str] | None, patched: dict[str, str] | None
) -> None:
    cluster = Cluster().put(a_workload("web", 1), a_pod("web-0", owner=WEB, annotations={MODE: "hard"}))
    edited = {"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:networkTopology": {"f:mode": {}}}}}
    meta: Json = {"name": "podgroup-uid-web", "namespace": "ns", "uid": "uid-group", "ownerReferences": [WEB]}
    spec = {"queue": "default", "minMember": 1, **({"networkTopology": known} if known else {})}
    meta |= {"managedFields": [edited] if known else []}
    cluster.put(api.decode_as(ManagedPodGroup, {"metadata": meta, "spec": spec}))

    [patch] = [write for write in writes(cluster) if isinstance(write, Patch)]

    assert patch.body.get("spec", {}).get("networkTopology") == patched


def test_pods_of_one_owner_share_a_podgroup_that_is_made_once_the_owner_is_known() -> None:
    cluster = Cluster().put(a_pod("web-0", owner=WEB), a_pod("web-1", owner=WEB))

    assert writes(cluster) == []
    cluster.put(a_workload("web", 2, {grouping.GROUP_MIN_MEMBER: "2", "volcano.sh/card.request": "{}", "a/b": "c"}))

    assert Key("PodGroup", KEY) in cluster.keys
    body = the_group(cluster)
    assert annotations_of(body) == {"volcano.sh/card.request": "{}"}
    assert body["spec"] == {"minMember": 2, "queue": "default", "minResources": {"cpu": "2"}}


def test_an_owner_of_a_kind_that_is_not_followed_is_not_waited_for() -> None:
    owner = reference("PyTorchJob", "web", "kubeflow.org/v1")

    assert the_group(Cluster().put(a_pod("web-0", owner=owner)))["spec"] == {
        "minMember": 1,
        "queue": "default",
        "minResources": {"cpu": "1"},
    }


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"volcano.sh/preemptable": "false"}, {"volcano.sh/preemptable": "false"}),
        ({"volcano.sh/card.name": "A100"}, {}),
        ({"volcano.sh/cooldown-time": "1m", "volcano.sh/revocable-zone": "*"}, {"volcano.sh/cooldown-time": "1m", "volcano.sh/revocable-zone": "*"}),  # noqa: E501
        ({"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "2"}, {"volcano.sh/jdb-min-available": "1"}),  # noqa: E501
        ({"volcano.sh/jdb-max-unavailable": "2"}, {"volcano.sh/jdb-max-unavailable": "2"}),
        ({"volcano.sh/network-topology-mode": "hard"}, {"volcano.sh/network-topology-mode": "hard"}),
    ],
)  # fmt: skip
def test_some_annotations_come_from_the_pod(annotations: dict[str, str], expected: dict[str, str]) -> None:
    body = the_group(Cluster().put(a_pod("alone", annotations=annotations)), "ns/podgroup-uid-alone")

    assert annotations_of(body) == expected


def test_what_the_pod_says_wins_over_what_its_owner_says() -> None:
    pod = a_pod("web-0", owner=WEB, annotations={"volcano.sh/preemptable": "true"})
    cluster = Cluster().put(pod, a_workload("web", 1, {"volcano.sh/preemptable": "false", "volcano.sh/x": "y"}))

    assert annotations_of(the_group(cluster)) == {"volcano.sh/preemptable": "true", "volcano.sh/x": "y"}


def test_nothing_is_inherited_when_that_is_switched_off() -> None:
    cluster = Cluster(inherit=False)
    cluster.put(a_pod("web-0", owner=WEB), a_workload("web", 1, {"volcano.sh/x": "y", grouping.GROUP_MIN_MEMBER: "3"}))

    body = the_group(cluster)

    assert annotations_of(body) == {}
    assert body["spec"]["minMember"] == 3  # type: ignore[index]


def test_queue_and_priority_come_from_the_pod() -> None:
    pod = a_pod("alone", annotations={grouping.QUEUE_NAME: "team"}, **PRIORITY)

    spec = the_group(Cluster().put(pod), "ns/podgroup-uid-alone")["spec"]

    assert (spec["queue"], spec["priorityClassName"]) == ("team", "high")  # type: ignore[index]


@pytest.mark.parametrize(
    ("own", "of_namespace", "expected"),
    [("", "", "standard"), ("", "team", "team"), ("standard", "team", "team"), ("mine", "team", "mine")],
)
def test_a_namespace_names_the_queue_of_what_is_in_the_default_one(own: str, of_namespace: str, expected: str) -> None:
    cluster = Cluster(default_queue="standard")
    annotations = {grouping.QUEUE_NAME: of_namespace} if of_namespace else {}
    cluster.put(api.decode_as(api.Namespace, {"metadata": {"name": "ns", "annotations": annotations}}))
    cluster.put(a_pod("alone", annotations={grouping.QUEUE_NAME: own} if own else {}))

    assert the_group(cluster, "ns/podgroup-uid-alone")["spec"]["queue"] == expected  # type: ignore[index]


def test_a_pod_is_annotated_once_its_podgroup_is_there() -> None:
    cluster = Cluster().put(a_pod("alone"))
    assert list(reconcile_pod(cluster.store, "uid-alone")) == []

    cluster.put(owned(a_group("podgroup-uid-alone"), reference("Pod", "alone", "v1")))

    assert cluster.keys[-1] == Key("Pod", "uid-alone")
    [patch] = reconcile_pod(cluster.store, "uid-alone")
    assert isinstance(patch, Patch)
    assert patch.body == {
        "metadata": {"uid": "uid-alone", "annotations": {GROUP_NAME: "podgroup-uid-alone"}},
    }  # fmt: skip
    cluster.put(a_pod("alone", annotations={GROUP_NAME: "podgroup-uid-alone"}))
    assert list(reconcile_pod(cluster.store, "uid-alone")) == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_gets_nothing(phase: str) -> None:
    cluster = Cluster().put(a_pod("alone", phase=phase), a_group("podgroup-uid-other"))

    assert writes(cluster, "ns/podgroup-uid-alone") == []
    assert list(reconcile_pod(cluster.store, "uid-alone")) == []


def test_a_pod_that_names_a_podgroup_is_left_alone() -> None:
    cluster = Cluster().put(a_pod("web-0", owner=WEB, annotations={GROUP_NAME: "mine"}), a_workload("web"))

    assert writes(cluster) == []
    assert list(reconcile_pod(cluster.store, "uid-web-0")) == []


def test_a_workload_scaled_to_zero_has_no_podgroup() -> None:
    cluster = Cluster().put(a_workload("web", 0), owned(a_group("podgroup-uid-web"), WEB))
    cluster.put(a_pod("web-0", owner=WEB, annotations={GROUP_NAME: "podgroup-uid-web"}))

    [delete] = writes(cluster)

    assert isinstance(delete, Delete)
    assert (delete.name, delete.uid) == ("podgroup-uid-web", "uid-group")


def test_a_podgroup_of_that_name_that_somebody_else_made_is_not_deleted() -> None:
    assert writes(Cluster().put(a_workload("web", 0), a_group("podgroup-uid-web"))) == []


def test_nor_is_it_changed() -> None:
    workload = a_workload("web", 3, {grouping.GROUP_MIN_MEMBER: "3"})

    assert writes(Cluster().put(a_pod("web-0", owner=WEB), workload, a_group("podgroup-uid-web"))) == []


def test_a_podgroup_whose_owner_was_seen_going_goes_and_one_of_an_unknown_owner_stays() -> None:
    cluster = Cluster().put(owned(a_group("podgroup-uid-web"), WEB))
    assert writes(cluster) == []

    cluster.put(a_workload("web"))
    cluster.store.gone(Deleted("ReplicaSet", "ns", "web", "uid-web"))

    [delete] = writes(cluster)
    assert isinstance(delete, Delete)


def test_a_podgroup_that_is_missing_under_pods_that_name_it_is_made_again() -> None:
    pod = a_pod("web-0", owner=WEB, annotations={GROUP_NAME: "podgroup-uid-web"}, phase="Running", node="n")
    group = owned(a_group("podgroup-uid-web"), WEB)
    cluster = Cluster().put(pod, a_workload("web"), group)
    assert writes(cluster) == []

    cluster.store.gone(Deleted("PodGroup", "ns", "podgroup-uid-web", "uid-group"))

    assert the_group(cluster)["spec"]["minMember"] == 1  # type: ignore[index]


def test_what_a_workload_says_later_reaches_its_podgroup_and_what_others_wrote_stays() -> None:
    cluster = Cluster().put(a_pod("web-0", owner=WEB), owned(a_group("podgroup-uid-web"), WEB))

    cluster.put(a_workload("web", 3, {"volcano.sh/card.request": "{}", grouping.GROUP_MIN_MEMBER: "3"}))

    [patch] = writes(cluster)
    assert isinstance(patch, Patch)
    assert annotations_of(patch.body) == {"volcano.sh/card.request": "{}"}
    assert patch.body["metadata"]["uid"] == "uid-group"
    assert patch.body["spec"] == {"minMember": 3, "minResources": {"cpu": "3"}}


@given(st.text())
def test_any_text_as_minimum_is_a_number_of_pods(text: str) -> None:
    assert 1 <= grouping.min_member_of({grouping.GROUP_MIN_MEMBER: text}) < 10**9


@pytest.mark.parametrize(("text", "expected"), [("4", 4), ("0", 1), ("", 1), ("-2", 1), ("2.5", 1), ("many", 1)])
def test_nonsense_as_minimum_counts_as_one(text: str, expected: int) -> None:
    assert grouping.min_member_of({grouping.GROUP_MIN_MEMBER: text}) == expected


def test_an_older_event_changes_nothing_and_what_went_does_not_come_back() -> None:
    old, new = a_pod("alone"), a_pod("alone", annotations={GROUP_NAME: "mine"})
    cluster = Cluster().put(new, old)
    assert cluster.store.pods["uid-alone"].group == "mine"

    cluster.store.gone(Deleted("Pod", "ns", "alone", "uid-alone"))
    cluster.put(new)

    assert cluster.store.pods == {}


def test_a_pod_that_changes_its_owner_belongs_to_the_new_one_alone() -> None:
    cluster = Cluster().put(a_pod("web-0", owner=WEB), a_workload("web"))
    assert len(cluster.store.pods_of_group(KEY)) == 1

    cluster.put(a_pod("web-0"))

    assert list(cluster.store.pods_of_group(KEY)) == []
    assert len(cluster.store.pods_of_group("ns/podgroup-uid-web-0")) == 1
    cluster.store.gone(Deleted("Pod", "ns", "web-0", "uid-web-0"))
    assert list(cluster.store.pods_of_group("ns/podgroup-uid-web-0")) == []


def test_equal_pods_share_what_is_kept_of_them() -> None:
    cluster = Cluster().put(*(a_pod(f"web-{n}", owner=WEB) for n in range(50)))

    assert len({id(pod.group_template) for pod in cluster.store.pods.values()}) == 1


def test_what_equal_pods_share_ends_with_the_last_of_them() -> None:
    cluster = Cluster().put(*(a_pod(f"p{number}", cpu=str(number // 2 + 1)) for number in range(10)))
    assert len(cluster.store._group_templates) == 5

    for number in range(9):
        cluster.store.gone(Deleted("Pod", "ns", f"p{number}", f"uid-p{number}"))

    assert [group_template.request.amount("cpu") for group_template in cluster.store._group_templates.values()] == [
        5000
    ]


def test_a_pod_of_a_group_of_kubernetes_gets_no_podgroup_and_no_annotation() -> None:
    member = api.decode_as(api.Pod, a_pod_of("web-0", WEB))
    cluster = Cluster().put(member, a_workload("web"))

    assert writes(cluster) == []
    assert list(reconcile_pod(cluster.store, "uid-web-0")) == []


def test_one_that_was_made_for_such_pods_before_goes() -> None:
    member = api.decode_as(api.Pod, a_pod_of("web-0", WEB))
    cluster = Cluster().put(member, a_workload("web", 0), owned(a_group("podgroup-uid-web"), WEB))

    [delete] = writes(cluster)
    assert isinstance(delete, Delete)


def a_pod_of(name: str, owner: dict[str, object]) -> dict[str, object]:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "ownerReferences": [owner]}
    spec = {"schedulerName": "volsched", "schedulingGroup": {"podGroupName": "g"}}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
