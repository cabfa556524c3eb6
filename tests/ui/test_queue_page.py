"""The page of a queue: its place in the tree, quotas, jobs, what it could reclaim, and what is hidden from whom."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.ui.test_job_page import EVERYTHING, TEAM
from tests.ui.test_nodes_page import asked, running, text_of
from tests.ui.worlds import GPU, group, known_of, made, node, picture_of, pod
from volsched.model import api
from volsched.ui.access import WHOLE
from volsched.ui.pages import Pages
from volsched.ui.redaction import seen_by
from volsched.ui.static_cluster import StaticCluster

CAPACITY = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: capacity, enableHierarchy: true}, {name: predicates}, {name: nodeorder}]
"""


def queue(name: str, parent: str = "", **amounts: str) -> api.ApiObject:
    spec: dict[str, Any] = {"weight": 1} | ({"parent": parent} if parent else {})
    spec |= {field: {GPU: amount} for field, amount in amounts.items() if field != "guarantee"}
    if "guarantee" in amounts:
        spec["guarantee"] = {"resource": {GPU: amounts["guarantee"]}}
    return made("Queue", name, version="scheduling.volcano.sh/v1beta1", spec=spec)


def world() -> list[api.ApiObject]:
    return [
        *(node("node-1"), node("node-2")),
        queue("mine", deserved="12", capability="16", guarantee="2"),
        queue("mine-a", "mine", deserved="8"),
        queue("mine-b", "mine", deserved="4"),
        queue("hush", deserved="2"),
        *running("team/ours", 3, "node-1", "mine-a"),
        *running("secret/keeper", 4, "node-1", "hush"),
        *running("secret/second", 1, "node-2", "mine-a"),
        *(group("team/waits", "mine-a"), pod("team/waits", 9)),
        *(group("secret/theirs", "mine-a"), pod("secret/theirs", 9)),
    ]


def shown(text: str) -> str:
    """Return a page without the places where its lines may break."""
    return re.sub(r"</?bdi[^>]*>|<wbr>", "", text)


@pytest.fixture(scope="module")
def cluster() -> StaticCluster:
    return StaticCluster(known_of(world(), CAPACITY), schedules=False)


def cells(text: str, label: str) -> list[list[str]]:
    """Return the numbers of each row of a table."""
    table = text.partition(f'aria-label="{label}"')[2].partition("</table>")[0]
    return [re.findall(r'<td class="number">([^<]*)', row) for row in table.split("<tr>")[2:]]


def test_quotas_are_in_columns_of_their_own(cluster: StaticCluster) -> None:
    text = shown(text_of(cluster, "/queue/mine"))

    [used, reserved, deserved, guarantee, limit, _] = cells(text, "Table of quotas")[0]
    assert (used, reserved, deserved, guarantee, limit) == ("4", "\N{EN DASH}", "12", "2", "16")


def test_tree_has_the_queues_above_and_below(cluster: StaticCluster) -> None:
    above, below = shown(text_of(cluster, "/queue/mine-a")), shown(text_of(cluster, "/queue/mine"))

    assert '<a href="/queue/mine">mine</a>' in above
    assert '<a href="/queue/mine-a">mine-a</a>, <a href="/queue/mine-b">mine-b</a>' in below


def test_jobs_that_run_and_wait_are_listed_with_reasons(cluster: StaticCluster) -> None:
    text = shown(text_of(cluster, "/queue/mine-a"))

    assert cells(text, "Table of running jobs") == [["1", "1"], ["1", "1"]]
    assert [row[0] for row in cells(text, "Table of waiting jobs")] == ["1", "2"]
    assert "Insufficient nvidia.com/gpu" in text


def test_queue_below_its_share_reclaims_from_those_above_theirs(cluster: StaticCluster) -> None:
    live = cluster._live
    details = live.queue("mine-a")
    assert details is not None
    [found] = details.reclaimable

    assert (found.resource, found.short, found.amount) == (GPU, "4", "2")
    assert [(source.queue, source.amount) for source in found.sources] == [("hush", "2")]
    assert '<a href="/queue/hush">hush</a>' in shown(text_of(cluster, "/queue/mine-a"))


def test_queue_with_all_that_it_deserves_reclaims_nothing(cluster: StaticCluster) -> None:
    assert "The queue holds what it deserves" in text_of(cluster, "/queue/hush")
    assert "The queue states no deserved share" in text_of(cluster, "/queue/default")


