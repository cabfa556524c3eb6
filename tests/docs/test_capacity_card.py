"""The tour of docs/plugins/capacity-card.md ends as the page says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import yaml

from plugins.capacity_card.cards.mapping import mapping_of
from tests.docs.pages import DOCS, blocks
from tests.plugins.capacity_card.elastic import by_job, world
from volsched.model.cards.naming import BY_VENDORS
from volsched.registry import load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory
from volsched.simulation.result import result_of
from volsched.simulation.runner import simulate
from volsched.testing.builders import decide

PAGE = DOCS / "plugins/capacity-card.md"


def test_the_tour_places_five_and_says_why_the_others_wait(tmp_path: Path) -> None:
    manifests, configuration = [block.text for block in blocks(PAGE) if "yaml" in block.words][:2]
    (said,) = [block.text.strip() for block in blocks(PAGE) if "text" in block.words][:1]
    (tmp_path / "cards.yaml").write_text(manifests)

    inventory = read_inventory(read_documents((str(tmp_path / "cards.yaml"),)))
    result = result_of(simulate(inventory, load_profile(configuration)[0]))

    assert Counter(pod["node"] for pod in result["pods"].values()) == {"a1": 1, "h1": 4, None: 7}
    assert {entry["message"] for entry in result["pending"]} == {said}


def test_the_mapping_of_the_page_names_cards_of_three_vendors() -> None:
    configuration = [block.text for block in blocks(PAGE) if "yaml" in block.words][2]
    mapping = mapping_of(load_profile(configuration)[0].configuration.arguments_of("capacity-card"))

    assert mapping.card_of("amd.com/gpu", {"amd.com/gpu.product-name": "MI300X"}) == "MI300X"
    assert mapping.card_of("huawei.com/Ascend910", {}) == "Ascend910"
    assert mapping.card_of("nvidia.com/gpu", {"cloud.google.com/gke-accelerator": "nvidia-l4"}) == "nvidia-l4"


def test_every_label_of_vendors_is_on_the_page() -> None:
    page = PAGE.read_text()

    assert [
        key for each in BY_VENDORS if each.label for key in each.label.keys if key.partition("/")[2] not in page
    ] == []
    assert [each.resource for each in BY_VENDORS if each.resource.partition("/")[2] not in page] == []


def test_the_queues_of_the_page_get_back_what_they_deserve() -> None:
    queues, configuration = [block.text for block in blocks(PAGE) if "yaml" in block.words][3:5]
    cluster = world()
    cluster.objects += yaml.safe_load_all(queues)
    cluster.cards("a1", "NVIDIA-A100", 8).runs("long", 8, "NVIDIA-A100", "speech", "a1")

    decision = decide(cluster.wants("late", 6, "NVIDIA-A100", "vision"), configuration)

    assert by_job(decision) == {"long": 4}
