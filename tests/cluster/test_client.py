"""Requests to a real API server: credentials that are renewed, failures that say what they are, everything counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.scheduling import PATIENCE
from volsched.kube import credentials
from volsched.kube.client import USER_AGENT, Api
from volsched.kube.credentials import Source
from volsched.kube.errors import ApiError, CredentialsError
from volsched.testing.controlplane import ControlPlane
from volsched.testing.controlplane.faults import (
    BlackHole,
    FaultProxy,
    Reset,
    Truncate,
    bad_gateway_page,
    too_many_requests,
)


@pytest.fixture
async def api(fault_proxy: FaultProxy) -> AsyncIterator[Api]:
    made = await Api.connect(Source(kubeconfig=str(fault_proxy.kubeconfig())))
    yield made
    await made.close()
    await asyncio.sleep(0.05)  # the proxy sees it before it stops


async def test_success_and_refusal_are_counted(api: Api) -> None:
    assert (await api.get("/api/v1/namespaces/default", "namespaces"))["metadata"]["name"] == "default"

    with pytest.raises(ApiError) as caught:
        await api.get("/api/v1/namespaces/never-made", "namespaces")

    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert "never-made" in str(caught.value)
    assert api.requests["get", "namespaces", "200"] == 1
    assert api.requests["get", "namespaces", "404"] == 1


@pytest.mark.parametrize(
    ("fault", "status", "reason", "code"),
    [
        (BlackHole(), 0, "Timeout", "timeout"),
        (Reset(), 0, "Broken", "broken"),
        (Truncate(20), 0, "Broken", "broken"),
        (bad_gateway_page(), 503, "Service Unavailable", "503"),
        (too_many_requests(7), 429, "TooManyRequests", "429"),
    ],
    ids=["silence", "reset", "half an answer", "a page", "429"],
)
async def test_every_failure_is_one_of_ours(
    api: Api, fault_proxy: FaultProxy, fault: object, status: int, reason: str, code: str
) -> None:
    fault_proxy.inject(fault, path="/namespaces/default$")  # type: ignore[arg-type]

    within = 1.0 if reason == "Timeout" else PATIENCE
    with pytest.raises(ApiError) as caught:
        await api.request("PATCH", "/api/v1/namespaces/default", "namespaces", body=b"{}", within=within)

    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert caught.value.is_transient
    assert caught.value.__cause__ is not None or status
    assert api.requests["patch", "namespaces", code] == 1
    assert caught.value.retry_after == (7 if status == 429 else None)


async def test_a_token_that_was_renewed_in_its_file_is_read_when_the_old_one_is_refused(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_RELOAD_PAUSE_SECONDS", 0.0)
    config = json.loads(control_plane.kubeconfig.read_text())
    token = tmp_path / "token"
    token.write_text("expired")
    config["users"][0]["user"] = {"tokenFile": str(token)}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    api = await Api.connect(Source(kubeconfig=str(path)))
    with pytest.raises(ApiError, match="401"):
        await api.get("/api/v1/namespaces/default", "namespaces")

    token.write_text(control_plane.credentials.admin_token + "\n")

    assert await api.get("/api/v1/namespaces/default", "namespaces")
    assert api.requests["get", "namespaces", "401"] == 2
    await api.close()


async def test_an_exec_plugin_is_asked_for_a_token(control_plane: ControlPlane, tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    status = {"token": control_plane.credentials.admin_token}
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    plugin.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(credential)}\nEND\n")
    plugin.chmod(0o755)
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))

    api = await Api.connect(Source(kubeconfig=str(path)))

    assert await api.get("/api/v1/namespaces/default", "namespaces")
    await api.close()


async def test_in_a_cluster_the_mounted_token_is_read_again_before_it_expires(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setattr(credentials, "_FILE_SECONDS", 0.0)
    monkeypatch.setattr(credentials, "_RELOAD_PAUSE_SECONDS", 0.0)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "token").write_text(control_plane.credentials.admin_token)
    (tmp_path / "ca.crt").write_bytes(control_plane.credentials.ca_file.read_bytes())
    (tmp_path / "namespace").write_text("here\n")

    api = await Api.connect(Source())

    assert api.origin == "in-cluster"
    assert credentials.namespace_of_service_account() == "here"
    assert await api.get("/api/v1/namespaces/default", "namespaces")
    (tmp_path / "token").write_text(control_plane.credentials.scheduler_token)
    assert await api.get("/api/v1/nodes?limit=1", "nodes")
    with pytest.raises(ApiError, match="403"):
        await api.get("/api/v1/namespaces/default/secrets", "secrets")
    await api.close()


async def test_another_address_and_another_context(control_plane: ControlPlane, tmp_path: Path) -> None:
    config = json.loads(control_plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    config["contexts"].append({"name": "other", "context": dict(config["contexts"][0]["context"])})
    config["current-context"] = "nothing"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))

    unreachable = await Api.connect(Source(kubeconfig=str(path), context="other"))
    with pytest.raises(ApiError) as caught:
        await unreachable.get("/api", "discovery")
    assert (caught.value.reason, caught.value.may_have_happened) == ("Unreachable", False)
    await unreachable.close()

    api = await Api.connect(Source(kubeconfig=str(path), context="other", master=control_plane.url))
    assert await api.get("/api", "discovery")
    await api.close()


@pytest.mark.parametrize("text", ["", "{}", "not: [yaml", '{"current-context": "x", "contexts": []}'])
async def test_a_configuration_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(CredentialsError, match=str(path)):
        await Api.connect(Source(kubeconfig=str(path)))


async def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nowhere"):
        await Api.connect(Source(kubeconfig=str(tmp_path / "nowhere")))


def test_we_say_who_we_are() -> None:
    assert USER_AGENT.startswith("volsched/0.")
