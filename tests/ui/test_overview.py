"""The overview: figures that equal the lists they link to, cards that count once, and no name of others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from tests.ui.worlds import GPU, NOW, PRODUCT, gone, group, known_of, live_of, made, node, picture_of, pod, puts, queue
from volsched.diagnose.card_states import STATES, CardBar, FreeCards, with_states
from volsched.diagnose.cards import NodeCards
from volsched.diagnose.reasons import frequent_reasons, reasons_in
from volsched.framework.quota_report import STRANDED_CARDS, QuotaRow, QuotaTable
from volsched.mirror.quarantine import QuarantinedObject
from volsched.model import api
from volsched.model.held_nodes import RESERVED, stamp
from volsched.ui.access import WHOLE, Visibility
from volsched.ui.history import DAY_SECONDS, POINT_SECONDS, Day
from volsched.ui.jobs_page import JobQuery, JobsView
from volsched.ui.overview_page import OverviewView, segments_of, shares_of
from volsched.ui.pages import Pages
from volsched.ui.picture import Live, Picture
from volsched.ui.redaction import seen_by

FRAGMENTATION = """
actions: "enqueue, allocate, reserve"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: fragmentation}]
"""
VALUES = {"is_followed": True, "grafana": "", "dashboards": ()}
TEAM = Visibility(frozenset({"team"}), frozenset({"default", "mine"}), nodes=False)


def job(key: str, gpus: int, on: str = "", in_queue: str = "default") -> list[api.ApiObject]:
    return [group(key, in_queue), pod(key, gpus, on)]


def cordoned(name: str) -> api.ApiObject:
    found = node(name)
    assert isinstance(found, api.Node)
    return msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, unschedulable=True))


def tainted(name: str, key: str) -> api.ApiObject:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8"}
    spec = {"taints": [{"key": key, "effect": "NoSchedule"}]}
    return made("Node", name, labels={PRODUCT: "A100"}, spec=spec, status={"allocatable": amounts, "capacity": amounts})


def panels(picture: Picture, scope: Visibility = WHOLE) -> dict[str, str]:
    view = OverviewView(Pages(lambda: NOW), VALUES)
    view.show(seen_by(scope, picture))
    return view.panels


def states(bar: CardBar) -> tuple[float, ...]:
    return bar.used, bar.promised, bar.stranded, bar.unavailable, bar.free, bar.total


# --- cards ----------------------------------------------------------------------------------------------------------


def test_each_card_is_in_one_state_and_the_states_add_up() -> None:
    taints = [tainted("n4", "node.kubernetes.io/not-ready"), tainted("n5", "example.com/other")]
    jobs = [*job("team/a", 3, "n1"), *job("team/b", 2, "n2"), *job("team/waits", 9)]
    picture = picture_of(known_of([node("n1"), cordoned("n2"), node("n3", 4, "T4"), *taints, *jobs], FRAGMENTATION))

    bars = {bar.model: bar for bar in picture.overview.bars}

    assert bars["A100"].used == 5
    assert bars["A100"].unavailable == 6 + 8
    assert bars["A100"].total == 32
    for bar in bars.values():
        assert sum(states(bar)[:5]) == bar.total
        assert [part.state for part in segments_of(bar)] == [
            state for state in ("used", *STATES, "free") if getattr(bar, state)
        ]
        assert sum(part.width for part in segments_of(bar)) == pytest.approx(100, abs=0.1)


def test_stranded_cards_are_those_of_the_command_line() -> None:
    """Eight cards are wanted at once, and each node has four."""
    nodes = [node("n1"), node("n2")]
    jobs = [*job("team/a", 4, "n1"), *job("team/b", 4, "n2"), *job("team/w", 8), *job("team/x", 8)]
    overview = picture_of(known_of([*nodes, *jobs], FRAGMENTATION)).overview

    [bar] = overview.bars
    [table] = [table for table in overview.tables if table.name == STRANDED_CARDS]

    assert bar.stranded == table.rows[0].figures["stranded"] == 8
    assert states(bar) == (8, 0, 8, 0, 0, 16)


def test_promised_cards_are_those_of_nominated_pods_and_held_nodes() -> None:
    live = live_of(known_of([node("n1"), node("n2")], FRAGMENTATION))
    info = live.cluster.nodes["n1"]
    cards = NodeCards("n1", "A100", "card", 3, 8, resource=GPU)

    nominated = with_states(cards, info, FreeCards(nominated={"n1": {GPU: 2000}}))
    held = with_states(cards, info, FreeCards({"n1": 1.0}, {"n1": 1.0}))

    assert (nominated.promised, nominated.stranded) == (2, 0)
    assert (held.promised, held.stranded) == (5, 0), "a card is promised or stranded, not both"
    assert with_states(cards, None, FreeCards()).unavailable == 5


def test_a_nominated_pod_promises_cards_of_its_node() -> None:
    waits = pod("team/waits", 3)
    assert isinstance(waits, api.Pod)
    waits = msgspec.structs.replace(waits, status=msgspec.structs.replace(waits.status, nominated_node_name="n1"))
    runs = [group("team/runs"), pod("team/runs", 8, "n2")]
    objects = [node("n1"), node("n2"), *runs, group("team/waits", minimum=2), waits]

    [bar] = picture_of(known_of(objects, FRAGMENTATION)).overview.bars

    assert states(bar) == (8, 3, 0, 0, 5, 16)


def test_bars_follow_changes() -> None:
    live = live_of(known_of([node("n1"), node("n2"), *job("team/a", 3, "n1")], FRAGMENTATION))
    before = live.look(NOW).overview.bars

    live.take([*puts(cordoned("n1")), gone(node("n2"))])
    after = live.look(NOW).overview.bars

    assert [(bar.used, bar.unavailable, bar.total) for bar in (*before, *after)] == [(3, 0, 16), (3, 5, 8)]


def test_stranded_cards_follow_the_pods_that_wait_though_no_node_changes() -> None:
    jobs = [*job("team/a", 4, "n1"), *job("team/b", 4, "n2")]
    live = live_of(known_of([node("n1"), node("n2"), *jobs], FRAGMENTATION))
    [before] = live.look(NOW).overview.bars

    live.take(puts(*job("team/w", 8), *job("team/x", 8)))
    [after] = live.look(NOW).overview.bars

    assert (before.stranded, before.free) == (0, 8)
    assert (after.stranded, after.free) == (8, 0)


# --- waiting jobs ---------------------------------------------------------------------------------------------------

MESSAGES = {
    "0/6 nodes are available: 4 node(s) didn't match Pod's node affinity/selector, 2 Insufficient nvidia.com/gpu.": {
        "node(s) didn't match Pod's node affinity/selector": "node(s) didn't match Pod's node affinity/selector",
        "Insufficient nvidia.com/gpu": "Insufficient nvidia.com/gpu",
    },
    'queue "a" of PodGroup "b/c" does not exist': {"does not exist": "queue … of PodGroup … does not exist"},
    'queue resource quota insufficient: insufficient cpu (queue "a": cpu: requested 1)': {
        "queue resource quota insufficient": "queue resource quota insufficient"
    },
    "": {},
}


@pytest.mark.parametrize("message", MESSAGES)
def test_reasons_are_parts_of_messages_without_names(message: str) -> None:
    assert reasons_in(message) == MESSAGES[message]
    assert all(words in message for words in reasons_in(message))


def test_counts_of_reasons_are_those_of_the_lists_that_they_link_to() -> None:
    jobs = [*job("team/a", 9), *job("team/b", 9), *job("team/c", 1, in_queue="nosuch")]
    picture = picture_of(known_of([node("n1"), *jobs]))
    pages = Pages(lambda: NOW)

    for reason in picture.overview.reasons:
        view = JobsView(pages, JobQuery.of({"state": "waiting", "reason": reason.words}))
        view.show(seen_by(WHOLE, picture), picture.history)
        assert len(view.table.html) == reason.jobs > 0

    assert [reason.jobs for reason in picture.overview.reasons] == [2, 1]
    assert "reason=Insufficient+nvidia.com%2Fgpu" in panels(picture)["waiting"].replace("%20", "+")


def test_the_most_frequent_reasons_come_first() -> None:
    job_of = picture_of(known_of([node("n1"), *job("team/a", 9)])).waiting[0]
    jobs = [msgspec.structs.replace(job_of, message=message) for message in ("b", "a", "b", "c", "d")]

    assert [(reason.words, reason.jobs) for reason in frequent_reasons(jobs, 3)] == [("b", 2), ("a", 1), ("c", 1)]


# --- queues ---------------------------------------------------------------------------------------------------------


def test_queues_are_ordered_by_the_share_of_what_they_deserve_else_of_their_quota() -> None:
    version = "scheduling.volcano.sh/v1beta1"
    spec = {"deserved": {GPU: "4"}, "capability": {GPU: "8"}}
    deserving = made("Queue", "deserving", version=version, spec=spec)
    objects = [node("n1"), node("n2"), deserving, queue("limited", gpus="4"), queue("free")]
    jobs = [*job("team/a", 6, "n1", "deserving"), *job("team/b", 1, "n2", "limited")]
    configuration = FRAGMENTATION.replace("{name: predicates}", "{name: predicates}, {name: capacity}")
    picture = picture_of(known_of([*objects, *jobs], configuration))

    found = {one.queue.name: (one.figures.resource, one.share, one.is_deserved) for one in shares_of(picture.queues)}

    assert found["deserving"] == (GPU, 1.5, True)
    assert found["limited"] == (GPU, 0.25, False)
    assert "free" not in found
    text = panels(picture)["queues"]
    assert text.index("deserving") < text.index("limited")
    assert "/queue/deserving" in text


# --- the last hour, and the last day --------------------------------------------------------------------------------


def running(key: str, phase: str = "Running") -> api.ApiObject:
    found = pod(key, 1, "n1")
    assert isinstance(found, api.Pod)
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, phase=phase))


def counts(live: Live, now: float) -> tuple[int, int, int]:
    recent = live.look(now).overview.recent
    return recent.started, recent.ended, recent.evicted


def followed(*objects: api.ApiObject) -> Live:
    live = live_of(known_of([node("n1"), queue("default"), *objects]))
    live.look(NOW)
    return live


def test_jobs_that_ran_before_the_page_are_not_counted_as_started() -> None:
    live = followed(group("team/a"), running("team/a"))

    recent = live.look(NOW).overview.recent

    assert (recent.started, recent.ended, recent.evicted, recent.since) == (0, 0, 0, NOW)


def test_a_gang_starts_once_and_ends_with_its_last_pod() -> None:
    members = [running(f"team/{name}") for name in ("g-0", "g-1")]
    members = [
        msgspec.structs.replace(
            each,
            metadata=msgspec.structs.replace(each.metadata, annotations={"scheduling.k8s.io/group-name": "g"}),
        )
        for each in members
        if isinstance(each, api.Pod)
    ]
    bound = [msgspec.structs.replace(each, status=api.PodStatus(phase="Pending")) for each in members]
    live = followed(group("team/g", minimum=2), *bound)

    live.take(puts(*members))
    assert counts(live, NOW + 60) == (1, 0, 0)

    over = [msgspec.structs.replace(each, status=api.PodStatus(phase="Succeeded")) for each in members]
    live.take(puts(over[0]))
    assert counts(live, NOW + 120) == (1, 0, 0)
    live.take(puts(over[1]))
    assert counts(live, NOW + 180) == (1, 1, 0)


def test_an_evicted_job_is_counted_as_evicted_only() -> None:
    victim = running("team/a")
    live = followed(group("team/a"), victim)
    assert isinstance(victim, api.Pod)
    condition = api.Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    live.take(puts(msgspec.structs.replace(victim, status=api.PodStatus(phase="Running", conditions=(condition,)))))
    live.take([gone(victim)])

    assert counts(live, NOW + 60) == (0, 0, 1)


def test_counts_are_forgotten_after_an_hour_and_the_page_is_told_when() -> None:
    live = followed(group("team/a"), running("team/a"))
    live.take([gone(running("team/a")), gone(group("team/a"))])
    assert counts(live, NOW + 60) == (0, 1, 0)

    due = live.due()

    assert due is not None
    assert NOW + 3600 < due <= NOW + 3600 + 120
    assert counts(live, due) == (0, 0, 0)
    assert live.look(due).overview.recent.since == 0.0, "the page has counted for an hour"


def test_a_day_has_a_point_for_each_five_minutes() -> None:
    day = Day()
    for second in range(0, 2 * DAY_SECONDS, POINT_SECONDS // 2):
        day.note(NOW + second, second, second)

    points = day.points()

    assert len(points) <= DAY_SECONDS // POINT_SECONDS + 2
    assert points[-1].used == 2 * DAY_SECONDS - POINT_SECONDS // 2
    assert {after.at - before.at for before, after in pairwise(points)} == {POINT_SECONDS}


def test_the_day_has_used_cards_and_waiting_jobs_as_charts_with_words() -> None:
    live = followed(*job("team/a", 9), group("team/r"), running("team/r"))
    live.take([gone(running("team/r")), gone(group("team/r"))])
    text = panels(live.look(NOW + 600))["history"]

    assert text.count("data-points") == 2
    assert "now 0, 3 min ago 1; lowest 0, highest 1" in text
    assert "now 1, 3 min ago 1; lowest 1, highest 1" in text


# --- what others may not see ----------------------------------------------------------------------------------------

HIDDEN = ("secret", "hush", "node-")


def others() -> Picture:
    nodes = [node(f"node-{number}") for number in range(3)]
    jobs = [*job("secret/holder", 6, "node-0", "hush"), *job("secret/w", 9, "", "hush"), *job("team/waits", 9)]
    picture = picture_of(known_of([*nodes, queue("default"), queue("hush", gpus="7"), *jobs]))
    rows = [
        QuotaRow(("hush", "secret/x"), {"start": None, "nodes": "node-0, node-1"}),
        QuotaRow(("mine", "team/x"), {"start": "2026-01-01T00:00:00Z", "nodes": "node-0, node-1"}),
    ]
    promises = QuotaTable("reservations", "Reservations", ("queue", "job"), ("start", "nodes"), rows)
    strange = QuotaTable("strange", "Strange", ("rack",), ("owner",), [QuotaRow(("secret-rack",), {"owner": "hush"})])
    faults = (
        QuarantinedObject("Pod", "v1", "secret", "bad", "1", "decoding", "spec: wrong", "node-0"),
        QuarantinedObject("Node", "v1", "", "node-7", "2", "decoding", "status: wrong"),
        QuarantinedObject("Pod", "v1", "team", "worse", "3", "decoding", 'beside pod "secret/w": wrong'),
    )
    return replace(picture, overview=replace(picture.overview, tables=(promises, strange), faults=faults))


def text_of(found: Iterable[str]) -> str:
    return "\n".join(found).replace("<wbr>", "")


def test_every_panel_has_counts_in_place_of_names_of_others() -> None:
    picture = others()
    text = text_of(panels(picture, TEAM).values())

    assert [name for name in HIDDEN if name in text] == []
    assert "team/x" in text
    assert "worse" in text
    assert "2 objects of others" in text
    assert "1 row is about others" in text
    assert "1 job is of others" in text
    assert all(name in text_of(panels(picture).values()) for name in HIDDEN)


def test_all_readers_see_all_cards() -> None:
    picture = others()

    assert panels(picture, TEAM)["cards"] == panels(picture)["cards"]


def test_a_table_of_a_plugin_is_shown_without_a_template_of_its_own() -> None:
    picture = picture_of(known_of([node("n1")]))
    table = QuotaTable("racks", "Racks <b>", ("rack",), ("freeCards",), [QuotaRow(("r<1>",), {"freeCards": 12345})])
    text = panels(replace(picture, overview=replace(picture.overview, tables=(table,))))["tables"]

    assert "Racks &lt;b&gt;" in text
    assert "r&lt;1&gt;" in text
    assert "free cards" in text
    assert "12,345" in text


# --- live -----------------------------------------------------------------------------------------------------------


def test_only_panels_that_differ_are_sent() -> None:
    live = live_of(known_of([node("n1"), *job("team/a", 9)]))
    view = OverviewView(Pages(lambda: NOW), VALUES)
    assert len(re.findall('hx-swap-oob="true" id="panel-', view.show(seen_by(WHOLE, live.look(NOW)))[0][1])) == 8
    assert view.show(seen_by(WHOLE, live.look(NOW))) == []

    live.take(puts(*job("team/b", 9)))
    [(name, html)] = view.show(seen_by(WHOLE, live.look(NOW)))

    assert name == "panels"
    assert re.findall('id="panel-([a-z]+)"', html) == ["figures", "waiting"]


def test_a_reservation_is_shown_with_its_start_and_its_nodes_are_promised() -> None:
    message = f"promised at {stamp(NOW - 60)}: starts by {stamp(NOW + 7200)} on nodes n1"
    condition = {"type": RESERVED, "status": "True", "reason": RESERVED, "message": message}
    version = "scheduling.volcano.sh/v1beta1"
    status = {"phase": "Pending", "conditions": [condition]}
    large = made("PodGroup", "large", "team", version, spec={"minMember": 1, "queue": "default"}, status=status)
    runs = msgspec.structs.replace(pod("team/runs", 3, "n1"))
    runs.metadata.annotations["volsched.io/expected-duration"] = "2h"
    picture = picture_of(known_of([node("n1"), group("team/runs"), runs, large, pod("team/large", 8)], FRAGMENTATION))

    [bar] = picture.overview.bars
    text = panels(picture)["promises"]

    assert states(bar) == (3, 5, 0, 0, 0, 8)
    assert 'href="/job/team/large"' in text
    assert "2033-05-18 05:33Z" in text
    assert 'class="at"' in text, "the script leaves it as it is"
    assert "in 2 h" in text
