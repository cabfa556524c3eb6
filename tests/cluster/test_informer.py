"""Informers against a real API server, through whatever happens to lists and watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tools.controlplane import ControlPlane, a_pod
from tools.controlplane.faults import (
    EndWatch,
    FailWatch,
    FaultProxy,
    InjectedFault,
    ResetWatch,
    Respond,
    StallWatch,
    Truncate,
    bad_gateway_page,
    gone,
    server_error,
    too_many_requests,
)
from tools.patience import PATIENCE
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.watch.informer import Informer
from volsched.kube.watch.resources import Resource, keep_pod, watched
from volsched.model import api
from volsched.model.changes import Change, Deleted, Put


class Followed:
    """An informer, what it said, and the state that follows from it."""

    def __init__(self, api_server: Api, resource: Resource, silence: float) -> None:
        self.changes: list[Change] = []
        self.state: dict[str, api.ApiObject] = {}
        self.informer = Informer(api_server, resource, self._take, silence=silence)
        self.task = asyncio.ensure_future(self.informer.run())

    def _take(self, changes: Any) -> None:
        for change in changes:
            self.changes.append(change)
            if isinstance(change, Put):
                self.state[change.object.metadata.name] = change.object
            elif isinstance(change, Deleted):
                assert self.state.pop(change.name).metadata.uid == change.uid

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, (sorted(self.state), self.informer.restarts)
            await asyncio.sleep(0.02)

    async def listed(self) -> Followed:
        await self.until(lambda: self.informer.listed)
        return self


@pytest.fixture
async def follow(fault_proxy: FaultProxy) -> AsyncIterator[Callable[..., Followed]]:
    server = await Api.connect(Source(kubeconfig=str(fault_proxy.kubeconfig())))
    made: list[Followed] = []

    def start(resource: Resource, silence: float = 2.0) -> Followed:
        made.append(Followed(server, resource, silence))
        return made[-1]

    yield start
    for followed in made:
        followed.task.cancel()
    await asyncio.gather(*(followed.task for followed in made), return_exceptions=True)
    await server.close()
    await asyncio.sleep(0.05)  # the proxy sees it before it stops


def config_maps(namespace: str) -> Resource:
    return Resource("ConfigMap", "v1", "configmaps", api.ConfigMap, namespace=namespace, keep=_not_the_ca)


def _not_the_ca(found: api.ApiObject) -> bool:
    return found.metadata.name != "kube-root-ca.crt"


def pods(namespace: str) -> Resource:
    return Resource("Pod", "v1", "pods", api.Pod, namespace=namespace, keep=keep_pod)


class Maps:
    """ConfigMaps of a namespace, from outside the proxy."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._api = control_plane.api
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"

    def make(self, *names: str) -> None:
        self._api.create_many(self._path, [{"metadata": {"name": name}, "data": {"n": "0"}} for name in names])

    def change(self, name: str, value: str) -> None:
        self._api.patch(f"{self._path}/{name}", {"data": {"n": value}})

    def drop(self, *names: str) -> None:
        for name in names:
            self._api.delete(f"{self._path}/{name}")


@pytest.fixture
def maps(control_plane: ControlPlane, namespace: str) -> Maps:
    return Maps(control_plane, namespace)


async def test_what_is_there_what_comes_what_changes_and_what_goes(
    namespace: str, maps: Maps, follow: Callable[..., Followed]
) -> None:
    maps.make("a", "b")
    followed = await follow(config_maps(namespace)).listed()
    assert sorted(followed.state) == ["a", "b"]

    maps.make("c")
    maps.change("a", "1")
    maps.drop("b")

    await followed.until(lambda: sorted(followed.state) == ["a", "c"])
    changed = followed.state["a"]
    assert isinstance(changed, api.ConfigMap)
    assert changed.data == {"n": "1"}
    assert followed.informer.count == 2


async def test_every_kind_that_the_scheduler_needs_is_listed_by_a_stream(follow: Callable[..., Followed]) -> None:
    every = [follow(resource) for resource in watched(need_groups=False)]
    for followed in every:
        await followed.listed()
        if not followed.informer.absent:
            assert followed.informer.version.isdigit()


