"""The tour of docs/plugins/capacity-dra.md ends as the page says."""

from __future__ import annotations

import re
from typing import Any

from tests.docs.pages import DOCS
from volsched.registry import load_profile
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import read_inventory
from volsched.simulation.result import result_of
from volsched.simulation.runner import simulate

PAGE = (DOCS / "plugins" / "capacity-dra.md").read_text()


TOUR, ALONE, QUOTAS, RULE, ANNOUNCED = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def ended(*texts: str) -> dict[str, Any]:
    """How a simulation of these manifests ends."""
    inventory = read_inventory(
        [found for number, text in enumerate(texts) for found in documents_in(f"{number}", text)]
    )
    assert inventory.configuration is not None
    profile, _ = load_profile(inventory.configuration)
    return result_of(simulate(inventory, profile))


def test_the_tour_ends_as_the_page_says() -> None:
    result = ended(TOUR)

    [waiting] = result["pending"]
    assert len(result["binds"]) == 2
    assert waiting["message"] in " ".join(PAGE.split())
    assert read_inventory(documents_in("queue.yaml", QUOTAS)).objects


def test_a_gang_that_asks_for_devices_alone_waits_as_the_page_says() -> None:
    result = ended(TOUR, ALONE)

    waiting = [pod for pod in result["pending"] if pod["pod"].startswith("default/render-")]
    conditions = [result["podGroups"][pod["podGroup"]]["conditions"][0]["type"] for pod in waiting]
    assert [bind["pod"].partition("-")[0] for bind in result["binds"]] == ["default/train"] * 2
    assert conditions == ["Unschedulable"] * 3


def test_the_podgroup_without_pods_waits_as_the_page_says() -> None:
    [refused] = [waiting for waiting in ended(TOUR, ANNOUNCED)["pending"] if waiting["podGroup"] == "default/four"]

    said = "DeviceClass gpu: requested 4, used 2, total would be 6, but capability is 2"
    assert said in refused["message"]
    assert said in " ".join(PAGE.split())


def test_the_rule_of_the_page_taints_one_device_and_a_wider_one_all() -> None:
    """Where a simulation is given rules, pods get no device that one of them taints."""
    everything = RULE.replace(", pool: n1, device: gpu-1", "")
    assert everything != RULE

    assert len(ended(TOUR, RULE)["binds"]) == 2
    result = ended(TOUR, everything)

    assert result["binds"] == []
    messages = [waiting["message"] for waiting in result["pending"]]
    assert "leaving out devices with untolerated taint {example.com/hot: 85}" in messages[0]
