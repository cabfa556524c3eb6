"""What a real API server's answers mean to the controllers' writer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from volsched.controllers.writes import CONFIG_MAP, GROUP, POD, Create, Delete, Kind, Patch, Write
from volsched.kube.client import Api
from volsched.kube.credentials import Source
from volsched.kube.errors import ApiError, FenceError
from volsched.kube.fence import Fence
from volsched.operator.writer import Writer
from volsched.testing.controlplane import ControlPlane, a_pod

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

NO_SUCH_KIND = Kind("Wish", "example.com/v1", "wishes")


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
