"""What a real API server's answers mean to the controllers' writer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tools.controlplane import ControlPlane, a_pod
from tools.controlplane.faults import FaultProxy, Reset
from volsched.controllers.writes import CONFIG_MAP, GROUP, POD, SECRET, ApiKind, Create, Delete, Patch, Write
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError, ElsewhereError, FenceError
from volsched.kube.fence import Fence
from volsched.operator import ssh_keys
from volsched.operator.writer import Writer

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

NO_SUCH_KIND = ApiKind("Wish", "example.com/v1", "wishes")


@pytest.fixture
async def api(manifests_applied: ControlPlane) -> AsyncIterator[Api]:
    made = await Api.connect(Source(str(manifests_applied.kubeconfig)))
    yield made
    await made.close()


@pytest.fixture
def writer(api: Api) -> Writer:
    return Writer(api, Fence.always_open())


def a_group(namespace: str) -> Create:
    body = {"apiVersion": GROUP.group_version, "kind": GROUP.name, "metadata": {"name": "g"}, "spec": {"minMember": 1}}
    return Create(GROUP, namespace, "g", body)


async def test_what_is_there_already_is_as_good_as_made(writer: Writer, namespace: str) -> None:
    assert b'"minMember":1' in (await writer.write(a_group(namespace)) or b"")
    assert await writer.write(a_group(namespace)) == b""


async def test_what_is_there_and_must_match_is_brought_to_match(
    writer: Writer, namespace: str, control_plane: ControlPlane
) -> None:
    for value in ("1", "2"):
        body = {"metadata": {"name": "c"}, "data": {"hosts": value}}
        await writer.write(Create(CONFIG_MAP, namespace, "c", body, must_match=True))

    assert control_plane.api.get(f"/api/v1/namespaces/{namespace}/configmaps/c")["data"] == {"hosts": "2"}


def keys_of(namespace: str, owner: dict[str, Any], **changes: Any) -> Create:
    """A Secret as the plugin `ssh` makes it; one in whose name there was nothing of an earlier Job any more."""
    meta = {"name": "train-ssh", "namespace": namespace, "ownerReferences": [owner]}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "Opaque", "immutable": True}
    return Create(SECRET, namespace, "train-ssh", body, with_keys=True, is_own=True, **changes)


def an_owner(control_plane: ControlPlane, namespace: str) -> dict[str, Any]:
    """The reference to something that is there, so that what it owns is no garbage."""
    made = control_plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "owner"}})
    uid = made["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": True}


async def test_keys_that_somebody_made_are_not_taken_for_a_jobs_own(
    writer: Writer, namespace: str, control_plane: ControlPlane
) -> None:
    reference = an_owner(control_plane, namespace)
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    before = control_plane.api.create(secrets, {"metadata": {"name": "train-ssh"}, "stringData": {"mine": "yes"}})

    with pytest.raises(ElsewhereError, match="nobody can tell who made it; delete it, or give the Job another name"):
        await writer.write(keys_of(namespace, reference))
    with pytest.raises(ElsewhereError, match="maybe of an earlier Job"):
        await writer.write(keys_of(namespace, reference, garbage_until=time.time() + 60))

    assert control_plane.api.get(f"{secrets}/train-ssh") == before
    meta = {"name": "train-ssh", "ownerReferences": [reference]}  # made right after the keys
    control_plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": meta})
    assert await writer.write(keys_of(namespace, reference)) == b""


async def test_keys_whose_making_was_not_answered_are_the_jobs_own(
    fault_proxy: FaultProxy, manifests_applied: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await Api.connect(Source(str(fault_proxy.kubeconfig())))
    writer, owner, new_pair = (
        Writer(api, Fence.always_open()),
        an_owner(manifests_applied, namespace),
        ssh_keys.new_pair,
    )

    def lose_the_next_answer() -> dict[str, str]:
        fault_proxy.inject(Reset(after=True), method="POST", path="/secrets$", times=1)
        return new_pair()

    monkeypatch.setattr(ssh_keys, "new_pair", lose_the_next_answer)
    with pytest.raises(ApiError):
        await writer.write(keys_of(namespace, owner))

    assert await writer.write(keys_of(namespace, owner)) == b""
    await api.close()


async def test_keys_that_were_only_rehearsed_without_an_answer_are_not(
    fault_proxy: FaultProxy, manifests_applied: ControlPlane, namespace: str
) -> None:
    api = await Api.connect(Source(str(fault_proxy.kubeconfig())))
    writer, owner = Writer(api, Fence.always_open()), an_owner(manifests_applied, namespace)
    fault_proxy.inject(Reset(after=True), method="POST", path="/secrets$", times=1)
    with pytest.raises(ApiError):
        await writer.write(keys_of(namespace, owner))

    manifests_applied.api.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "train-ssh"}})

    with pytest.raises(ElsewhereError):
        await writer.write(keys_of(namespace, owner))
    await api.close()


async def test_a_patch_is_for_the_object_that_was_seen_and_for_no_other_of_that_name(
    writer: Writer, namespace: str, control_plane: ControlPlane
) -> None:
    made = control_plane.api.create(f"/api/v1/namespaces/{namespace}/pods", a_pod("p"))["metadata"]
    note = {"annotations": {"a": "b"}}

    assert await writer.write(Patch(POD, namespace, "p", {"metadata": {"uid": "another", **note}})) is None
    assert await writer.write(Patch(POD, namespace, "p", {"metadata": {"uid": made["uid"], **note}}))
    assert await writer.write(Patch(POD, namespace, "absent", {"metadata": note})) is None
    old = {"metadata": {"resourceVersion": made["resourceVersion"], "annotations": {"a": "c"}}}
    with pytest.raises(ApiError) as changed:
        await writer.write(Patch(POD, namespace, "p", old))
    assert changed.value.status == 409


async def test_what_is_gone_already_is_as_good_as_deleted_and_another_of_that_name_stays(
    writer: Writer, namespace: str, control_plane: ControlPlane
) -> None:
    await writer.write(a_group(namespace))

    assert await writer.write(Delete(GROUP, namespace, "g", "another")) is None
    assert await writer.write(Delete(GROUP, namespace, "absent", "uid")) is None

    path = f"/apis/{GROUP.group_version}/namespaces/{namespace}/podgroups/g"
    uid = control_plane.api.get(path)["metadata"]["uid"]
    await writer.write(Delete(GROUP, namespace, "g", uid))
    assert control_plane.api.find(path) is None


@pytest.mark.parametrize(
    "write",
    [
        Create(NO_SUCH_KIND, "default", "w", {}),
        Patch(NO_SUCH_KIND, "default", "w", {}),
        Delete(NO_SUCH_KIND, "default", "w", "uid"),
    ],
)
async def test_a_kind_that_the_server_does_not_know_is_no_object_that_is_gone(writer: Writer, write: Write) -> None:
    with pytest.raises(ApiError) as unknown:
        await writer.write(write)

    assert unknown.value.status == 404


async def test_without_the_right_to_write_nothing_is_asked(api: Api, namespace: str) -> None:
    before = sum(api.requests.values())

    with pytest.raises(FenceError):
        await Writer(api, Fence()).write(a_group(namespace))

    assert sum(api.requests.values()) == before
