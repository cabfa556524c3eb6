"""The node map and the page of a node: cells, marks, groups, filters, events, and what is hidden from whom."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from playwright.sync_api import sync_playwright

from bench.followed_page import ServedPage
from tests.ui.test_job_page import EVERYTHING, TEAM, Reader
from tests.ui.worlds import gone, group, known_of, live_of, made, node, pod, puts, queue
from tools import chromium
from volsched.model import api
from volsched.ui import node_map
from volsched.ui.access import WHOLE, Visibility
from volsched.ui.node_map import COLOURS, CardHolder, Colouring, MapTemplates, MapView, Query
from volsched.ui.pages import Pages
from volsched.ui.picture import Live, Picture
from volsched.ui.server import Ui
from volsched.ui.static_cluster import StaticCluster
from volsched.ui.table import Event

NOW = 2_000_000_000.0
RACK = "topology.example.com/rack"
HIDDEN = ("secret", "keeper", "hush", "node-1", "node-2")
"""Names that a reader of the namespace team may not see."""
NODES_ONLY = Visibility(frozenset({"team"}), frozenset({"default", "mine"}), nodes=True)


def rack(found: api.ApiObject, name: str, *, cordoned: bool = False) -> api.ApiObject:
    assert isinstance(found, api.Node)
    meta = msgspec.structs.replace(found.metadata, labels={**found.metadata.labels, RACK: name})
    return msgspec.structs.replace(found, metadata=meta, spec=api.NodeSpec(unschedulable=cordoned))


def running(key: str, gpus: int, on: str, in_queue: str) -> list[api.ApiObject]:
    return [group(key, in_queue, phase="Running"), pod(key, gpus, on)]


def world() -> list[api.ApiObject]:
    return [
        rack(node("node-1"), "r1"),
        rack(node("node-2"), "r1", cordoned=True),
        rack(node("node-10", 4, "T4"), "r2"),
        *(queue("default"), queue("mine"), queue("hush")),
        *running("team/ours", 3, "node-1", "mine"),
        *running("secret/keeper", 4, "node-1", "hush"),
        *running("secret/second", 2, "node-10", "mine"),
    ]


@pytest.fixture
def live() -> Live:
    return live_of(known_of(world()))


def view_of(picture: Picture, scope: Visibility = WHOLE, **filters: str) -> MapView:
    pages = Pages()
    names = ("tile", "group", "legend", "caption")
    templates = MapTemplates(*(pages.templates.get_template(f"nodes_{name}.html").render for name in names))
    opened = filters.pop("open", "")
    query = Query.read(filters, [opened] if opened else [])
    view = MapView(query, templates, lambda name, *, is_open: f"/nodes?open={name}")
    view.show(scope, picture)
    return view


def labels(html: str) -> list[str]:
    return re.findall(r'class="run[^"]*"[^>]* aria-label="([^"]*)"', html)


def heads(html: str) -> list[str]:
    return re.findall(r"<h2><bdi>([^<]*)</bdi>", html)


def asked(cluster: StaticCluster, scope: Visibility, *paths: str) -> dict[str, tuple[int, str]]:
    """Return what a reader gets of each path: status, and text; of events, those at the beginning."""

    async def ask() -> dict[str, tuple[int, str]]:
        ui, found = Ui(cluster, Reader(scope)), {}  # type: ignore[arg-type]
        async with TestClient(TestServer(ui.application())) as client:
            for path in paths:
                async with client.get(path, headers={"Authorization": "Bearer x"}) as answer:
                    is_stream = "event-stream" in answer.content_type
                    text = (await answer.content.readany()).decode() if is_stream else await answer.text()
                    found[path] = answer.status, text
        return found

    return asyncio.run(ask())


def text_of(cluster: StaticCluster, path: str) -> str:
    return asked(cluster, EVERYTHING, path)[path][1]


# --- the map --------------------------------------------------------------------------------------------------------


def test_each_card_is_a_cell_with_its_holder_in_words(live: Live) -> None:
    html = view_of(live.look(NOW)).html

    assert labels(html)[:3] == [
        "A100, cards 1 to 4: PodGroup/keeper in secret, queue hush",
        "A100, cards 5 to 7: PodGroup/ours in team, queue mine",
        "A100, card 8: free",
    ]
    assert html.count("<b>") + html.count("<i>") == 8 + 8 + 4
    assert 'href="/job/team/ours"' in html


def test_nodes_are_grouped_by_model_or_by_a_label_in_natural_order(live: Live) -> None:
    picture = live.look(NOW)

    assert heads(view_of(picture).html) == ["A100", "T4"]
    by_rack = view_of(picture, group=RACK).html
    assert heads(by_rack) == ["r1", "r2"]
    assert re.findall(r'href="/node/([^"]*)"', by_rack) == ["node-1", "node-2", "node-10"]
    assert heads(view_of(picture, group="no.such/label").html) == ["without this label"]
    assert RACK in picture.group_labels


def test_states_of_nodes_are_words_and_their_free_cards_count_apart(live: Live) -> None:
    view = view_of(live.look(NOW))

    assert "cordoned" in view.html
    assert "A100, cards 1 to 8: free, but the node gets no pods" in labels(view.html)
    assert "<strong>8</strong> free on nodes that get no pods" in view.caption


def test_node_that_is_not_ready_says_so() -> None:
    condition = {"type": "Ready", "status": "Unknown"}
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    broken = made("Node", "n", status={"allocatable": amounts, "capacity": amounts, "conditions": [condition]})

    [state] = live_of(known_of([broken])).look(NOW).nodes

    assert state.states == ("not ready",)


def test_queues_have_letters_of_their_own_and_colours(live: Live) -> None:
    view = view_of(live.look(NOW))
    marks = {name: Colouring("queue", ["default", "mine", "hush"]).of(CardHolder("x", "n", name))[0] for name in
             ("default", "mine", "hush")}  # fmt: skip

    assert len({mark.letter for mark in marks.values()}) == len({mark.colour for mark in marks.values()}) == 3
    assert f'<span class="cell k{marks["mine"].colour}" aria-hidden="true">{marks["mine"].letter}' in view.legend
    assert view.html.count(f"<b>{marks['mine'].letter}</b>") == 5


def test_many_queues_share_colours_and_letters_rather_than_have_none() -> None:
    names = [f"queue-{number:03}" for number in range(100)]
    colouring = Colouring("queue", names)

    marks = [colouring.of(CardHolder("x", "n", name))[0] for name in names]

    assert {mark.colour for mark in marks} == set(range(1, COLOURS + 1))
    assert all(mark.letter.isalpha() for mark in marks)


def test_jobs_are_marked_by_their_names(live: Live) -> None:
    view = view_of(live.look(NOW), colour="job")

    assert view.html.count("<b>O</b>") == 3
    assert "PodGroup/keeper" in view.legend


@pytest.mark.parametrize(
    ("filters", "nodes"),
    [
        ({"model": "t4"}, ["node-10"]),
        ({"node": "DE-2"}, ["node-2"]),
        ({"holder": "podgroup/ours"}, ["node-1"]),
        ({"holder": "secret", "model": "a100"}, ["node-1"]),
        ({"queue": "mine"}, ["node-1", "node-10"]),
        ({"holder": "no-such"}, []),
    ],
)
def test_filters_leave_out_nodes(live: Live, filters: dict[str, str], nodes: list[str]) -> None:
    view = view_of(live.look(NOW), **filters)

    assert re.findall(r'href="/node/([^"]*)"', view.html) == nodes
    assert nodes or "No node matches these filters" in view.caption


def test_cells_of_others_than_the_wanted_holder_are_dim(live: Live) -> None:
    html = view_of(live.look(NOW), holder="ours").html

    dim = re.findall(r'class="run[^"]* dim"[^>]* aria-label="([^"]*)"', html)
    assert [label for label in dim if "ours" in label] == []
    assert any("keeper" in label for label in dim)


def test_many_nodes_are_groups_first_and_opened_on_demand(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_map, "MOST_TILES", 2)
    picture = live.look(NOW)

    closed, opened = view_of(picture), view_of(picture, open="A100")

    assert (heads(closed.html), closed.html.count("<li")) == (["A100", "T4"], 0)
    assert 'href="/nodes?open=A100#' in closed.html
    assert opened.html.count('<li class="node-tile') == 2
    assert "7 of 16" in closed.html


def test_an_open_group_has_so_many_nodes_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_map, "MOST_TILES", 2)
    picture = live_of(known_of([node(f"n{number}") for number in range(5)])).look(NOW)

    html = view_of(picture, open="A100").html

    assert html.count('<li class="node-tile') == 2
    assert "3 are not" in html


def test_node_moves_up_into_an_open_group_that_was_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_map, "MOST_TILES", 2)
    live = live_of(known_of([node(f"n{number}") for number in range(4)]))
    view = view_of(live.look(NOW), open="A100")

    live.take([gone(node("n0"))])
    view.show(WHOLE, live.look(NOW))

    assert re.findall(r'href="/node/([^"]*)"', view.html) == ["n1", "n2"]


# --- changes --------------------------------------------------------------------------------------------------------


def names_of(events: Iterable[Event]) -> list[str]:
    return [name for name, _ in events]


def test_nothing_is_sent_where_nothing_has_changed(live: Live) -> None:
    picture = live.look(NOW)
    view = view_of(picture)

    assert view.show(WHOLE, picture) == []
    live.take(puts(*running("team/cpu", 0, "node-1", "mine")))
    assert view.show(WHOLE, live.look(NOW)) == []


def test_only_the_changed_node_its_group_and_the_sums_are_sent(live: Live) -> None:
    view = view_of(live.look(NOW))
    live.take(puts(*running("team/new", 1, "node-10", "default")))

    events = dict(view.show(WHOLE, live.look(NOW)))

    assert sorted(events) == ["changed", "legend", "said"]
    assert re.findall(r'<(\w+)[^>]* hx-swap-oob="true"', events["changed"]) == ["header", "li"]
    assert "PodGroup/new" in events["changed"]
    assert "node-1<" not in events["changed"]


def test_groups_and_nodes_come_and_go_in_their_places(live: Live) -> None:
    view = view_of(live.look(NOW))
    live.take(puts(node("node-3"), node("h", 8, "H100")))
    came = dict(view.show(WHOLE, live.look(NOW)))
    live.take([gone(node("h", 8, "H100")), gone(node("node-10", 4, "T4"))])
    went = dict(view.show(WHOLE, live.look(NOW)))

    assert f'hx-swap-oob="afterend:#{node_map.group_id("A100")}"' in came["new"]
    assert f'<section hx-swap-oob="true" class="nodes" id="{node_map.group_id("A100")}"' in came["changed"]
    assert went["gone"].count('hx-swap-oob="delete"') == 2
    assert heads(view.html) == ["A100"]


def test_what_came_bit_by_bit_looks_as_what_is_read_at_once(live: Live) -> None:
    view = view_of(live.look(NOW), group=RACK)
    steps: list[list[api.ApiObject]] = [
        running("team/a", 1, "node-10", "mine"),
        [rack(node("node-10", 4, "T4"), "r1")],
        [rack(node("node-2"), "r1")],
        [group("team/a", "default", phase="Running")],
    ]
    for step in steps:
        live.take(puts(*step))
        view.show(WHOLE, live.look(NOW))

    fresh = view_of(live.look(NOW), group=RACK)

    assert (view.html, view.legend, view.caption) == (fresh.html, fresh.legend, fresh.caption)


def test_other_rights_show_everything_anew(live: Live) -> None:
    picture = live.look(NOW)
    view = view_of(picture)

    events = dict(view.show(TEAM, picture))

    assert sorted(events) == ["legend", "map", "new", "said"]
    assert "keeper" not in "".join(events.values())


def test_everything_is_sent_in_parts_that_make_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_map, "_AT_ONCE", 3)
    view = view_of(live_of(known_of([node(f"n{number}") for number in range(8)])).look(NOW))

    parts = [html for name, html in view.everything() if name == "new"]

    assert [part.count("<li ") for part in parts] == [3, 3, 2]
    assert re.findall(r'id="n-[^"]*"', "".join(parts)) == re.findall(r'id="n-[^"]*"', view.html)


# --- rights ---------------------------------------------------------------------------------------------------------


def test_holders_of_others_are_another_job(live: Live) -> None:
    view = view_of(live.look(NOW), NODES_ONLY)

    assert labels(view.html)[0] == "A100, cards 1 to 4: another job"
    assert "A100, cards 5 to 7: PodGroup/ours in team, queue mine" in labels(view.html)
    assert "T4, cards 1 to 2: another job, queue mine" in labels(view.html)
    assert [name for name in HIDDEN if "node-" not in name and name in view.html + view.legend] == []
    assert view_of(live.look(NOW), NODES_ONLY, holder="keeper").html == ""


def test_without_the_right_to_list_nodes_there_are_counts_and_own_cards(live: Live) -> None:
    view = view_of(live.look(NOW), TEAM)
    text = view.html + view.legend + view.caption

    assert [name for name in HIDDEN if name in text] == []
    assert labels(view.html) == ["3 cards: PodGroup/ours in team, queue mine"]
    assert "7 of 16" in text
    assert "cordoned" not in view.html
    assert view_of(live.look(NOW), TEAM, node="node-1").html == view.html
    assert heads(view_of(live.look(NOW), TEAM, group=RACK).html) == ["A100", "T4"]


@pytest.fixture(scope="module")
def cluster() -> StaticCluster:
    return StaticCluster(known_of(world()), schedules=False)


PAGES = ("/nodes", "/nodes?colour=job", "/nodes?holder=keeper", "/events/nodes", "/events/nodes?colour=job&node=node-1")
ONE_NODE = ("/node/node-1", "/events/node/node-1")


def test_reader_of_one_namespace_reads_no_name_of_others(cluster: StaticCluster) -> None:
    found = asked(cluster, TEAM, *PAGES, *ONE_NODE, "/node/no-such")
    everything = asked(cluster, EVERYTHING, *PAGES, *ONE_NODE)

    for path in PAGES:
        assert found[path][0] == 200
        assert [name for name in HIDDEN if name in found[path][1].replace(path, "").replace('value="keeper"', "")
                .replace("holder=keeper", "")] == [], path  # fmt: skip
    assert {found[path] for path in ONE_NODE} == {found["/node/no-such"]}
    assert found["/node/no-such"][0] == 404
    assert all("secret" in text for _, text in everything.values())


# --- a node ---------------------------------------------------------------------------------------------------------


def test_node_page_has_everything_of_the_node() -> None:
    found = node("node-1")
    assert isinstance(found, api.Node)
    taint, condition = api.Taint("dedicated", "team", "NoSchedule"), api.Condition("Ready", "True", "KubeletReady")
    status = msgspec.structs.replace(found.status, conditions=(condition,))
    full = msgspec.structs.replace(found, spec=api.NodeSpec(taints=(taint,)), status=status)
    waits = pod("team/waits", 2)
    assert isinstance(waits, api.Pod)
    promised = msgspec.structs.replace(waits, status=api.PodStatus(phase="Pending", nominated_node_name="node-1"))
    objects = [full, queue("mine"), *running("team/ours", 3, "node-1", "mine"), group("team/waits", "mine"), promised]

    text = text_of(StaticCluster(known_of(objects), schedules=False), "/node/node-1")

    plain = text.replace("<wbr>", "")
    assert "cards 1 to 3: PodGroup/ours in team, queue mine" in plain
    assert 'nvidia.com/gpu</bdi> <span class="number">3' in plain
    assert "dedicated=team:NoSchedule" in plain
    assert "KubeletReady" in plain
    assert "it gets room here once other pods have left" in plain
    assert "team/waits" in plain


def test_pods_of_others_on_a_node_are_counted(cluster: StaticCluster) -> None:
    status, text = asked(cluster, NODES_ONLY, "/node/node-1")["/node/node-1"]

    assert status == 200
    assert "1 pod of others runs here as well" in text
    assert [name for name in HIDDEN if "node-" not in name and name in text] == []


def test_node_that_holds_nothing_has_words_for_it(cluster: StaticCluster) -> None:
    text = text_of(cluster, "/node/node-2")

    assert "No pod runs on this node." in text
    assert "No room on this node is promised" in text


# --- a browser that follows -----------------------------------------------------------------------------------------


@pytest.mark.process
def test_map_in_a_browser_follows_as_a_fresh_one_looks() -> None:
    """Tiles, groups, legend and sums are put in place by htmx, from what the stream sends."""
    program, environment = chromium.find()
    everything = puts(node("n1"), node("n2"), node("t", 4, "T4"), queue("mine"), *running("team/a", 2, "n1", "mine"))
    with ServedPage(everything).running() as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, env={**environment}, args=["--no-sandbox"])
        page, fresh = (browser.new_page(base_url=f"http://{served.address}") for _ in range(2))
        page.goto(served.link)
        fresh.goto(served.link)
        page.goto("/nodes")
        for changes, found in (
            (puts(*running("team/b", 3, "n2", "mine")), "PodGroup/b"),
            (puts(node("h", 8, "H100"), *running("team/c", 1, "h", "mine")), "PodGroup/c"),
            ([gone(node("t", 4, "T4")), *puts(node("n3"), *running("team/d", 1, "n3", "mine"))], "PodGroup/d"),
        ):
            served.push(list(changes))
            page.locator(f'a.run[aria-label*="{found}"]').wait_for(timeout=60_000)
            fresh.goto("/nodes")
            for part in ("#map", "#legend", "#said"):
                assert page.locator(part).inner_text() == fresh.locator(part).inner_text()
            assert page.locator("#map [id]").evaluate_all(IDS) == fresh.locator("#map [id]").evaluate_all(IDS)
        again = page.locator("#map").inner_text()
        page.add_init_script("window.sent = 0; addEventListener('htmx:sseMessage', () => { window.sent += 1; });")
        page.route("**/events/nodes*", lambda route: route.continue_(url=f"http://{served.address}/events/nodes"))
        page.goto("/nodes")
        page.wait_for_function("() => window.sent >= 5", timeout=60_000)
        assert page.locator("#map").inner_text() == again, "everything takes the place of what was there"
        browser.close()


IDS = "elements => elements.map(element => element.id)"
