"""Who holds what a plugin counts, and how little more of it would help: of devices, cards, and CPU on GPU nodes."""

from __future__ import annotations

import pytest
import yaml

from tests.diagnose.worlds import (
    A100,
    CROSSQUOTA,
    H100,
    advice_on,
    asked,
    by_sort,
    cards,
    configuration,
    cpu_pods,
    devices,
)
from tests.framework.dra.worlds import device, part
from tests.simulation.clusters import group, node, pod, queue
from volsched.diagnose.redaction import redacted
from volsched.mirror.reading import queue_spec
from volsched.model import api
from volsched.model.queues.queue import QueueInfo
from volsched.quota.report import raises

pytestmark = pytest.mark.process  # a trial is a copy of the process

DRA = configuration("capacity-dra")
CARD = configuration("capacity-card")


def test_quota_of_devices_is_raised_by_what_the_gang_lacks() -> None:
    said = asked(DRA, *devices(quota={"dra": {"capability": {"gpu": {"count": 3}}}}))

    assert said.plugin == "capacity-dra"
    assert [(h.name, h.resource, h.amount, h.pods) for h in said.holders] == [
        ("default/runs", "deviceclass/gpu", "2", 2)
    ]
    assert said.advice is not None
    [quota] = [found for found in said.advice.helps if found.sort == "quota"]
    assert quota.sentence == "Raise DeviceClass gpu of queue team by 1 (quota of devices)."
    assert yaml.safe_load(quota.command.partition(" -p ")[2].strip("'")) == {
        "spec": {"dra": {"capability": {"gpu": {"count": "4"}}}}
    }


def test_quota_of_devices_in_volcanos_words_is_raised_there() -> None:
    advice = advice_on(DRA, *devices(quota={"capability": {"deviceclass/gpu": "2"}}))

    assert by_sort(advice)["quota"] == "Raise DeviceClass gpu of queue team by 2 (quota of devices)."
    assert '"deviceclass/gpu": "4"' in advice.helps[0].command


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "capacity-card", "capacity-dra"])
def test_a_queue_that_does_not_exist_has_no_quota_that_could_be_raised(plugin: str) -> None:
    said = asked(configuration(plugin), node("n1", cpu="8"), group("waits", 1, "visoin"), pod("waits-0", "waits"))

    assert (said.step, said.queue) == ("no-queue", "visoin")
    assert said.message == 'queue "visoin" of PodGroup "default/waits" does not exist'
    assert said.advice is not None
    assert (said.advice.helps, said.advice.not_tried) == ((), ())


@pytest.mark.parametrize("stated", ["much", "-3"])
def test_a_quota_that_is_no_quantity_counts_as_nothing_and_may_be_raised(stated: str) -> None:
    found = api.Queue(metadata=api.ObjectMeta(name="team"), spec=api.QueueSpec(capability={"cpu": stated}))
    [remedy] = raises(QueueInfo(queue_spec(found, lambda *_: None)), "capability", ["cpu"])

    assert remedy.changed(found, 2).spec.capability == {"cpu": "2"}


def test_sums_of_capacity_are_raised_in_their_own_measure() -> None:
    entry = {"count": 8, "capacity": {"memory": "100Gi"}}
    advice = advice_on(DRA, *devices(quota={"dra": {"capability": {"gpu": entry}}}, memory="40Gi"))

    assert by_sort(advice)["quota"] == "Raise DeviceClass gpu memory of queue team by 60Gi (quota of devices)."


def test_devices_are_held_by_those_who_have_claims_where_no_node_has_any_left() -> None:
    few = [found for found in devices(quota={}) if found["kind"] != "ResourceSlice"]

    said = asked(DRA, *few, part("s1", [device(f"d{number}") for number in range(3)]))

    assert said.plugin == "predicates"
    assert "cannot allocate all claims" in said.message
    assert [(h.name, h.resource, h.amount, h.pods) for h in said.holders] == [
        ("default/runs", "deviceclass/gpu", "2", 2)
    ]


def test_quota_of_cards_is_raised_also_where_the_card_is_not_named() -> None:
    advice = advice_on(CARD, *cards(quota={A100: 3}))
    assert by_sort(advice)["quota"] == f"Raise {A100} of queue team by 3 (annotation volcano.sh/card.quota)."

    unnamed = advice_on(CARD, *cards(quota={A100: 2}, names=H100))
    assert by_sort(unnamed)["quota"] == f"Raise {H100} of queue team by 4 (annotation volcano.sh/card.quota)."


def test_another_card_of_the_cluster_is_told_with_what_to_write() -> None:
    said = asked(CARD, *cards(quota={A100: 2, H100: 4}))

    assert [(h.name, h.resource, h.amount) for h in said.holders] == [("default/runs", A100, "2")]
    assert said.advice is not None
    [card] = [found for found in said.advice.helps if found.sort == "card"]
    assert card.sentence.startswith(f"Let its pods take {H100}, too")
    assert yaml.safe_load(card.patch) == {"metadata": {"annotations": {"volcano.sh/card.name": f"{A100}|{H100}"}}}


