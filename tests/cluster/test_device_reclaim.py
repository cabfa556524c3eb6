"""Devices that queues take back on a real control plane, where Kubernetes' controller cleans claims up after pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controlling import AT_WORK, Controlled
from tests.cluster.scheduling import eventually
from tests.cluster.signals import after_session
from tests.cluster.test_device_quotas import CONFIGURATION, Shop
from tests.cluster.test_resource_claims import Fleet, fleet

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

__all__ = ["fleet"]


@pytest.fixture
def shop(controlled: Controlled, namespace: str, fleet: Fleet) -> Shop:
    return Shop(controlled, namespace, fleet)


def test_a_queue_below_what_it_deserves_gets_its_devices_back(shop: Shop) -> None:
    """The claims are cleaned up some time after the pods are gone; until then nobody else is evicted."""
    path = shop.controlled.folder / "scheduler.conf"
    path.write_text(CONFIGURATION.format(hierarchy="false").replace("enqueue, allocate", "enqueue, allocate, reclaim"))
    scheduler = shop.controlled.start("--scheduler-conf", str(path)).wait_leading()
    shop.controlled.control().wait_for(AT_WORK)
    borrows = shop.queue("borrows", 4)
    shop.deploy("work", borrows, 4)
    shop.wait_placed(work=4)
    block = {"capability": {shop.fleet.name: {"count": 4}}, "deserved": {shop.fleet.name: {"count": 2}}}
    owns = shop.controlled.queue(f"owns-{shop.namespace}", dra=block)

    shop.deploy("ours", owns, 3)

    shop.wait_placed(work=2, ours=2)
    shop.wait_given(4)
    eventually(lambda: len(preempted(shop)) == 2, what="both victims are told")
    assert all(owns in said for said in preempted(shop))
    after_session(shop.controlled, devices=True)
    assert (len(preempted(shop)), scheduler.metric("volsched_evictions_sent_total")) == (2, 2), preempted(shop)


def preempted(shop: Shop) -> list[Any]:
    return [event["message"] for event in shop.controlled.events(shop.namespace) if event["reason"] == "Preempted"]
