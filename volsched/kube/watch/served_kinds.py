"""Follows a kind that the API server has in one of several versions, or not at all, or not for ever.

Kubernetes' own PodGroups are served behind gates, as alpha in one release and as beta in the next, and come and go with
a restart of the API server. The list of resources of each version tells which version there is; the group's preferred
version does not. Without the kind this costs a request a minute, and no log line.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.watch.decoding import KindReader
from volsched.kube.watch.informer import Informer, Sink
from volsched.kube.watch.resources import AFTER_RESTART_SECONDS, Resource, Trim, trim_nothing
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import KindServed

SHARED_SECONDS: Final = 5.0

_log = structlog.get_logger(__name__)


class ServedKind:
    """A kind, and the struct of its objects in each group and version, the preferred one first.

    ``needs`` are the resources that a version must have beside the kind itself.
    """

    def __init__(
        self, kind: str, plural: str, structs: Mapping[str, type[api.ApiObject]], needs: tuple[str, ...] = ()
    ) -> None:
        self.kind = kind
        self.plural = plural
        self.structs = structs
        self.needs = frozenset({plural, *needs})

    def resource(self, version: str) -> Resource:
        """Return the kind in a version, as it is watched."""
        wait = AFTER_RESTART_SECONDS
        return Resource(self.kind, version, self.plural, self.structs[version], optional=True, look_again=wait)


POD_GROUPS: Final = ServedKind(native.KIND, "podgroups", native.VERSIONS, ("podgroups/status",))
WORKLOADS: Final = ServedKind(native.WORKLOAD, "workloads", dict.fromkeys(native.VERSIONS, native.Workload))


class Discovery:
    """The resources of the server's groups, by version: callers at the same moment share one request."""

    def __init__(self, api_server: Api, group: str) -> None:
        self._api = api_server
        self._group = group
        self._lock = asyncio.Lock()
        self._found: dict[str, frozenset[str]] = {}
        self._looked_at = -math.inf

    async def resources(self) -> Mapping[str, frozenset[str]]:
        """Return the names of the resources of each version. Raises ApiError."""
        async with self._lock:
            if time.monotonic() - self._looked_at > SHARED_SECONDS:
                listed = await self._get(f"/apis/{self._group}")
                versions = [str(entry.get("groupVersion")) for entry in listed.get("versions") or ()]
                self._found = {version: await self._names(version) for version in versions}
                self._looked_at = time.monotonic()
            return self._found

    async def version(self, served: ServedKind) -> str:
        """Return the first version with all needed resources; empty without one."""
        there = await self.resources()
        return next((version for version in served.structs if served.needs <= there.get(version, frozenset())), "")

    def forget(self) -> None:
        """Have the next one look again."""
        self._looked_at = -math.inf

    async def _names(self, version: str) -> frozenset[str]:
        listed = await self._get(f"/apis/{version}")
        return frozenset(str(entry.get("name")) for entry in listed.get("resources") or ())

    async def _get(self, path: str) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = await self._api.get(path, "discovery")
        except ApiError as error:
            if error.status == 404:
                return {}
            raise
        return found


async def as_served(api_server: Api, kinds: Iterable[Resource | ServedKind]) -> list[Resource]:
    """Return kinds in the versions that the server has. Missing kinds are left out. Raises ApiError."""
    discovery, found = Discovery(api_server, native.GROUP), []
    for kind in kinds:
        if isinstance(kind, Resource):
            found.append(kind)
        elif version := await discovery.version(kind):
            found.append(kind.resource(version))
    return found


class ServedInformer(Informer):
    """An informer that finds the version to follow, and again whenever the server does not have it any more."""

    def __init__(
        self,
        api_server: Api,
        discovery: Discovery,
        served: ServedKind,
        sink: Sink,
        *,
        silence: float,
        on_listed: Callable[[], None],
        is_full: Callable[[], bool],
        trim: Trim = trim_nothing,
    ) -> None:
        first = served.resource(next(iter(served.structs)))
        super().__init__(api_server, first, sink, silence=silence, on_listed=on_listed, is_full=is_full, trim=trim)
        self._served = served
        self._discovery = discovery
        self._followed = ""

    async def _once(self) -> None:
        """Read one watch to its end, of the present version. Raises ApiError (404) without one."""
        if not self._version:
            found = await self._discovery.version(self._served)
            if found != self._followed:
                self._follow(found)
            if not found:
                raise ApiError(404, "NotFound", f"the server has no version of {self.resource.plural}")
        await super()._once()

    def _follow(self, version: str) -> None:
        """Follow another version, or none: what was known is gone."""
        if self._known:
            self._forget_all()
        self._followed = version
        if version:
            self.resource = self._served.resource(version)
            self._reader = KindReader(self.resource)
            _log.info("the server has this kind", resource=self.resource.plural, group_version=version)
        self._sink((KindServed(self._served.kind, version),))

    async def _wait_for_kind(self) -> None:
        """Go on without a kind that the server does not have. A kind that just disappeared is checked again at once."""
        had_it = bool(self._version)
        self._forget_all()
        if had_it:
            self._discovery.forget()
        else:
            await super()._wait_for_kind()

    def _forget_all(self) -> None:
        self._begin_list()
        self._end_list("")
        self._caught_up()

    async def _recover(self, error: ApiError, *, helped: bool) -> None:
        """Recover as other informers do. Go on without a kind that may not be read (403)."""
        if error.status != 403:
            await super()._recover(error, helped=helped)
            return
        self._report_forbidden(error)
        self._forget_all()
        self._heard()
        self._set_listed()
        await asyncio.sleep(self.resource.look_again)

    def _report_forbidden(self, error: ApiError) -> None:
        if self._served.kind == native.WORKLOAD:
            _log.debug("Workloads are not read: their annotations name no queue", error=str(error))
        else:
            _log.error("not allowed to watch; see manifests/rbac", resource=self.resource.plural, error=str(error))
