"""The tour of docs/plugins/capacity-card.md ends as the page says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.docs.pages import DOCS, blocks
from volsched.registry import load_profile
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import take_stock
from volsched.simulation.result import result_of
from volsched.simulation.runner import simulate

PAGE = DOCS / "plugins/capacity-card.md"


def test_the_tour_places_five_and_says_why_the_others_wait(tmp_path: Path) -> None:
    manifests, configuration = [block.text for block in blocks(PAGE) if "yaml" in block.words][:2]
    (said,) = [block.text.strip() for block in blocks(PAGE) if "text" in block.words][:1]
    (tmp_path / "cards.yaml").write_text(manifests)

    inventory = take_stock(read_documents((str(tmp_path / "cards.yaml"),)))
    result = result_of(simulate(inventory, load_profile(configuration)[0]))

    assert Counter(pod["node"] for pod in result["pods"].values()) == {"a1": 1, "h1": 4, None: 7}
    assert {entry["message"] for entry in result["pending"]} == {said}
