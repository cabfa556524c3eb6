"""Requests to a real API server: credentials that are renewed, failures that say what they are, everything counted."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tools.controlplane import ControlPlane
from tools.controlplane.faults import (
    BlackHole,
    FaultProxy,
    Reset,
    Respond,
    Truncate,
    bad_gateway_page,
    too_many_requests,
)
from tools.patience import PATIENCE
from volsched.kube.client import credentials, exec_plugin, rest
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import USER_AGENT, Api
from volsched.kube.errors import ApiError, CredentialsError, FenceError
from volsched.kube.fence import Fence
from volsched.kube.serve.certificates import Pair


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
        (Respond(200, "<html>please log in</html>", content_type="text/html"), 0, "Broken", "broken"),
        (too_many_requests(7), 429, "TooManyRequests", "429"),
    ],
    ids=["silence", "reset", "half an answer", "a page", "a page as a success", "429"],
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
    assert caught.value.__cause__ is not None or status or "the answer is not JSON" in caught.value.message
    assert api.requests["patch", "namespaces", code] == 1
    assert caught.value.retry_after == (7 if status == 429 else None)


@pytest.mark.parametrize("how", ["refused", "unreachable", "broken off", "silent"])
async def test_a_watch_that_fails_leaves_nothing_to_the_garbage_collector(
    api: Api, fault_proxy: FaultProxy, how: str
) -> None:
    path = "/api/v1/nothing" if how == "refused" else "/api/v1/namespaces?watch=true&timeoutSeconds=60"
    if how == "unreachable":
        fault_proxy.inject(Reset(), path="/namespaces$")
    if how == "broken off":
        fault_proxy.inject(Truncate(300), path="/namespaces$")

    async def watched() -> weakref.ref[ApiError]:
        try:
            async with api.stream(path, "namespaces", 0.5 if how == "silent" else PATIENCE) as read:
                while await read():
                    pass
        except ApiError as error:
            return weakref.ref(error)
        raise AssertionError("the watch has ended as if all was well")

    gc.collect()
    gc.disable()
    try:
        assert (await watched())() is None
    finally:
        gc.enable()


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
    path = exec_kubeconfig(control_plane, tmp_path, credential(control_plane.credentials.admin_token))

    api = await Api.connect(Source(kubeconfig=str(path)))

    assert await api.get("/api/v1/namespaces/default", "namespaces")
    await api.close()


def exec_kubeconfig(control_plane: ControlPlane, folder: Path, script: str) -> Path:
    """A kubeconfig whose user is a plugin, which is this script."""
    plugin = folder / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(0o755)
    config = json.loads(control_plane.kubeconfig.read_text())
    version = "client.authentication.k8s.io/v1"
    config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def credential(token: str) -> str:
    status = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    return f"cat <<'END'\n{json.dumps(status)}\nEND"


async def test_a_plugin_that_hangs_is_ended_and_asked_again_later(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First it gives a token that is not taken, then it hangs, then it is well."""
    monkeypatch.setattr(credentials, "_RELOAD_PAUSE_SECONDS", 0.0)
    path = exec_kubeconfig(control_plane, tmp_path, credential("expired"))
    api = await Api.connect(Source(kubeconfig=str(path)))
    monkeypatch.setattr(exec_plugin, "PLUGIN_SECONDS", 1.0)
    pid = tmp_path / "pid"
    exec_kubeconfig(control_plane, tmp_path, f"sleep 100000 & echo $! > {pid}; wait")  # its child holds the pipes

    with pytest.raises(ApiError, match="401"):
        await asyncio.wait_for(api.get("/api/v1/namespaces/default", "namespaces"), PATIENCE)

    async with asyncio.timeout(PATIENCE):
        while Path(f"/proc/{pid.read_text().strip()}").exists():  # noqa: ASYNC110, ASYNC240 - nobody tells
            await asyncio.sleep(0.05)
    exec_kubeconfig(control_plane, tmp_path, credential(control_plane.credentials.admin_token))
    assert await api.get("/api/v1/namespaces/default", "namespaces")
    await api.close()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo s3cret; exit 3", "ended with status 3"),
        ("echo s3cret", "printed no ExecCredential"),
        ('echo \'{"apiVersion": "v9", "status": {"token": "s3cret"}}\'', "speaks v9"),
        ("exec sleep 100000", "has not answered for 0.5s"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_what_it_printed_is_not_told(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setattr(exec_plugin, "PLUGIN_SECONDS", 0.5)
    path = exec_kubeconfig(control_plane, tmp_path, script)

    with pytest.raises(CredentialsError, match=said) as caught:
        await Api.connect(Source(kubeconfig=str(path)))

    assert "s3cret" not in str(caught.value)


def kubeconfig_with_authority(control_plane: ControlPlane, folder: Path, authority: bytes) -> tuple[Path, Path]:
    """A kubeconfig that names a file with the authority, and that file."""
    file = folder / "ca.crt"
    file.write_bytes(authority)
    config = json.loads(control_plane.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    cluster.pop("certificate-authority-data", None)
    cluster["certificate-authority"] = str(file)
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path, file


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at whenever there is a doubt, and not only after some seconds."""
    monkeypatch.setattr(credentials, "_RELOAD_PAUSE_SECONDS", 0.0)


@pytest.mark.usefixtures("watchful")
async def test_an_authority_that_was_replaced_in_its_file_is_trusted_from_then_on(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    other = Pair.made(["kubernetes"], datetime.now(UTC), timedelta(days=1)).authority
    path, file = kubeconfig_with_authority(control_plane, tmp_path, other)
    api = await Api.connect(Source(kubeconfig=str(path)))
    with pytest.raises(ApiError, match="certificate verify failed"):
        await api.get("/api/v1/namespaces/default", "namespaces")

    file.write_bytes(b"half of a certif")
    with pytest.raises(ApiError, match="certificate verify failed"):
        await api.get("/api/v1/namespaces/default", "namespaces")
    file.write_bytes(control_plane.credentials.ca_file.read_bytes())

    assert await api.get("/api/v1/namespaces/default", "namespaces")
    await api.close()


@pytest.mark.usefixtures("watchful")
async def test_an_authority_is_looked_for_without_any_failure_and_what_cannot_be_used_is_not_taken(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = control_plane.credentials.ca_file.read_bytes()
    path, file = kubeconfig_with_authority(control_plane, tmp_path, good)
    api = await Api.connect(Source(kubeconfig=str(path)))
    api._credentials._look_every = 0.0
    monkeypatch.setattr(credentials, "_FILE_SECONDS", 0.0)
    assert await api.get("/api/v1/namespaces/default", "namespaces")
    wires = api._wires

    file.write_bytes(b"")
    assert await api.get("/api/v1/namespaces/default", "namespaces")
    assert api._wires is wires
    file.write_bytes(good)
    assert await api.get("/api/v1/namespaces/default", "namespaces")
    assert api._wires is wires, "nothing has changed after all"
    file.write_bytes(good + good)
    assert await api.get("/api/v1/namespaces/default", "namespaces")
    assert api._wires is not wires
    await api.close()


async def test_a_kubeconfig_that_was_changed_is_read_again(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = kubeconfig_with_authority(control_plane, tmp_path, control_plane.credentials.ca_file.read_bytes())
    api = await Api.connect(Source(kubeconfig=str(path)))
    api._credentials._look_every = 0.0
    monkeypatch.setattr(credentials, "_FILE_SECONDS", 0.0)
    config = json.loads(path.read_text())
    config["users"][0]["user"] = {"token": control_plane.credentials.scheduler_token}

    path.write_text(json.dumps(config))

    with pytest.raises(ApiError, match="403"):
        await api.get("/api/v1/namespaces/default/secrets", "secrets")
    await api.close()


@pytest.mark.parametrize("through", ["our own client", "aiohttp"])
async def test_the_fence_is_asked_again_after_whatever_a_write_has_waited_for(
    control_plane: ControlPlane, namespace: str, through: str
) -> None:
    """It closes while requests wait for the limit; through a proxy, while they wait for a connection."""
    limit = 20 if through == "our own client" else 0
    api = await Api.connect(Source(kubeconfig=str(control_plane.kubeconfig)), qps=limit, burst=1)
    if through == "aiohttp":
        context = api._credentials.tls.context()
        api._wires, api._sessions = {}, {"request": rest._session(context, 1)}
    fence, path = Fence(), f"/api/v1/namespaces/{namespace}/configmaps"
    fence.prolong(time.monotonic() + 1000, time.monotonic() + 2000)

    async def write(number: int) -> None:
        body = json.dumps({"metadata": {"name": f"m{number}"}}).encode()
        await api.request("POST", path, "configmaps", body=body, fence=fence)

    writes = [asyncio.ensure_future(write(number)) for number in range(40)]
    async with asyncio.timeout(PATIENCE):
        while not api.requests["create", "configmaps", "201"]:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
    fence.close()
    outcomes = await asyncio.gather(*writes, return_exceptions=True)

    there = [item for item in control_plane.api.items(path) if item["metadata"]["name"].startswith("m")]
    assert sum(isinstance(outcome, FenceError) for outcome in outcomes) == 40 - len(there)
    assert 0 < len(there) < 20
    await api.close()


async def test_a_write_ends_before_another_process_may_take_over(fault_proxy: FaultProxy, api: Api) -> None:
    fence = Fence()
    fence.prolong(time.monotonic() + 1000, time.monotonic() + 1)
    fault_proxy.inject(BlackHole(), path="/namespaces/default$")

    with pytest.raises(ApiError) as caught:
        await asyncio.wait_for(
            api.request("PATCH", "/api/v1/namespaces/default", "namespaces", body=b"{}", within=10_000, fence=fence),
            PATIENCE,
        )

    assert caught.value.reason == "Timeout"


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
