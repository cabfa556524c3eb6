"""How far a claim's devices are, as their drivers say in its status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from volsched.model.dra.api import ResourceClaimStatus
from volsched.model.dra.binding import READY, Readiness, readiness_of

ATTACHED, FAILED = "Attached", "Broken"
STAMP, SINCE = "2026-01-01T00:00:10Z", 1_767_225_610.0


def result(name: str = "d1", *conditions: str, failure: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    found = {"request": "r0", "driver": "x.example.com", "pool": "p", "device": name, **more}
    return {**found, "bindingConditions": list(conditions), "bindingFailureConditions": list(failure)}


def device(name: str = "d1", driver: str = "x.example.com", share: str | None = None, **said: str) -> dict[str, Any]:
    conditions = [{"type": kind, "status": status, "reason": "Why", "message": "so"} for kind, status in said.items()]
    found = {"driver": driver, "pool": "p", "device": name, "conditions": conditions}
    return found if share is None else {**found, "shareID": share}


def status(results: list[Any], *devices: Any, stamp: str | None = STAMP) -> ResourceClaimStatus:
    allocation = {"devices": {"results": results}, "allocationTimestamp": stamp}
    return msgspec.convert({"allocation": allocation, "devices": list(devices)}, ResourceClaimStatus)


WAITING = Readiness(("Attached of device x.example.com/p/d1",), since=SINCE)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ResourceClaimStatus(), READY),
        (status([result("d1")]), READY),
        (status([result("d1", failure=(FAILED,))], device(Broken="True")), READY),
        (status([result("d1", ATTACHED)]), WAITING),
        (status([result("d1", ATTACHED)], device(Attached="False")), WAITING),
        (status([result("d1", ATTACHED)], device(Attached="Unknown")), WAITING),
        (status([result("d1", ATTACHED)], device(Ready="True")), WAITING),
        (status([result("d1", ATTACHED)], device("d2", Attached="True")), WAITING),
        (status([result("d1", ATTACHED)], device("d1", "other.example.com", Attached="True")), WAITING),
        (status([result("d1", ATTACHED)], device(Attached="True")), Readiness(since=SINCE)),
        (status([result("d1", ATTACHED, failure=(FAILED,))], device(Broken="False")), WAITING),
        (status([result("d1", ATTACHED, shareID="s1")], device(share="s2", Attached="True")), WAITING),
        (
            status([result("d1", ATTACHED, shareID="s1")], device(share="s2"), device(share="s1", Attached="True")),
            Readiness(since=SINCE),
        ),
        (
            status([result("d1", ATTACHED, "Powered"), result("d2"), result("d3", ATTACHED)], device(Attached="True")),
            Readiness(("Powered of device x.example.com/p/d1", "Attached of device x.example.com/p/d3"), since=SINCE),
        ),
    ],
)
def test_a_claim_is_ready_once_every_condition_of_every_device_is_true(
    found: ResourceClaimStatus, expected: Readiness
) -> None:
    assert readiness_of(found) == expected
    assert readiness_of(found).is_reached is not bool(expected.pending)


def test_a_failure_counts_whatever_else_is_true() -> None:
    results = [result("d1", ATTACHED), result("d2", ATTACHED, failure=("Lost", FAILED))]

    found = readiness_of(status(results, device("d2", Attached="True", Broken="True")))

    assert found.failure == "device x.example.com/p/d2 has failed (Broken: Why: so)"
    assert not found.is_reached
    assert found.is_given_up(SINCE, 600)


@pytest.mark.parametrize(
    ("found", "now", "is_given_up"),
    [
        (WAITING, SINCE + 600, False),
        (WAITING, SINCE + 600.1, True),
        (Readiness(("x",)), SINCE + 10_000, False),
        (Readiness(since=SINCE), SINCE + 10_000, False),
        (READY, 0, False),
    ],
)
def test_a_claim_is_given_up_when_its_time_is_over(found: Readiness, now: float, is_given_up: bool) -> None:
    assert found.is_given_up(now, 600) is is_given_up


@pytest.mark.parametrize("stamp", [None, "yesterday"])
def test_without_a_time_of_allocation_there_is_no_end(stamp: str | None) -> None:
    assert readiness_of(status([result("d1", ATTACHED)], stamp=stamp)).since is None
