"""Fixtures for tests of admission: the shipped webhooks, and controllers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.admitting import CERTIFICATES, SECRET, Admitting
from tests.cluster.controlling import Controlled
from tests.cluster.scheduling import MANIFESTS, SYSTEM, wait_allowed
from volsched.testing.documents import yaml_documents


@pytest.fixture
def admitting(controlled: Controlled, tmp_path: Path) -> Iterator[Admitting]:
    control_plane = controlled.control_plane
    rendered = control_plane.kubectl("kustomize", str(MANIFESTS / "base/certificates"))
    rights = [found for found in yaml_documents(rendered) if "Job" not in found["kind"]]
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
    control_plane.kubectl("apply", "-k", str(MANIFESTS / "base/webhooks"))
    control_plane.kubectl("label", "namespace", SYSTEM, "--overwrite", "volsched.io/webhooks=own")
    kind = {"group": "admissionregistration.k8s.io", "resource": "validatingwebhookconfigurations"}
    for what in ({"resource": "secrets", "namespace": SYSTEM}, kind):
        wait_allowed(control_plane, CERTIFICATES, verb="get", name="volsched-webhooks", **what)
    yield Admitting(controlled, tmp_path / "tls.crt", tmp_path / "tls.key")
    control_plane.kubectl("delete", "--ignore-not-found", "-k", str(MANIFESTS / "base/webhooks"))
    control_plane.kubectl("label", "namespace", SYSTEM, "volsched.io/webhooks-")
    controlled.api.delete(SECRET)


@pytest.fixture
def asked(admitting: Admitting) -> Admitting:
    """One replica that answers, and the API server asking it."""
    admitting.make_certificates()
    port, _ = admitting.replica()
    admitting.ask(port)
    return admitting
