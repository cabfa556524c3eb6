"""Fixtures for tests of admission: the shipped webhooks, and controllers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cluster.admitting import CERTIFICATES, HOOKS, SECRET, Admitting
from tests.cluster.controlling import Controlled
from tests.cluster.scheduling import MANIFESTS, SYSTEM, Json, wait_allowed
from tools.controlplane import ControlPlane
from tools.documents import yaml_documents

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
COLLECTIONS: Final = {
    "ClusterRole": f"{RBAC}/clusterroles",
    "ClusterRoleBinding": f"{RBAC}/clusterrolebindings",
    "Service": f"/api/v1/namespaces/{SYSTEM}/services",
    "ValidatingWebhookConfiguration": HOOKS,
}
LABEL: Final = "volsched.io/webhooks"
"""Of the namespace: its own pods are not held up by its webhooks."""


@pytest.fixture
def admitting(controlled: Controlled, tmp_path: Path) -> Iterator[Admitting]:
    control_plane, api = controlled.control_plane, controlled.api
    give_certificates_their_rights(control_plane)
    webhooks = rendered(control_plane, "base/webhooks")
    for found in webhooks:
        api.create(COLLECTIONS[found["kind"]], found)
    api.patch(f"/api/v1/namespaces/{SYSTEM}", {"metadata": {"labels": {LABEL: "own"}}})
    kind = {"group": "admissionregistration.k8s.io", "resource": "validatingwebhookconfigurations"}
    for what in ({"resource": "secrets", "namespace": SYSTEM}, kind):
        wait_allowed(control_plane, CERTIFICATES, verb="get", name="volsched-webhooks", **what)
    yield Admitting(controlled, tmp_path / "tls.crt", tmp_path / "tls.key")
    for found in webhooks:
        api.delete(f"{COLLECTIONS[found['kind']]}/{found['metadata']['name']}")
    api.patch(f"/api/v1/namespaces/{SYSTEM}", {"metadata": {"labels": {LABEL: None}}})
    api.delete(SECRET)


def give_certificates_their_rights(control_plane: ControlPlane) -> None:
    """Apply the rights of `volsched certificates` once: kubectl takes 0.7 CPU seconds to find that nothing is to do."""
    rights = [found for found in rendered(control_plane, "base/certificates") if "Job" not in found["kind"]]
    if control_plane.api.find(f"{COLLECTIONS['ClusterRoleBinding']}/volsched-certificates") is None:
        control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))


@cache
def rendered(control_plane: ControlPlane, folder: str) -> tuple[Json, ...]:
    """The objects of a kustomization."""
    return tuple(yaml_documents(control_plane.kubectl("kustomize", str(MANIFESTS / folder))))


@pytest.fixture
def asked(admitting: Admitting) -> Admitting:
    """One replica that answers, and the API server asking it."""
    admitting.make_certificates()
    port, _ = admitting.replica()
    admitting.ask(port)
    return admitting
