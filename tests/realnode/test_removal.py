"""`kubectl delete -k` leaves nothing."""

from __future__ import annotations

from tests.realnode.cluster import Cluster
from tests.realnode.conftest import OVERLAY

_KINDS = (
    *("namespaces", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "priorityclasses"),
    *("validatingwebhookconfigurations", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("rolebindings", "roles", "leases", "configmaps", "secrets", "resourcequotas"),
)


def test_nothing_is_left(installed: Cluster) -> None:
    installed.kubectl("delete", "-k", OVERLAY, "--timeout=180s")

    names = installed.kubectl("get", ",".join(_KINDS), "-A", "-o", "name").split()
    assert not [name for name in names if "volsched" in name or "volcano" in name]