def test_queues_above_and_below_are_no_sources() -> None:
    objects = [node("n1"), queue("top", deserved="2"), queue("below", "top", deserved="8"), queue("beside", "top")]
    objects += [queue("other"), *running("team/a", 1, "n1", "below"), *running("team/b", 2, "n1", "beside")]
    objects += running("team/c", 4, "n1", "other")
    details = StaticCluster(known_of(objects, CAPACITY), schedules=False)._live.queue("below")
    assert details is not None

    [found] = details.reclaimable

    assert (found.short, found.amount) == ("7", "6")
    assert [(source.queue, source.amount) for source in found.sources] == [("other", "4"), ("beside", "2")]


def test_queue_without_reclaim_says_that_nothing_is_evicted() -> None:
    configuration = CAPACITY.replace("reclaim, ", "")
    text = text_of(StaticCluster(known_of(world(), configuration), schedules=False), "/queue/mine-a")

    assert "has no action <code>reclaim</code>" in text


def test_quotas_of_device_classes_are_quotas_too() -> None:
    spec = {"weight": 1, "dra": {"capability": {"gpu.example.com": {"count": 4}}}}
    found = made("Queue", "devices", version="scheduling.volcano.sh/v1beta1", spec=spec)
    configuration = CAPACITY.replace(
        "{name: capacity, enableHierarchy: true}, ", "{name: capacity, enableHierarchy: true}, {name: capacity-dra}, "
    )

    text = shown(text_of(StaticCluster(known_of([found], configuration), schedules=False), "/queue/devices"))

    assert "gpu.example.com count" in text


# --- the list -------------------------------------------------------------------------------------------------------


def test_list_is_a_tree_with_links_and_aligned_figures() -> None:

    picture = picture_of(known_of(world(), CAPACITY))
    view = Pages().view("queues", {})
    view.show(seen_by(WHOLE, picture), picture.history)
    rows = [shown(row) for row in view.table.html.values()]

    names = [re.search(r'href="/queue/([^"]*)"', row) for row in rows]
    assert [name[1] for name in names if name] == ["default", "hush", "mine", "mine-a", "mine-b", "root"]
    [mine] = [row for row in rows if 'href="/queue/mine"' in row]
    assert "limit </span>16<" in mine
    assert "deserved </span>12<" in mine


# --- rights ---------------------------------------------------------------------------------------------------------

HIDDEN = ("secret", "keeper", "theirs", "second", "hush", "node-", "mine-")


def test_reader_of_one_namespace_reads_no_name_of_others(cluster: StaticCluster) -> None:
    paths = ("/queue/mine", "/events/queue/mine")
    found = asked(cluster, TEAM, *paths)
    everything = asked(cluster, EVERYTHING, *paths)

    for path in paths:
        assert found[path][0] == 200
        assert [name for name in HIDDEN if name in found[path][1]] == [], path
        assert "mine-a" in shown(everything[path][1])
    assert "2 other queues" in found["/queue/mine"][1]


def test_hidden_queues_are_counted_as_sources_and_parents() -> None:
    scope_queues = [queue("mine", "hush", deserved="8"), queue("hush"), queue("quiet", deserved="1")]
    objects = [node("node-1"), *scope_queues, *running("secret/keeper", 4, "node-1", "quiet")]
    cluster = StaticCluster(known_of(objects, CAPACITY), schedules=False)

    text = asked(cluster, TEAM, "/queue/mine")["/queue/mine"][1]

    assert "another queue" in text
    assert "1 other queue" in text
    assert [name for name in ("hush", "quiet", "keeper", "secret") if name in text] == []


def test_hidden_queue_and_missing_queue_are_the_same(cluster: StaticCluster) -> None:
    paths = ("/queue/hush", "/events/queue/hush", "/queue/no-such", "/events/queue/no-such")

    found = asked(cluster, TEAM, *paths)

    assert {status for status, _ in found.values()} == {404}
    assert len({text for _, text in found.values()}) == 1


def test_jobs_of_others_are_counted() -> None:
    objects = [*world(), queue("default")]
    moved = [
        *(group("secret/more", "default"), pod("secret/more", 9)),
        *running("secret/less", 1, "node-2", "default"),
    ]
    text = asked(StaticCluster(known_of([*objects, *moved], CAPACITY), schedules=False), TEAM, "/queue/default")

    assert "1 job of others waits in this queue" in text["/queue/default"][1]
    assert "1 job of others runs in this queue" in text["/queue/default"][1]
