"""Accounts of devices are up to date, whichever figure of them is read first."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from tests.framework.dra.worlds import device, device_class, held, part
from tests.plugins.predicates.test_devices import using
from volsched.framework.dra.accounts import DeviceAccounts
from volsched.framework.dra.amounts import Amount
from volsched.mirror.apply import Mirror
from volsched.model.dra.devices import pending_claim_uid
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_ALLOCATED
from volsched.testing.builders import a_cluster, put

CLAIM = "default/c"
GPU = Amount("gpu")
EXTENDED = "example.com/gpu"


def followed() -> tuple[Mirror, DeviceAccounts]:
    """A pod of queue q on a node with a claim that has one device, and its accounts."""
    cluster = a_cluster().node("n1").queue("q")
    for found in (device_class(), part("devices", [device("d1"), device("d2")]), held("c", "d1")):
        cluster.add(found)
    cluster.group("g", "q").pod("p", "g", on="n1", spec=using("c"))
    mirror = Mirror()
    mirror.apply(cluster.changes())
    accounts = DeviceAccounts(mirror.cluster, counts=IS_ALLOCATED)
    mirror.cluster.observe(accounts)
    assert accounts.account("q").used == {GPU: Fraction(1)}
    accounts.take_changed()
    return mirror, accounts


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda accounts: accounts.account("q").used, {GPU: Fraction(2)}),
        (lambda accounts: accounts.charge(CLAIM), {GPU: Fraction(2)}),
        (lambda accounts: sorted(accounts.take_changed()), ["q", "root"]),
    ],
    ids=["account", "charge", "take_changed"],
)
def test_a_claim_that_has_more_devices_now_counts_for_them(
    read: Callable[[DeviceAccounts], Any], expected: object
) -> None:
    mirror, accounts = followed()

    mirror.apply([put(held("c", "d1", "d2"))])

    assert read(accounts) == expected


def test_the_version_alone_shows_that_a_claim_changed() -> None:
    mirror, accounts = followed()
    before = accounts.version

    mirror.apply([put(held("c", "d1", "d2"))])

    assert accounts.version != before


@pytest.mark.parametrize(
    "read",
    [
        lambda accounts, pod: accounts.users(pending_claim_uid(pod.uid)),
        lambda accounts, _: len(accounts.pod_charges),
        lambda accounts, pod: len(accounts.held_by(pod.job)),
        lambda accounts, _: accounts.generation - 1,
    ],
    ids=["users", "pod_charges", "held_by", "generation"],
)
def test_pods_count_for_extended_resources_as_soon_as_a_class_stands_for_them(
    read: Callable[[DeviceAccounts, TaskInfo], int],
) -> None:
    cluster = a_cluster().node("n1").queue("q").group("g", "q").pod("p", "g", on="n1", **{EXTENDED: 1})
    mirror = Mirror()
    mirror.cluster.let_devices_serve(True)
    mirror.apply(cluster.changes())
    accounts = DeviceAccounts(mirror.cluster, counts=IS_ALLOCATED)
    (pod,) = mirror.cluster.tasks.values()
    assert read(accounts, pod) == 0

    mirror.apply([put(device_class(extendedResourceName=EXTENDED))])

    assert read(accounts, pod) == 1
