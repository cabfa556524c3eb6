"""Claims of groups, on one device: ``test/integration/dra/pod_group.go`` and ``workload_resource_claims.go``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.cluster.native.stage import NativeStage

GROUPS = "podgroups"
PODS = "pods"


def _shares(stage: NativeStage, size: int, least: int | None = None) -> None:
    """All pods of a group, without a minimum a basic one, have one named claim."""
    stage.node("n", 32)
    stage.claim("shared", stage.device())
    entry = [{"name": "cards", "resourceClaimName": "shared"}]
    if least is None:
        stage.basic("a", resourceClaims=entry)
    else:
        stage.gang("a", least, resourceClaims=entry)
    stage.pods("a", size, group="a", resourceClaims=entry)
    stage.expect(a=size)
    stage.expect_reserved("shared", (GROUPS, "a"))


def _named(name: str, **arguments: Any) -> Callable[[NativeStage], None]:
    case = partial(_shares, **arguments)
    case.__name__ = name  # type: ignore[attr-defined]  # the name of the test
    return case


def d_of_groups_and_of_pods(stage: NativeStage) -> None:
    """A claim of the group beside a claim of each pod: who uses them, from the first pod to the end of the group."""
    stage.node("n", 4)
    of = stage.device(3)
    for name in ("shared", "own-0", "own-1"):
        stage.claim(name, of)
    entry = {"name": "cards", "resourceClaimName": "shared"}
    stage.basic("a", resourceClaims=[entry])
    for number in range(2):
        own = {"name": "own", "resourceClaimName": f"own-{number}"}
        stage.pod(f"a-{number}", group="a", resourceClaims=[entry, own])
        stage.expect_bound(f"a-{number}")
        stage.expect_reserved("shared", (GROUPS, "a"))
        stage.expect_reserved(f"own-{number}", (PODS, f"a-{number}"))
    stage.delete("a-0", "a-1")
    stage.expect_gone("a-0", "a-1")
    stage.expect_reserved("own-0")
    stage.expect_reserved("shared", (GROUPS, "a"))
    stage.delete_group("a")
    stage.expect_group_gone("a")
    stage.expect_reserved("shared")


def d_of_a_template(stage: NativeStage) -> None:
    """The controller makes one claim for the group; all members have it."""
    stage.node("n", 4)
    stage.template("cards", stage.device())
    entry = [{"name": "cards", "resourceClaimTemplateName": "cards"}]
    stage.gang("a", 3, resourceClaims=entry)
    stage.pods("a", 3, group="a", resourceClaims=entry)
    stage.expect(a=3)
    [made] = stage.claims()
    assert made.startswith("a-cards-")
    stage.expect_reserved(made, (GROUPS, "a"))


def d_of_an_outsider(stage: NativeStage) -> None:
    """A pod of no group that names the claim of one is a consumer beside it."""
    stage.node("n", 4)
    stage.claim("shared", stage.device())
    entry = [{"name": "cards", "resourceClaimName": "shared"}]
    stage.gang("a", 2, resourceClaims=entry)
    stage.pods("a", 2, group="a", resourceClaims=entry)
    stage.expect(a=2)
    stage.pod("lone-0", resourceClaims=entry)
    stage.expect(lone=1)
    stage.expect_reserved("shared", (GROUPS, "a"), (PODS, "lone-0"))


CASES = (
    _named("d_gang_of_2", size=2, least=2),
    _named("d_gang_of_20", size=20, least=20),
    _named("d_gang_of_5_from_2_on", size=5, least=2),
    _named("d_basic_of_2", size=2),
    _named("d_basic_of_20", size=20),
    *(d_of_groups_and_of_pods, d_of_a_template, d_of_an_outsider),
)
