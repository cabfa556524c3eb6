"""Whether Volcano's own controllers count as running, sign by sign."""

from __future__ import annotations

import pytest

from tests.controllers.cases import metadata
from volsched.model import api
from volsched.model.changes import Deleted, Put
from volsched.operator.volcano import LEASE_NAME, Mode, Signs, VolcanoWatch


class Watched:
    def __init__(self) -> None:
        self.now = 0.0
        self.watch = VolcanoWatch(60.0, lambda: self.now)

    def lease(self, renewed: str, holder: str = "vc-0") -> Watched:
        raw = {"metadata": metadata(LEASE_NAME), "spec": {"holderIdentity": holder, "renewTime": renewed}}
        self.watch.observe((Put(api.decode_as(api.Lease, raw)),))
        return self

    def pod(self, ready: str) -> Watched:
        conditions = [{"type": "Ready", "status": ready}]
        raw = {"metadata": metadata("vc"), "status": {"phase": "Running", "conditions": conditions}}
        self.watch.observe((Put(api.decode_as(api.Pod, raw)),))
        return self

    def at(self, now: float) -> bool:
        self.now = now
        return bool(self.watch.sign())


def test_without_any_sign_they_do_not_run() -> None:
    assert not Watched().at(0)


def test_a_lease_counts_for_the_grace_after_it_was_seen_to_change() -> None:
    watched = Watched().lease("2026-01-01T00:00:00Z")
    assert [watched.at(59), watched.at(60)] == [True, False]

    watched.now = 100
    watched.lease("2026-01-01T00:00:00Z")
    assert not watched.at(100)  # seen again, unchanged
    watched.lease("2026-01-01T00:00:10Z")
    assert [watched.at(159), watched.at(160)] == [True, False]


def test_a_lease_that_nobody_holds_is_no_sign() -> None:
    assert not Watched().lease("2026-01-01T00:00:00Z", holder="").at(0)


def test_a_ready_pod_counts_until_the_grace_after_it_was_seen_last() -> None:
    watched = Watched().pod("False")
    assert not watched.at(0)

    watched.pod("True")
    assert watched.at(1000)
    assert "ns/vc" in watched.watch.sign()
    watched.pod("False")
    assert [watched.at(1059), watched.at(1060)] == [True, False]


def test_a_deleted_pod_counts_for_the_grace() -> None:
    watched = Watched().pod("True")

    watched.watch.observe((Deleted("Pod", "ns", "vc", "uid-vc"),))

    assert [watched.at(59), watched.at(60)] == [True, False]


def test_signs_are_looked_for_in_namespaces_of_volcano_alone() -> None:
    signs = Signs(namespaces=("volcano-system", "batch"), service_account="release-controllers")

    assert [resource.query() for resource in signs.resources()] == [
        f"{path}?fieldSelector={selector}"
        for namespace in ("volcano-system", "batch")
        for path, selector in (
            (f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", "metadata.name%3Dvc-controller-manager"),
            (f"/api/v1/namespaces/{namespace}/pods", "spec.serviceAccountName%3Drelease-controllers"),
        )
    ]


@pytest.mark.parametrize(("mode", "sign"), [("never", ""), ("always", "--stand-aside=always")])
def test_who_is_told_what_to_do_does_not_look(mode: Mode, sign: str) -> None:
    assert Signs(mode).resources() == ()
    assert VolcanoWatch(60.0, lambda: 0.0, mode).sign() == sign
