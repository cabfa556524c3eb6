"""What is said of card annotations before scheduling, on each kind that carries them, alone and beside Nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.capacity_card import validation
from plugins.capacity_card.requests.requests import CARD_NAME, CARD_REQUEST
from tests.plugins.capacity_card.nodes import GPU, MIG, card_node
from tests.simulation.clusters import Manifest, group, node, pod, queue, volcano_job, workload
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.cards.inventory import card_inventory_of
from volsched.model.cards.names import CARD_QUOTA
from volsched.simulation.manifests import completed, decode, subject_of
from volsched.validation.objects import problems_of
from volsched.validation.problems import Problem

A, H = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100"
QUOTA, REQUEST, NAME = (f"metadata.annotations[{key}]" for key in (CARD_QUOTA, CARD_REQUEST, CARD_NAME))


def read(*manifests: Manifest) -> list[api.ApiObject]:
    return [completed(decode(raw)) for raw in manifests]


def problems(*manifests: Manifest) -> list[Problem]:
    return list(problems_of(read(*manifests), subject_of))


def said(*manifests: Manifest) -> list[tuple[str, str, str]]:
    return [(problem.field, problem.code, problem.severity) for problem in problems(*manifests)]


def annotated(manifest: Manifest, **annotations: Any) -> Manifest:
    """Return the manifest with annotations, ``card_quota`` and so on; values that are no texts become JSON."""
    given = {
        f"volcano.sh/{key.replace('_', '.')}": value if isinstance(value, str) else json.dumps(value)
        for key, value in annotations.items()
    }
    metadata = {**manifest["metadata"], "annotations": {**manifest["metadata"].get("annotations", {}), **given}}
    return {**manifest, "metadata": metadata}


def card_pod(name: str, devices: dict[str, int] | None = None, resource: str = GPU) -> Manifest:
    """A pod that names a card and asks for one device, or for others."""
    limits = {resource: 1} if devices is None else devices
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return annotated(pod("p", containers=containers), card_name=name)


NODES = (card_node("a1", A), card_node("h1", H), card_node("m1", A, {f"{MIG}1g.10gb": 8}))


# --- errors: what can be right on no cluster ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ('{"A": 1', QUOTA, "is not JSON at line 1"),
        ('["A"]', QUOTA, "must be a JSON object of cards"),
        ('{"A": -2}', f'{QUOTA}["A"]', "must not be negative (-2)"),
        ('{"A": 1.5}', f'{QUOTA}["A"]', "must be a whole number of cards, not 1.5"),
        ('{"A": "1", "B": 1}', f'{QUOTA}["A"]', 'must be a whole number of cards, not "1"'),
        ('{"A|B": 1}', f'{QUOTA}["A|B"]', "give each card its own"),
        ('{"": 1}', f'{QUOTA}[""]', "is no name of a card"),
    ],
)
def test_a_broken_quota_is_an_error_at_its_entry(text: str, field: str, words: str) -> None:
    (found,) = problems(annotated(queue("q"), card_quota=text))

    assert (found.object, found.field, found.code, found.severity) == ("Queue/q", field, "Invalid", "error")
    assert words in found.message


@pytest.mark.parametrize(
    "manifest",
    [group("g"), volcano_job("j", {"worker": 1}), workload("Deployment", "d"), workload("Job", "j"), pod("p")],
    ids=lambda manifest: manifest["kind"],
)
def test_a_broken_request_is_an_error_on_every_kind_that_a_podgroup_is_made_of(manifest: Manifest) -> None:
    (found,) = problems(annotated(manifest, card_request='{"A": -1}'))

    assert (found.field, found.code, found.severity) == (f'{REQUEST}["A"]', "Invalid", "error")


@pytest.mark.parametrize(
    ("name", "devices", "code", "words"),
    [
        ("|", None, "Invalid", "names no card"),
        ("A\n1", None, "Invalid", "is no name of a card"),
        ("A", {}, "Required", "no container asks for its resource (as nvidia.com/gpu)"),
        ("A/mps-80g*1/8", {GPU: 1}, "Required", "asks for its resource nvidia.com/gpu.shared"),
        ("A/mig-1g.5gb-mixed", {GPU: 1}, "Required", "asks for its resource nvidia.com/mig-1g.5gb"),
    ],
)
def test_a_pod_that_can_never_have_its_card_is_an_error(
    name: str, devices: dict[str, int] | None, code: str, words: str
) -> None:
    (found,) = problems(card_pod(name, devices))

    assert (found.field, found.code, found.severity) == (NAME, code, "error")
    assert words in found.message


def test_pod_templates_are_judged_like_pods_with_their_path() -> None:
    job = volcano_job("j", {"ps": 1, "worker": 2})
    job["spec"]["tasks"][1]["template"]["metadata"] = {"annotations": {CARD_NAME: "|"}}
    deployment = workload("Deployment", "d", template_annotations={CARD_NAME: "|"})

    assert said(job) == [(f"spec.tasks[1].template.{NAME}", "Invalid", "error")]
    assert said(deployment) == [(f"spec.template.{NAME}", "Invalid", "error")]


def test_a_card_of_which_the_pod_asks_another_resource_is_an_error_once_nodes_tell() -> None:
    npu = card_pod(A, {"huawei.com/npu": 1})

    assert said(npu) == []
    assert said(*NODES, npu) == [(NAME, "Required", "error")]


def test_a_list_over_different_resources_is_an_error_once_nodes_tell() -> None:
    slices = f"{H}|{A}/mig-1g.10gb-mixed"

    assert said(card_pod(slices)) == [(NAME, "Invalid", "warning")]
    (found,) = problems(*NODES, card_pod(slices))
    assert found.severity == "error"
    assert f"{H} is nvidia.com/gpu, {A}/mig-1g.10gb-mixed is nvidia.com/mig-1g.10gb" in found.message


# --- warnings: names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NVIDIA-A100", f"did you mean {A} or {A}/mig-1g.10gb-mixed?"),
        ("a100", f"did you mean {A}"),
        ("NVIDIA H100", "did you mean NVIDIA-H100?"),
        ("NVIDIA-H10O", "did you mean NVIDIA-H100?"),
        (f"{A}/mig-1g.10gb", f"did you mean {A}/mig-1g.10gb-mixed?"),
        ("nvidia.com/mig-1g.10gb", f"did you mean {A}/mig-1g.10gb-mixed?"),
        ("Ascend-910B", f"there are {A}, {A}/mig-1g.10gb-mixed, NVIDIA-H100"),
    ],
)
def test_a_card_that_no_node_offers_is_a_warning_with_what_was_meant(name: str, words: str) -> None:
    quota = annotated(queue("q"), card_quota={name: 1})
    request = annotated(group("g"), card_request={f"{H}|{name}": 1})

    assert said(quota, request) == []
    for manifest in (quota, request, card_pod(f"{H}|{name}")):
        (found,) = problems(*NODES, manifest)
        assert (found.code, found.severity) == ("NotFound", "warning")
        assert f'no node offers the card "{name}"' in found.message
        assert words in found.message


def test_nodes_without_cards_say_where_to_look() -> None:
    (found,) = problems(node("n"), annotated(queue("q"), card_quota={"A": 1}))

    assert "see `volsched cards`" in found.message


def test_a_long_list_of_cards_is_cut() -> None:
    nodes = [card_node(f"n{number}", f"Card-{number:02}x") for number in range(11)]

    (found,) = problems(*nodes, annotated(queue("q"), card_quota={"Ascend": 1}))

    assert found.message.endswith("Card-07x, 3 more")


def test_cards_that_nodes_offer_are_fine_wherever_they_are_named() -> None:
    fine = (
        annotated(queue("q"), card_quota={A: 10, H: 0, f"{A}/mig-1g.10gb-mixed": 3}),
        annotated(group("g", q="q"), card_request={f"{A}|{H}": 10}),
        card_pod(f"{H} | {A}"),
    )

    assert said(*NODES, *fine) == []


# --- warnings: what has no effect, what cannot fit ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manifest", "field", "words"),
    [
        (annotated(group("g"), card_quota={"A": 1}), QUOTA, "it belongs to a Queue"),
        (annotated(queue("q"), card_request={"A": 1}), REQUEST, "it belongs to a PodGroup"),
        (annotated(workload("Deployment", "d"), card_name="A"), NAME, "pod template"),
        (
            workload("Job", "j", template_annotations={CARD_REQUEST: "{}"}),
            f"spec.template.{REQUEST}",
            "belongs to a PodGroup",
        ),
        (annotated(pod("p"), card_nmae="A"), "metadata.annotations[volcano.sh/card.nmae]", "did you mean"),
    ],
)
def test_an_annotation_that_nobody_reads_is_a_warning(manifest: Manifest, field: str, words: str) -> None:
    (found,) = problems(manifest)

    assert (found.field, found.severity) == (field, "warning")
    assert words in found.message


@pytest.mark.parametrize(
    ("wanted", "fits"), [({"A": 4}, True), ({"A": 5}, False), ({"A|B": 6}, True), ({"B|A": 7}, False)]
)
def test_a_job_beyond_what_its_queue_may_ever_hold_is_a_warning(wanted: dict[str, int], fits: bool) -> None:
    team = annotated(queue("team"), card_quota={"A": 4, "B": 2})
    job = annotated(volcano_job("j", {"w": 1}, queue="team"), card_request=wanted)

    found = problems(team, job)

    assert [(problem.object, problem.severity) for problem in found] == ([] if fits else [("Job/default/j", "warning")])
    assert fits or "card.quota of queue 'team' allows" in found[0].message
    assert problems(job) == []


def test_a_quota_beyond_that_of_the_parent_is_a_warning() -> None:
    child = annotated(queue("child", parent="top"), card_quota={"A": 4, "B": 2, "C": 1})
    bounded = annotated(queue("top"), card_quota={"A": 4, "B": 1})

    found = [(problem.object, problem.field, problem.severity) for problem in problems(bounded, child)]

    assert found == [("Queue/child", f'{QUOTA}["{card}"]', "warning") for card in "BC"]
    assert problems(queue("top"), child) == []
    assert "2 is more than the 1 of its parent 'top', which bounds it" in problems(bounded, child)[0].message


def test_children_that_together_may_hold_more_than_their_parent_are_a_warning_on_it() -> None:
    children = [annotated(queue(name, parent="top"), card_quota={"A": 2, "B": 1}) for name in ("one", "two")]
    bounded = annotated(queue("top"), card_quota={"A": 3, "B": 2})

    (problem,) = problems(bounded, *children)

    assert (problem.object, problem.field, problem.severity) == ("Queue/top", f'{QUOTA}["A"]', "warning")
    assert problem.message.startswith("the queues below may hold 4 together, more than the 3 here")
    assert problems(queue("top"), *children) == []


# --- any input ------------------------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(max_size=40),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("AB|/ ", max_size=5), inner, max_size=4),
        max_leaves=8,
    ).map(json.dumps),
)


@given(quota=TEXTS, request=TEXTS, name=TEXTS)
def test_whatever_users_write_is_judged_and_never_fails(quota: str, request: str, name: str) -> None:
    every = {"card_quota": quota, "card_request": request, "card_name": name, name: "?"}
    objects = read(
        *NODES,
        annotated(queue("q"), **every),
        annotated(group("g", q="q"), **every),
        annotated(pod("p"), **every),
        workload("Deployment", "d", template_annotations={CARD_NAME: name}),
    )
    beside = Surroundings(objects)

    for found in objects:
        for fault in validation.validate(found, beside):
            assert fault.field
            assert fault.message


# --- the stock ------------------------------------------------------------------------------------------------------


def test_nodes_are_looked_at_once_for_many_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(
        validation,
        "card_inventory_of",
        lambda nodes, _: looked.append(len(nodes)) or card_inventory_of(nodes),  # type: ignore[func-returns-value]
    )
    objects = read(*NODES, *(annotated(queue(f"q{number}"), card_quota={"X": 1}) for number in range(50)))
    beside = Surroundings(objects)

    faults = [fault for found in objects for fault in validation.validate(found, beside)]

    assert len(faults) == 50
    assert looked == [len(NODES)]
