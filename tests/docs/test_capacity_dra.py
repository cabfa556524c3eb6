"""The tour of docs/plugins/capacity-dra.md ends as the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import DOCS
from volsched.registry import load_profile
from volsched.simulation.manifests import documents_in, subject_of, take_stock
from volsched.simulation.result import result_of
from volsched.simulation.runner import simulate

PAGE = (DOCS / "plugins" / "capacity-dra.md").read_text()


def test_the_tour_ends_as_the_page_says(tmp_path: Path) -> None:
    tour, quotas, rule = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    inventory = take_stock(documents_in("devices.yaml", tour))
    assert inventory.configuration is not None
    profile, _ = load_profile(inventory.configuration)

    result = result_of(simulate(inventory, profile))

    [waiting] = result["pending"]
    assert len(result["binds"]) == 2
    assert waiting["message"] in " ".join(PAGE.split())
    assert take_stock(documents_in("queue.yaml", quotas)).objects
    assert [subject_of(found) for found in take_stock(documents_in("rule.yaml", rule)).objects] == [
        "DeviceTaintRule/gpu-1-is-hot"
    ]
