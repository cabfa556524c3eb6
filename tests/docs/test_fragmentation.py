"""docs/plugins/fragmentation.md: the configuration that it recommends is the one that the component brings."""

from __future__ import annotations

import yaml

from tests.docs.pages import DOCS, blocks
from tests.manifests.rendering import MANIFESTS
from volsched.registry import load_profile

COMPONENT = MANIFESTS / "components/accelerators/configuration.yaml"


def test_the_component_accelerators_is_what_the_page_recommends() -> None:
    [shown] = [block.text for block in blocks(DOCS / "plugins/fragmentation.md") if block.word("file")]

    assert yaml.safe_load(COMPONENT.read_text())["data"]["volsched.conf"] == shown


def test_nothing_undoes_it() -> None:
    text = yaml.safe_load(COMPONENT.read_text())["data"]["volsched.conf"]

    _, warnings = load_profile(text)

    assert not warnings
