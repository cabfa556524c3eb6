"""What admission answers to a request: the rules of validate, and nobody is locked out."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.validation.test_fields import SEED
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES
from volsched.validation.admission import (
    ALLOWED,
    CREATE,
    DELETE,
    LONGEST_MESSAGE,
    MOST_REPORTED,
    UPDATE,
    AdmissionContext,
    AdmissionRequest,
    Judgement,
    judge,
)

Json = dict[str, Any]
EMPTY = AdmissionContext(Surroundings())


def an_object(kind: str, name: str = "x", **fields: Any) -> Json:
    version = {"Pod": "v1", "ConfigMap": "v1"}.get(kind, "scheduling.volcano.sh/v1beta1")
    metadata = {"name": name, **({} if kind == "Queue" else {"namespace": "team"}), **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def a_queue(name: str = "x", *, metadata: Json | None = None, **spec: Any) -> Json:
    return an_object("Queue", name, metadata=metadata or {}, spec={"weight": 1, **spec})


def a_world(*queues: Json, groups: int = 0) -> AdmissionContext:
    return AdmissionContext(Surroundings(api.decode_object(queue) for queue in queues), lambda _: groups)


def create(raw: Json, world: AdmissionContext = EMPTY) -> Judgement:
    return judge(AdmissionRequest(CREATE, raw), world)


def update(old: Json, new: Json, world: AdmissionContext = EMPTY) -> Judgement:
    return judge(AdmissionRequest(UPDATE, new, old), world)


def delete(old: Json, world: AdmissionContext = EMPTY) -> Judgement:
    return judge(AdmissionRequest(DELETE, None, old), world)


# --- fields that nobody knows -----------------------------------------------------------------------------------------

STRICT = AdmissionContext(Surroundings(), unknown_field="error")


def seeds_job() -> Json:
    job: Json = yaml.safe_load(SEED)
    return job


def test_the_misspelt_affinity_of_the_seed_is_warned_of_and_let_in() -> None:
    said = create(seeds_job())
    assert said.allowed
    assert [line.rpartition(": ")[2] for line in said.warnings] == [
        "unknown field; did you mean requiredDuringSchedulingIgnoredDuringExecution? [UnknownField]",
        "unknown field; did you mean operator? [UnknownField]",
    ]


def test_where_it_is_asked_for_an_unknown_field_refuses_but_not_one_that_was_there() -> None:
    job = seeds_job()
    assert len(create(job, STRICT).errors) == 2
    assert update(job, {**job, "spec": {**job["spec"], "minAvailable": 2}}, STRICT).allowed
    worse = {**job, "spec": {**job["spec"], "prioritClassName": "high"}}
    assert [error.partition(": ")[2] for error in update(job, worse, STRICT).errors] == [
        "spec.prioritClassName: unknown field; did you mean priorityClassName? [UnknownField]"
    ]


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"env": 5}, "containers[0].env: Expected `array`, got `int` [WrongType]"),
        ({"volumeMounts": 5}, "containers[0].volumeMounts: Expected `array`, got `int` [WrongType]"),
        ({"volumeMounts": [5]}, "containers[0].volumeMounts[0]: Expected `object`, got `int` [WrongType]"),
        ({"env": [{"name": 5}]}, "containers[0].env[0].name: Expected `str`, got `int` [WrongType]"),
    ],
)
def test_a_volcano_job_whose_template_has_another_shape_than_a_pod_is_refused(spoilt: Json, said: str) -> None:
    job = seeds_job()
    good = {**job["spec"]["tasks"][0]["template"]["spec"], "containers": [{"name": "c", "image": "i", **spoilt}]}
    task = {**job["spec"]["tasks"][0], "template": {"spec": good}}
    bad = {**job, "spec": {**job["spec"], "tasks": [task]}}

    assert create(bad).errors == (f"Job/training-job: spec.tasks[0].template.spec.{said}",)
    assert update(bad, {**bad, "spec": {**bad["spec"], "minAvailable": 2}}).allowed


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called meanwhile."""
    calls = itertools.count()
    sys.setprofile(lambda *_: next(calls) and None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(calls)


HOSTILE: dict[str, Callable[[int], Json]] = {
    "tolerations": lambda n: {"tolerations": [{"operator": "Odd", "effect": f"e{i}"} for i in range(n)]},
    "containers": lambda n: {"containers": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}] * n},
    "resources": lambda n: {"containers": [{"name": "c", "resources": {"limits": {f"a{i}": "x" for i in range(n)}}}]},
    "spreading": lambda n: {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": f"z{i}"} for i in range(n)]},
    "claims": lambda n: {"resourceClaims": [{"name": "x"}] * n},
    "nothing known": lambda n: {f"odd{i}": 1 for i in range(n)},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_grows_with_what_was_sent_and_not_with_its_square(name: str) -> None:
    def calls(faults: int) -> int:
        task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [], **HOSTILE[name](faults)}}}
        job = {**seeds_job(), "spec": {"tasks": [task]}}
        return calls_of(lambda: (create(job), update(job, job)))

    calls(10)
    assert calls(1600) < 6 * calls(400)