FAULTS: dict[str, tuple[InjectedFault, dict[str, Any]]] = {
    "ends": (EndWatch(), {"times": 3}),
    "is reset": (ResetWatch(), {"times": 3}),
    "stalls": (StallWatch(), {"times": 1}),
    "expires": (FailWatch(), {"times": 2}),
    "fails inside": (FailWatch(code=500, reason="InternalError", message="etcd"), {"times": 3}),
    "is refused as expired": (gone(), {"times": 2}),
    "is refused": (server_error(), {"times": 3}),
    "is put off": (too_many_requests(1), {"times": 2}),
    "is answered with a page": (bad_gateway_page(), {"times": 3}),
    "is answered with a page and success": (Respond(200, "<html>hello</html>", content_type="text/html"), {"times": 3}),
    "is answered with lines of a page": (Respond(200, "<html>\n</html>\n", content_type="text/html"), {"times": 3}),
    "is answered with nothing": (Respond(200, ""), {"times": 3}),
    "breaks off": (Truncate(700), {"times": 3}),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
async def test_a_watch_that_fails_misses_nothing(
    namespace: str,
    maps: Maps,
    follow: Callable[..., Followed],
    fault_proxy: FaultProxy,
    fault: tuple[InjectedFault, Any],
) -> None:
    maps.make("stays", "changes", "goes")
    followed = await follow(config_maps(namespace)).listed()

    trouble, where = fault
    rule = fault_proxy.inject(trouble, path="configmaps$", watch=True, **where)
    if not isinstance(trouble, EndWatch | ResetWatch | StallWatch | FailWatch):
        fault_proxy.inject(ResetWatch(), path="configmaps$", times=1)
    await asyncio.to_thread(rule.wait)
    maps.make("comes")
    maps.change("changes", "1")
    maps.drop("goes")

    await followed.until(lambda: sorted(followed.state) == ["changes", "comes", "stays"])
    await followed.until(lambda: getattr(followed.state["changes"], "data", {}) == {"n": "1"})
    assert not followed.task.done()


async def test_what_went_and_came_again_during_a_gap_is_another_object(
    namespace: str, maps: Maps, follow: Callable[..., Followed], fault_proxy: FaultProxy
) -> None:
    maps.make("again", "gone")
    followed = await follow(config_maps(namespace)).listed()
    before = followed.state["again"].metadata.uid

    with fault_proxy.inject(server_error(), path="configmaps$", watch=True) as rule:
        fault_proxy.inject(ResetWatch(), path="configmaps$", times=1)
        await asyncio.to_thread(rule.wait)
        maps.drop("again", "gone")
        maps.make("again")
    fault_proxy.inject(gone(), path="configmaps$", watch=True, times=1)

    await followed.until(lambda: list(followed.state) == ["again"] and followed.state["again"].metadata.uid != before)
    told = [(type(c).__name__, c.uid if isinstance(c, Deleted) else "") for c in followed.changes]
    assert ("Deleted", before) in told


async def test_a_server_that_does_not_stream_lists_is_asked_for_pages(
    namespace: str, maps: Maps, follow: Callable[..., Followed], fault_proxy: FaultProxy, monkeypatch: Any
) -> None:
    monkeypatch.setattr("volsched.kube.watch.informer.PAGE", 3)
    maps.make(*(f"m{i}" for i in range(10)))
    forbidden = '{"kind":"Status","code":422,"reason":"Invalid","message":"sendInitialEvents is forbidden"}'
    fault_proxy.inject(Respond(422, forbidden), path="configmaps$", watch=True, times=1)

    followed = await follow(config_maps(namespace)).listed()

    assert len(followed.state) == 10
    assert fault_proxy.counts.count("list", "configmaps") == 4
    maps.drop("m3")
    await followed.until(lambda: len(followed.state) == 9)


async def test_pages_that_expire_midway_begin_again(
    namespace: str, maps: Maps, follow: Callable[..., Followed], fault_proxy: FaultProxy, monkeypatch: Any
) -> None:
    monkeypatch.setattr("volsched.kube.watch.informer.PAGE", 3)
    maps.make(*(f"m{i}" for i in range(7)))
    fault_proxy.inject(Respond(400, "no"), path="configmaps$", watch=True, times=1)
    fault_proxy.inject(gone(), path="configmaps$", watch=False, times=1)

    followed = await follow(config_maps(namespace)).listed()

    assert len(followed.state) == 7


async def test_a_page_that_is_too_large_is_asked_for_in_parts(
    namespace: str, maps: Maps, follow: Callable[..., Followed], fault_proxy: FaultProxy, monkeypatch: Any
) -> None:
    monkeypatch.setattr("volsched.kube.client.wire.LARGEST_ANSWER", 8_000)
    maps.make(*(f"m{i}" for i in range(40)))
    fault_proxy.inject(Respond(400, "no"), path="configmaps$", watch=True, times=1)

    followed = await follow(config_maps(namespace)).listed()

    assert len(followed.state) == 40


async def test_what_is_there_is_handed_over_once_more_when_that_is_asked_for(
    namespace: str, maps: Maps, follow: Callable[..., Followed]
) -> None:
    maps.make("a", "b")
    followed = await follow(config_maps(namespace)).listed()
    before = len(followed.changes)

    followed.informer.list_again()

    await followed.until(lambda: len(followed.changes) >= before + 2)
    assert {change.object.metadata.name for change in followed.changes[before:] if isinstance(change, Put)} >= {
        "a",
        "b",
    }
    maps.make("c")
    await followed.until(lambda: len(followed.state) == 3)


async def test_a_kind_that_the_server_lacks_is_done_without_or_waited_for(
    control_plane: ControlPlane, namespace: str, follow: Callable[..., Followed]
) -> None:
    group = f"g{namespace[-6:]}.example.com"
    optional = follow(Resource("Thing", f"{group}/v1", "things", api.ApiObject, optional=True))
    required = follow(Resource("Thing", f"{group}/v1", "things", api.ApiObject))
    await optional.listed()
    await required.until(lambda: required.informer.absent)
    assert optional.informer.absent
    await asyncio.wait_for(optional.informer.catch_up(), PATIENCE)  # there is nothing to catch up with
    assert not required.informer.listed

    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things", "singular": "thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    control_plane.api.create(path, definition)
    try:
        await required.until(lambda: required.informer.listed)
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
        control_plane.api.create(f"/apis/{group}/v1/namespaces/{namespace}/things", thing)
        await required.until(lambda: "one" in required.state)
    finally:
        control_plane.api.delete(f"{path}/things.{group}")
    await required.until(lambda: not required.state)


async def test_a_kind_that_may_not_be_read_is_done_without_only_where_the_server_lacks_it(
    follow: Callable[..., Followed], fault_proxy: FaultProxy
) -> None:
    """The server looks at rights before it looks for the kind, and says 403 for what nobody has installed."""
    forbidden = Respond(403, '{"kind":"Status","reason":"Forbidden","message":"not yours"}')
    fault_proxy.inject(forbidden, path="/(things|deviceclasses)$")
    there = follow(Resource("DeviceClass", "resource.k8s.io/v1", "deviceclasses", api.ApiObject, optional=True))
    needed = follow(Resource("Thing", "resource.k8s.io/v1", "things", api.ApiObject))
    no_kind = follow(Resource("Thing", "resource.k8s.io/v1", "things", api.ApiObject, optional=True))
    no_group = follow(Resource("Thing", "nobody.example.com/v1", "things", api.ApiObject, optional=True))

    await no_kind.listed()
    await no_group.listed()
    await needed.until(lambda: needed.informer.restarts["403"] > 1)
    await there.until(lambda: there.informer.restarts["403"] > 1)

    assert no_kind.informer.absent
    assert no_group.informer.absent
    assert not there.informer.listed
    assert not needed.informer.listed


async def test_catching_up_brings_what_a_stalled_watch_keeps_back(
    namespace: str, maps: Maps, follow: Callable[..., Followed], fault_proxy: FaultProxy
) -> None:
    followed = await follow(config_maps(namespace), silence=3600.0).listed()
    rule = fault_proxy.inject(StallWatch(), path="configmaps$", times=1)
    await asyncio.to_thread(rule.wait)
    other = await follow(config_maps(namespace)).listed()
    maps.make("hidden")
    await other.until(lambda: "hidden" in other.state)  # it is sent to every watch that is not stalled
    assert "hidden" not in followed.state
    rule.remove()

    await asyncio.wait_for(followed.informer.catch_up(), PATIENCE)

    assert "hidden" in followed.state


async def test_catching_up_waits_for_a_list_that_is_under_way(
    namespace: str, maps: Maps, follow: Callable[..., Followed]
) -> None:
    maps.make("one")
    followed = follow(config_maps(namespace))

    await asyncio.wait_for(followed.informer.catch_up(), PATIENCE)

    assert "one" in followed.state


async def test_a_finished_pod_is_gone_unless_it_belongs_to_a_group(
    control_plane: ControlPlane, namespace: str, make_nodes: Any, follow: Callable[..., Followed]
) -> None:
    [node] = make_nodes(1)
    group = {"scheduling.k8s.io/group-name": "g"}
    spec = {"nodeName": node, "restartPolicy": "Never"}
    path = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.api.create(path, a_pod("plain", spec=spec))
    control_plane.api.create(path, a_pod("member", annotations=group, spec=spec))
    followed = await follow(pods(namespace)).listed()
    await followed.until(lambda: len(followed.state) == 2)

    for name in ("plain", "member"):
        control_plane.api.patch(f"{path}/{name}/status", {"status": {"phase": "Succeeded"}})

    await followed.until(lambda: list(followed.state) == ["member"])
    member = followed.state["member"]
    await followed.until(lambda: followed.state["member"].status.phase == "Succeeded")  # type: ignore[attr-defined]
    assert isinstance(member, api.Pod)


async def test_objects_with_nulls_are_read_and_unreadable_ones_left_out(
    control_plane: ControlPlane, namespace: str, maps: Maps, follow: Callable[..., Followed]
) -> None:
    """A struct that expects a number where the server has text stands for an object of an unknown shape."""

    class Odd(api.ApiObject, frozen=True):
        data: dict[str, int] = {}  # noqa: RUF012 - copied by msgspec

    maps.make("bad")
    followed = await follow(
        Resource("ConfigMap", "v1", "configmaps", Odd, namespace=namespace, keep=_not_the_ca)
    ).listed()

    control_plane.api.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "good"}, "data": None})

    await followed.until(lambda: "good" in followed.state)
    assert "bad" not in followed.state
    assert followed.informer.unreadable >= 1
