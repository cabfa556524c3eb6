"""Texts of tenants that are gone take no memory, however long they were and however many there have been."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from plugins.capacity_card.allocated import as_resource
from plugins.capacity_card.requests.requests import CARD_NAME
from plugins.fragmentation.claims import Claims, Wanted
from tests.actions.rigs import conf, cycle, rig
from tests.plugins.capacity_card.clusters import GPU, A, cards
from tests.plugins.capacity_card.clusters import rig as card_rig
from volsched.framework.dra.outcomes import Outcomes
from volsched.framework.dra.reads import reads_of
from volsched.framework.dra.selectors import Selectors
from volsched.framework.dra.states import EVERYTHING
from volsched.mirror import reading
from volsched.model.changes import Deleted
from volsched.model.dra.device import Claim, Device, DeviceId
from volsched.model.dra.reading import claim_spec
from volsched.model.values.quantity import amount_of
from volsched.testing.builders import a_cluster, a_group, a_pod, put

LONG = 200_000
MANY = 20


@contextmanager
def that_is_given_back(count: int = MANY) -> Iterator[None]:
    """Fail if more than a tenth of many long texts stays in memory."""
    tracemalloc.start()
    try:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        yield
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < LONG * count / 10


def text(number: int) -> str:
    return f"{number}{'x' * LONG}"


EDITS: dict[str, Callable[[int], dict[str, Any]]] = {
    "name of a resource": lambda n: {"spec": {"minResources": {text(n): "1"}}},
    "quantity": lambda n: {"spec": {"minResources": {"cpu": f"{'0' * LONG}{n}"}}},
    "quantity with spaces": lambda n: {"spec": {"minResources": {"cpu": f"{' ' * LONG}{n}"}}},
    "queue": lambda n: {"spec": {"queue": text(n)}},
    "class": lambda n: {"spec": {"priorityClassName": text(n)}},
    "role": lambda n: {"spec": {"minTaskMember": {text(n): 1}}},
    "duration": lambda n: {"metadata": {"annotations": {"volcano.sh/sla-waiting-time": f"{'0' * LONG}{n}s"}}},
    "label": lambda n: {"metadata": {"labels": {"key": text(n)}}},
}


@pytest.mark.parametrize("edit", EDITS)
def test_podgroups_that_are_gone_leave_no_text(edit: str) -> None:
    on = rig(
        a_cluster().node("n1", cpu=4).queue("q"),
        conf("enqueue, reserve, allocate", "priority gang sla", "drf predicates proportion nodeorder binpack"),
    )

    def come_and_go(number: int) -> None:
        group = a_group(f"g{number}", "q", 1, "Pending")
        for part, fields in EDITS[edit](number).items():
            group[part] |= fields
        cycle(on, put(group))
        cycle(on, Deleted("PodGroup", "default", f"g{number}", group["metadata"]["uid"]))

    come_and_go(0)
    with that_is_given_back():
        for number in range(1, MANY + 1):
            come_and_go(number)


def test_templates_of_large_pods_are_swept_however_many_pods_there_are() -> None:
    cluster = a_cluster().node("n1", cpu=1000).queue("q").group("g", "q", 1, "Running")
    for number in range(1000):
        cluster.pod(f"p{number}", "g", on="n1", cpu=1)
    on = rig(cluster, conf("allocate", "priority gang", "predicates"))
    many = 2 * (8 << 20) // LONG
    for number in range(many):
        spec = {"tolerations": [{"key": "k", "operator": "Equal", "value": text(number)}]}
        on.mirror.apply([put(a_pod("large", "g", spec=spec, metadata={"uid": f"u{number}"}))])
        on.mirror.apply([Deleted("Pod", "default", "large", f"u{number}")])

    assert len(on.mirror.templates) < many * 0.6


@pytest.mark.parametrize(
    "read",
    [
        lambda n: amount_of(text(n), "1"),
        lambda n: amount_of("cpu", f"{n}{' ' * LONG}"),
        lambda n: reading.seconds(text(n)),
        lambda n: as_resource(text(n)),
        lambda n: reads_of(f"true // {text(n)}"),
    ],
    ids=["name of a resource", "quantity", "time", "card", "expression"],
)
def test_what_is_remembered_of_texts_has_a_bound(read: Callable[[int], object]) -> None:
    with that_is_given_back():
        for number in range(MANY):
            read(number)


def test_answers_of_long_expressions_are_kept_without_these() -> None:
    selectors, device = Selectors(), Device(DeviceId("gpu.example.com", "n1", "gpu-0"))
    first = f"true // {'x' * 9000}"
    assert selectors.select(first, device) is True
    with that_is_given_back():
        for number in range(MANY * LONG // 9000):
            selectors.select(f"false // {number}{'x' * 9000}", device)

    assert selectors.select(first, device) is True


def asks(number: int, length: int, reads: int = 0) -> Any:
    """The spec of a claim with a selector that is long, and reads so many attributes."""
    words = [f'device.attributes["d"].a{number}x{n} == 1' for n in range(reads)]
    expression = f"{' || '.join(words) or 'true'} // {'x' * length}"
    request = {"name": "r", "exactly": {"deviceClassName": "c", "selectors": [{"cel": {"expression": expression}}]}}
    return claim_spec({"devices": {"requests": [request]}})


def test_the_shape_of_a_long_claim_is_a_digest() -> None:
    long, equal, other, short = asks(1, 9000), asks(1, 9000), asks(2, 9001), asks(1, 10)

    assert (long.fault, short.fault) == ("", "")
    assert (long.is_long, short.is_long) == (True, False)
    assert len(long.shape) < 100
    assert long.shape == equal.shape
    assert long.shape != other.shape


def test_claims_that_are_gone_leave_no_text_with_the_outcomes_of_searches() -> None:
    outcomes = Outcomes(rig(a_cluster(), conf("allocate", "gang")).cluster.devices, Selectors())

    def demand(spec: Any) -> Any:
        return outcomes._demand_of([Claim("ns/c", "u", "1", spec, None, False, None, ())])

    with that_is_given_back():
        for number in range(400):
            demand(asks(number, 9000))
    assert demand(asks(0, 10, reads=65)).reads is EVERYTHING
    assert len(demand(asks(0, 10, reads=64)).reads) == 64


def test_nothing_is_remembered_of_what_a_long_claim_asks_for() -> None:
    claims = Claims(rig(a_cluster(), conf("allocate", "gang")).cluster.devices)
    with that_is_given_back():
        for number in range(400):
            assert claims.asked([asks(number, 9000)]) == ()
    assert Wanted(("x" * 5000,)).is_long
    assert not Wanted(("true",)).is_long


@pytest.mark.parametrize("on_node", [None, "n1"], ids=["waits", "runs"])
@pytest.mark.parametrize(
    "names",
    [text, lambda n: "|".join(f"{n}c{i}" for i in range(2000)), lambda n: f"{A}|{text(n)}"],
    ids=["one name", "many names", "a card and a long name"],
)
def test_pods_that_are_gone_leave_no_names_of_cards(names: Callable[[int], str], on_node: str | None) -> None:
    on = card_rig(cards().cards("n1", A).quota("q", {A: 8}).gang("g", on="n1"))

    def come_and_go(number: int) -> None:
        on.cycle(
            put(
                a_pod(
                    "p",
                    "g",
                    on=on_node,
                    annotations={CARD_NAME: names(number)},
                    metadata={"uid": f"u{number}"},
                    **{GPU: 1},
                )
            ),
        )
        on.cycle(Deleted("Pod", "default", "p", f"u{number}"))

    come_and_go(0)
    with that_is_given_back(80):
        for number in range(1, 81):
            come_and_go(number)
