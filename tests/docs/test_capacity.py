"""The tour of docs/plugins/capacity.md ends as the page says."""

from __future__ import annotations

import re
from typing import Any

from tests.docs.pages import DOCS
from tests.docs.test_capacity_dra import ended

PAGE = (DOCS / "plugins" / "capacity.md").read_text()
[TOUR] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def of_speech(pods: int) -> str:
    """The tour's Deployment once more, for the other team."""
    [train] = [text for text in TOUR.split("---\n") if "kind: Deployment" in text]
    return re.sub(r"\btrain\b", "talk", train).replace("vision", "speech").replace("replicas: 7", f"replicas: {pods}")


def placed(result: dict[str, Any], name: str) -> int:
    return sum(bind["pod"].startswith(f"default/{name}-") for bind in result["binds"])


def test_the_tour_ends_as_the_page_says() -> None:
    result = ended(TOUR)

    assert placed(result, "train") == len(result["binds"]) == 5
    assert {waiting["message"] for waiting in result["pending"]} == {
        'queue "vision" may have no more: cpu: requested 1, used 5, limit 5'
    }
    assert 'queue "vision" may have no more: cpu: requested 1, used 5, limit 5' in PAGE


def test_the_other_team_gets_what_is_kept_for_it() -> None:
    assert placed(ended(TOUR, of_speech(1)), "talk") == 1


def test_one_deployment_of_the_other_team_gets_all_that_the_team_deserves() -> None:
    result = ended(TOUR, of_speech(2))

    assert {name: result["queues"][name]["allocated"]["cpu"] for name in ("vision", "speech")} == {
        "vision": "4",
        "speech": "2",
    }
    assert "Then `vision` holds four cores and `speech` two" in PAGE