def with_bad_tolerations(count: int) -> Judgement:
    containers = [{"name": "c", "image": "i"}]
    spec = {"containers": containers, **HOSTILE["tolerations"](count)}
    return create({**seeds_job(), "spec": {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": spec}}]}})


def test_of_1000_bad_tolerations_the_first_are_named_and_the_rest_are_counted() -> None:
    said = with_bad_tolerations(1_000)

    assert len(said.errors) == MOST_REPORTED + 1
    assert "spec.tasks[0].template.spec.tolerations[0].operator" in said.errors[0]
    assert said.errors[-1].endswith(f": {1_000 - MOST_REPORTED} more")


def test_8000_tolerations_are_too_many_and_not_looked_at_one_by_one() -> None:
    [said] = with_bad_tolerations(8_000).errors

    assert "spec.tasks[0].template.spec.tolerations: has 8000 tolerations, more than the 1000" in said


def test_an_answer_is_short_whatever_was_sent() -> None:
    said = create(a_queue(**{f"{number}{'x' * 10_000}": 1 for number in range(1000)}))
    assert len(said.warnings) == MOST_REPORTED + 1
    assert max(map(len, said.warnings)) <= LONGEST_MESSAGE


# --- shared cards: the matrix ---------------------------------------------------------------------------------------


def a_pod(cards: str | None, *containers: tuple[str | None, str | None]) -> Json:
    def limits(core: str | None, memory: str | None) -> Json:
        given = {"vke.volcengine.com/mgpu-core": core, "vke.volcengine.com/mgpu-memory": memory}
        return {name: amount for name, amount in given.items() if amount is not None}

    annotations = {} if cards is None else {"vke.volcengine.com/container-multiple-gpu": cards}
    made = [
        {"name": f"c{number}", "image": "x", "resources": {"limits": limits(*asked), "requests": limits(*asked)}}
        for number, asked in enumerate(containers)
    ]
    return an_object("Pod", metadata={"annotations": annotations}, spec={"containers": made})


MATRIX = [
    pytest.param(None, [("-20", "6k")], "MGPU101", id="V01"),
    pytest.param(None, [("120", "128")], "MGPU103", id="V02"),
    pytest.param(None, [("20", "128")], "MGPU102", id="V03"),
    pytest.param(None, [("120", None)], "MGPU103", id="V04"),
    pytest.param(None, [("200", "6k")], "MGPU104", id="V05"),
    pytest.param(None, [("200", None)], "", id="V06"),
    pytest.param(None, [("100", None)], "", id="V07"),
    pytest.param(None, [("0", "1024")], "MGPU101", id="V13"),
    pytest.param("x", [(None, None)], "", id="V15"),
    pytest.param(None, [("30", "6k")], "", id="V19"),
    pytest.param(None, [("300", None)], "", id="V21"),
    pytest.param("3,2", [("200", "6k")], "MGPU201", id="W01"),
    pytest.param("-1,2", [("200", "6k"), ("200", "6k")], "MGPU202", id="W02"),
    pytest.param("2", [("200", "6k")], "MGPU203", id="W03"),
    pytest.param("3", [("130", "6k")], "MGPU205", id="W04"),
    pytest.param("2", [("100", "8192")], "", id="W05"),
    pytest.param("2", [("200", None)], "", id="W06"),
    pytest.param("2,0", [("60", "4096"), (None, None)], "", id="W11"),
    pytest.param("1", [("100", None)], "", id="W16"),
    pytest.param("3", [("100", "6000")], "MGPU205", id="W19"),
    pytest.param("3", [("90", "600")], "MGPU204", id="SEED 4.1"),
    pytest.param("2", [("300", "8192")], "MGPU206", id="SEED 4.3"),
    pytest.param("2,0", [("60", "4096"), ("60", "4096")], "MGPU207", id="count and request"),
]


@pytest.mark.parametrize(("cards", "containers", "code"), MATRIX)
def test_the_matrix_of_shared_cards(cards: str | None, containers: list[Any], code: str) -> None:
    judgement = create(a_pod(cards, *containers))

    assert judgement.allowed == (not code), judgement
    assert f"[{code}]" in judgement.message if code else not judgement.errors


def test_a_refusal_names_the_object_the_field_and_the_rule() -> None:
    judgement = create(a_pod(None, ("120", None)))

    assert judgement.message.startswith("Pod/team/x: spec.containers[0].resources")
    assert "must be a multiple of 100" in judgement.message


# --- the other kinds ------------------------------------------------------------------------------------------------


def test_a_queue_with_a_quota_that_is_none_is_refused_and_unknown_cards_warn() -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    world = AdmissionContext(Surroundings([api.decode_object(node)]))
    bad = a_queue(metadata={"annotations": {"volcano.sh/card.quota": '{"A100": -1}'}})
    odd = a_queue(metadata={"annotations": {"volcano.sh/card.quota": '{"A100": 1}'}})

    assert "volcano.sh/card.quota" in create(bad, world).message
    assert create(odd, world).allowed
    assert [warning for warning in create(odd, world).warnings if "no node offers the card" in warning]


def test_names_of_cards_are_no_matter_where_a_configuration_that_is_not_known_may_name_them() -> None:
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}}
    node |= {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}
    odd = a_queue(metadata={"annotations": {"volcano.sh/card.quota": '{"nvidia-l4": 1}'}})

    warnings = create(odd, AdmissionContext(Surroundings([api.decode_object(node)]))).warnings

    assert not [warning for warning in warnings if "no node offers the card" in warning]


def test_a_podgroup_for_the_root_is_refused() -> None:
    assert "the root takes no work" in create(an_object("PodGroup", spec={"queue": "root"})).message


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"volsched.conf": 'actions: "allocat"'}, "did you mean allocate?"),
        ({"other": "x"}, "holds no scheduler configuration; put it under volcano-scheduler.conf"),
        ({"scheduler.conf": "actions: ["}, "data[scheduler.conf]"),
        ({"a.conf": "actions: allocate", "b.conf": "actions: allocate"}, "all hold a scheduler configuration"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(data: Json, said: str) -> None:
    judgement = create(an_object("ConfigMap", data=data))

    assert said in judgement.message


def test_a_field_of_another_type_is_refused_with_its_path() -> None:
    judgement = create(an_object("PodGroup", spec={"minMember": "many"}))

    assert "spec.minMember" in judgement.message
    assert "[WrongType]" in judgement.message


# --- nobody is locked out -------------------------------------------------------------------------------------------


def test_what_was_wrong_before_only_warns() -> None:
    wrong = a_queue(weight=0)
    labelled = a_queue(weight=0, metadata={"labels": {"a": "b"}})

    judgement = update(wrong, labelled)

    assert judgement.allowed
    assert [warning for warning in judgement.warnings if "spec.weight" in warning]


def test_what_was_wrong_before_does_not_let_in_what_is_wrong_now() -> None:
    judgement = update(a_queue(weight=0), a_queue(weight=0, dequeueStrategy="lifo"))

    assert "spec.dequeueStrategy" in judgement.message
    assert "spec.weight" not in judgement.message


def test_a_podgroup_whose_queue_was_closed_can_be_changed_and_none_is_added() -> None:
    closed = {**a_queue("shut"), "status": {"state": "Closed"}}
    group = an_object("PodGroup", spec={"queue": "shut", "minMember": 1})
    other = an_object("PodGroup", spec={"queue": "shut", "minMember": 2})

    assert update(group, other, a_world(closed)).allowed
    assert "is Closed" in create(group, a_world(closed)).message


def test_a_podgroup_that_names_another_queue_while_its_pods_run_is_let_in_with_a_warning() -> None:
    world = a_world(a_queue("a"), a_queue("b"))
    before = an_object("PodGroup", spec={"queue": "a", "minMember": 1}) | {"status": {"phase": "Running", "running": 2}}
    after = before | {"spec": {"queue": "b", "minMember": 1}}

    judgement = update(before, after, world)

    assert judgement.allowed
    [warning] = judgement.warnings
    assert 'spec.queue: 2 of its pods run and count in queue "a": it moves to queue "b" once none' in warning
    assert "[QueueKept]" in warning
    assert update(before, before, world).warnings == ()
    assert update(before | {"status": {"running": 0}}, after, world).warnings == ()
    assert update(after, after | {"spec": {"queue": "b", "minMember": 2}}, world).warnings == ()


def test_an_object_that_is_being_deleted_is_not_judged() -> None:
    going = a_queue(weight=0, metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"})

    assert update(a_queue(), going) == ALLOWED


# --- deletion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["default", "root"])
def test_the_standing_queues_cannot_be_deleted(name: str) -> None:
    assert "always exists and cannot be deleted" in delete(a_queue(name)).message


def test_a_queue_is_deleted_when_nothing_is_left_in_it() -> None:
    parent, child = a_queue("above"), a_queue("below", parent="above")

    assert delete(child, a_world(parent, child)).allowed
    assert "2 PodGroups in it not completed" in delete(child, a_world(parent, child, groups=2)).message
    assert "it is the parent of 1 queue, as 'below'" in delete(parent, a_world(parent, child)).message


def test_what_is_no_queue_or_cannot_be_read_may_go() -> None:
    assert delete(an_object("PodGroup", spec={"queue": "root"})).allowed
    assert delete({"kind": "Queue"}).allowed


# --- anything at all ------------------------------------------------------------------------------------------------


def test_an_answer_does_not_grow_without_end() -> None:
    raw = an_object("PodGroup", spec={"minTaskMember": {f"role-{number}": -1 for number in range(50)}})

    judgement = create(raw)

    assert len(judgement.errors) == MOST_REPORTED + 1
    assert judgement.errors[-1] == f"PodGroup/team/x: {50 - MOST_REPORTED} more"


def test_a_name_that_is_to_be_made_is_shown_as_such() -> None:
    raw = a_pod(None, ("120", None))
    raw["metadata"] = {"generateName": "web-", "namespace": "team"}

    assert create(raw).message.startswith("Pod/team/web-*: ")


leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=12)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
fields = st.dictionaries(st.sampled_from(["metadata", "spec", "data", "status"]), anything)


@pytest.mark.slow(reason="hundreds of random inputs")
@given(
    st.sampled_from(["Queue", "PodGroup", "Pod", "ConfigMap"]), fields, fields, st.sampled_from(["UPDATE", "DELETE"])
)
def test_whatever_is_asked_there_is_an_answer(kind: str, new: Json, old: Json, operation: str) -> None:
    asked = AdmissionRequest(operation, {**an_object(kind), **new}, {**an_object(kind), **old})

    assert isinstance(judge(asked, EMPTY), Judgement)


# --- who may use a queue --------------------------------------------------------------------------------------------


def a_group(queue: str, **fields: Any) -> Json:
    return an_object("PodGroup", spec={"minMember": 1, "queue": queue}, **fields)


def permitting(name: str, rule: str) -> Json:
    return a_queue(name, metadata={"annotations": {ALLOWED_NAMESPACES: rule}})


def test_whoever_may_not_use_a_queue_is_told_at_once_in_the_words_of_the_scheduler() -> None:
    world = a_world(permitting("vision", "other"), a_queue("free"))
    words = (
        'PodGroup/team/x: spec.queue: namespace "team" may not use queue "vision": its annotation '
        "volsched.io/allowed-namespaces lets in namespace other only; name another queue, or have whoever runs the "
        "cluster let the namespace in [QueueNotAllowed]"
    )

    assert create(a_group("vision"), world).errors == (words,)
    assert create(a_group("free"), world).allowed
    assert update(a_group("free"), a_group("vision"), world).errors == (words,), "it is put into the queue"
    left = update(a_group("vision"), a_group("vision", metadata={"labels": {"a": "b"}}), world)
    assert (left.errors, left.warnings) == ((), (words,)), "it was there before"


def test_a_queue_whose_rule_cannot_be_read_is_refused_and_can_be_corrected() -> None:
    broken = permitting("q", '["vision"')
    [error] = create(broken).errors
    assert error.startswith(
        "Queue/q: metadata.annotations[volsched.io/allowed-namespaces]: is no JSON of a list of names"
    )
    assert not update(permitting("q", "vision"), broken).allowed
    assert update(broken, permitting("q", "vision")) == ALLOWED
    assert update(broken, {**broken, "spec": {"weight": 2}}).allowed


@given(st.text(max_size=60))
def test_no_rule_ends_a_review(rule: str) -> None:
    world = a_world(permitting("vision", rule))
    for said in (create(permitting("q", rule)), create(a_group("vision"), world)):
        assert said.warnings == ()
        assert {error.rpartition(" ")[2] for error in said.errors} <= {"[Invalid]", "[QueueNotAllowed]"}