def test_another_card_without_quota_is_not_told() -> None:
    assert "card" not in by_sort(advice_on(CARD, *cards(quota={A100: 2})))


def test_quota_of_cpu_pods_is_raised_on_as_few_nodes_as_will_do() -> None:
    said = asked(configuration(CROSSQUOTA), *cpu_pods(nodes=3, least=2))

    assert said.plugin == "crossquota"
    assert [(h.name, h.resource, h.amount, h.pods) for h in said.holders] == [("default/runs", "cpu", "9", 3)]
    assert said.advice is not None
    [quota] = [found for found in said.advice.helps if found.sort == "nodeQuota"]
    assert quota.sentence == (
        "Raise the quota of cpu for CPU pods on 2 nodes (g0, g1) by 3 (annotation volcano.sh/crossquota-cpu)."
    )
    assert quota.command.startswith('for name in g0 g1; do kubectl patch node "$name" --type merge -p ')
    assert '"volcano.sh/crossquota-cpu": "7"' in quota.command


def test_names_of_nodes_are_kept_from_who_may_get_one_object() -> None:
    said = redacted(asked(configuration(CROSSQUOTA), *cpu_pods()))

    assert said.advice is not None
    [quota] = [found for found in said.advice.helps if found.sort == "nodeQuota"]
    assert (quota.sentence, quota.command) == ("It starts once CPU pods may hold more on GPU nodes.", "")


# --- queues ---------------------------------------------------------------------------------------------------------


def test_limit_of_a_queue_above_is_named_with_all_who_share_it() -> None:
    above = queue("org", capability={"cpu": "4"})
    teams = [queue(name, parent="org", capability={"cpu": "4"}) for name in ("team", "other")]
    runs = [group("runs", 1, "other", "Running"), pod("runs-0", "runs", "n1", cpu=3, status={"phase": "Running"})]
    waits = [group("waits", 1, "team", "Inqueue"), pod("waits-0", "waits", cpu=3)]

    said = asked(configuration("capacity, enableHierarchy: true"), node("n1"), above, *teams, *runs, *waits)

    assert [(short.of, short.name, short.limit) for short in said.short] == [("queue", "org", "4")]
    assert [(holder.name, holder.queue, holder.amount) for holder in said.holders] == [("default/runs", "other", "3")]
    assert said.advice is not None
    assert by_sort(said.advice)["quota"] == "Raise cpu of queue org by 2 (spec.capability)."


def test_weight_is_raised_where_it_is_the_share_that_is_short() -> None:
    teams = [queue("team", weight=1), queue("other", weight=3)]
    others = [pod(f"runs-{n}", "runs", "n1", cpu=2, status={"phase": "Running"}) for n in (0, 1)]
    wants = [group("more", 2, "other", "Inqueue"), *(pod(f"more-{n}", "more", cpu=2) for n in (0, 1))]
    waits = [group("waits", 2, "team", "Inqueue"), *(pod(f"waits-{n}", "waits", cpu=2) for n in (0, 1))]

    said = asked(
        configuration("proportion"), node("n1"), *teams, group("runs", 2, "other", "Running"), *others, *wants, *waits
    )

    assert said.advice is not None
    assert by_sort(said.advice)["quota"].startswith("Raise the weight of queue team by ")


# --- two at once, or nothing ----------------------------------------------------------------------------------------


def short_of_both() -> list[dict[str, object]]:
    """A gang that has neither quota nor room."""
    return [
        node("n1", cpu=4),
        queue("team", capability={"cpu": "2"}),
        group("waits", 2, "team", "Inqueue"),
        pod("waits-0", "waits", cpu=3),
        pod("waits-1", "waits", cpu=3),
    ]


def test_two_changes_are_tried_together_where_none_helps_alone() -> None:
    advice = advice_on(configuration("proportion"), *short_of_both())

    assert "quota" not in by_sort(advice)
    assert "nodes" not in by_sort(advice)
    [both] = [found for found in advice.helps if found.sort == "quota+nodes"]
    assert both.sentence == (
        "Raise cpu of queue team by 4 (spec.capability), and together with that: Add 1 node like n1 (1 there now)."
    )
    assert both.command.startswith("kubectl patch queue team ")
    assert yaml.safe_load(both.patch)["kind"] == "Node"


def test_what_nothing_helps_is_said_with_what_it_would_wait_for() -> None:
    too_large = pod("waits-0", "waits", cpu=5000)

    advice = advice_on(configuration(), node("n1"), group("waits", phase="Inqueue"), too_large)

    assert advice.helps == ()
    assert advice.nothing.startswith("Nothing would, because with all of these changed at once (nodes) it waits")
    assert "Insufficient cpu" in advice.nothing
