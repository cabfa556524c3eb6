"""Admission beside a cluster that changes: what is put together anew, and that a broken rule locks nobody out."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from volsched.framework.validation import Surroundings
from volsched.kube.client.credentials import Source
from volsched.kube.serve.metrics import Metrics
from volsched.model import api
from volsched.model.changes import Deleted, Put
from volsched.operator.webhooks import admission
from volsched.operator.webhooks.admission import Admission, Neighbourhood
from volsched.operator.webhooks.listening import Listening
from volsched.validation.admission import CREATE, DELETE, AdmissionContext, AdmissionRequest, Judgement, judge


def a_node(name: str, *, cards: int = 8, heartbeat: str = "") -> api.Node:
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "resourceVersion": heartbeat},
        "status": {
            "allocatable": {"nvidia.com/gpu": str(cards)},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": heartbeat or None}],
        },
    }
    return api.decode_as(api.Node, raw)


def a_namespace(name: str, version: str = "", **labels: str) -> api.Namespace:
    return api.decode_as(api.Namespace, {"metadata": {"name": name, "labels": labels, "resourceVersion": version}})


def a_queue(name: str, running: int = 0, **spec: Any) -> api.Queue:
    return api.decode_as(api.Queue, {"metadata": {"name": name}, "spec": spec, "status": {"running": running}})


def test_what_kubelets_and_controllers_write_puts_nothing_together_anew() -> None:
    queues = {"q": a_queue("q")}
    neighbours = Neighbourhood(queues)
    neighbours.observe([Put(a_node(f"n{number}")) for number in range(100)])
    neighbours.queue_changed("q")
    first = neighbours.beside()

    for number in range(100):
        neighbours.observe([Put(a_node(f"n{number}", heartbeat="2026-01-31T12:00:00Z"))])
        queues["q"] = a_queue("q", running=number)
        neighbours.queue_changed("q")

    assert neighbours.beside() is first


def test_what_no_rule_reads_of_a_node_is_not_kept() -> None:
    neighbours = Neighbourhood({})
    neighbours.observe([Put(a_node("n", heartbeat="2026-01-31T12:00:00Z"))])

    [kept] = neighbours.beside().of(api.Node)

    assert kept.status.allocatable == {"nvidia.com/gpu": "8"}
    assert (kept.status.conditions, kept.status.images) == ((), ())


def test_what_rules_read_is_seen_when_it_changes() -> None:
    queues: dict[str, api.Queue] = {}
    neighbours = Neighbourhood(queues)

    def seen() -> tuple[list[str], list[str]]:
        beside = neighbours.beside()
        return sorted(beside.queues), [node.metadata.name for node in beside.of(api.Node)]

    assert seen() == ([], [])
    neighbours.observe([Put(a_node("n"))])
    queues["q"] = a_queue("q")
    neighbours.queue_changed("q")
    assert seen() == (["q"], ["n"])
    neighbours.observe([Put(a_namespace("n", team="ml"))])
    assert neighbours.beside().namespaces["n"].metadata.labels == {"team": "ml"}
    neighbours.observe([Put(a_namespace("n", team="vision"))])
    assert neighbours.beside().namespaces["n"].metadata.labels == {"team": "vision"}
    before = neighbours.beside()
    neighbours.observe([Put(a_namespace("n", "7", team="vision"))])
    assert neighbours.beside().of(api.Node)
    assert neighbours.beside() is before
    neighbours.observe([Deleted("Namespace", "", "n", "")])
    assert (neighbours.beside().namespaces, len(neighbours.beside().of(api.Node))) == ({}, 1)
    neighbours.observe([Put(a_node("n", cards=4))])
    assert neighbours.beside().of(api.Node)[0].status.allocatable == {"nvidia.com/gpu": "4"}
    queues["q"] = a_queue("q", weight=3)
    neighbours.queue_changed("q")
    assert neighbours.beside().queues["q"].spec.weight == 3
    neighbours.observe([Deleted("Node", "", "n", "")])
    del queues["q"]
    neighbours.queue_changed("q")
    assert seen() == ([], [])


async def test_reviews_are_judged_on_threads_beside_what_is_known_when_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged_on: list[str] = []

    def noted(request: AdmissionRequest, world: AdmissionContext) -> Judgement:
        judged_on.append(threading.current_thread().name)
        return judge(request, world)

    monkeypatch.setattr(admission, "judge", noted)
    queues = {"team": a_queue("team")}
    groups: list[str] = []
    there = Admission(
        Source(),
        Listening("", "", ""),
        Neighbourhood(queues),
        lambda name: groups.append(name) or 3,  # type: ignore[func-returns-value]
        lambda _: None,
    )
    version = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}

    judgement = await there._judge("queues", AdmissionRequest(DELETE, None, {**version, "metadata": {"name": "team"}}))

    assert (groups, judged_on) == (["team"], ["review_0"])
    assert "3 PodGroups" in judgement.message


async def test_a_rule_that_fails_lets_in_with_a_warning_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: AdmissionRequest, world: Any) -> Any:
        raise RuntimeError(request.operation)

    monkeypatch.setattr(admission, "judge", broken)
    there = Admission(Source(), Listening("", "", ""), Neighbourhood({}), lambda _: 0, lambda _: None)
    metrics = Metrics()
    there.add_gauges(metrics)

    judgement = await there._judge("queues", AdmissionRequest(CREATE, {}))

    assert judgement.allowed
    assert "lets it in: RuntimeError" in judgement.warnings[0]
    assert 'answer="failed",operation="CREATE",resource="queues"} 1.0' in metrics.render().decode()


def test_surroundings_are_made_once_for_many_requests() -> None:
    neighbours = Neighbourhood({})
    counted = []

    def derived(beside: Surroundings) -> int:
        counted.append(beside)
        return len(counted)

    for _ in range(10):
        neighbours.beside().derived(derived)

    assert len(counted) == 1
