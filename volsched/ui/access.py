"""The access rights of the page's readers, by the API server. Answers are kept for a minute.

A person who may `get` the path /ui sees the page. Names on it are those of namespaces whose pods the person may `list`,
of queues that they may `list` or `get`, and of nodes if they may `list` them; everything else is only counted.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.serve.reader_access import KEPT_SECONDS, AccessRefusal, ReviewRates
from volsched.kube.serve.reviews import Person, may, whose
from volsched.model.values.bounded import Bounded

PATH: Final = "/ui"
"""The nonResourceURL that who looks at the page has to have the verb `get` on."""

MOST_TOKENS: Final = 1024
MOST_ANSWERS: Final = 65_536
QUESTIONS_AT_ONCE: Final = 16
VOLCANO: Final = "scheduling.volcano.sh"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Visibility:
    """The names that a reader may see. ``namespaces`` and ``queues``: None for all of them."""

    namespaces: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    nodes: bool = True

    @property
    def is_whole(self) -> bool:
        """True if everything may be seen."""
        return self.namespaces is None and self.queues is None and self.nodes

    def names(self, namespace: str) -> bool:
        """Return whether objects of a namespace may be named."""
        return self.namespaces is None or namespace in self.namespaces

    def names_queue(self, queue: str) -> bool:
        """Return whether a queue may be named."""
        return self.queues is None or queue in self.queues


WHOLE: Final = Visibility()
"""The view of the owner of the machine: the cluster was read with their own rights."""


class AccessReviews:
    """Reviews readers. Unknown tokens are reviewed a few times a second only."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._rates = ReviewRates()
        self._access: Bounded[bytes, tuple[float, Person | AccessRefusal]] = Bounded(MOST_TOKENS)
        self._answers: Bounded[tuple[str, ...], tuple[float, bool]] = Bounded(MOST_ANSWERS)
        self._asking = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    async def who(self, authorization: str, address: str = "") -> Person | AccessRefusal:
        """Return the sender of this header, from an address, or why they may not look at the page."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return AccessRefusal(401, "send the token of a ServiceAccount or user: Authorization: Bearer TOKEN")
        key = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        known = self._access.recall(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        if not self._rates.take(address):
            return AccessRefusal(429, "too many people are being asked about; try again in a second")
        try:
            found = await self._find_out(token)
        except ApiError as error:
            _log.warning("it cannot be found out who looks", error=str(error))
            return AccessRefusal(503, "the API server cannot be asked who may look")
        self._access[key] = (time.monotonic() + KEPT_SECONDS, found)
        return found

    async def _find_out(self, token: str) -> Person | AccessRefusal:
        person = await whose(self._api, token)
        if person is None:
            return AccessRefusal(401, "the API server does not know this token")
        if not await may(self._api, person, "nonResourceAttributes", {"path": PATH, "verb": "get"}):
            return AccessRefusal(
                403, f'user "{person.name}" may not get {PATH}: bind the ClusterRole volsched-ui-reader'
            )
        return person

    async def scope(self, person: Person, namespaces: Iterable[str], queues: Iterable[str]) -> Visibility:
        """Return the names among these namespaces and queues that a reader may see; without an answer none."""
        pods, all_queues, nodes = await asyncio.gather(
            self._may(person, "list", "", "pods"),
            self._may(person, "list", VOLCANO, "queues"),
            self._may(person, "list", "", "nodes"),
        )
        seen = None if pods else await self._those(person, "list", "", "pods", {(each, "") for each in namespaces})
        used = None if all_queues else await self._those(person, "get", VOLCANO, "queues", {("", q) for q in queues})
        return Visibility(seen, used, nodes)

    async def _those(
        self, person: Person, verb: str, group: str, resource: str, places: Iterable[tuple[str, str]]
    ) -> frozenset[str]:
        """Return the namespaces, or names, of those that a reader may see."""
        asked = list(places)
        answers = await asyncio.gather(*(self._may(person, verb, group, resource, *place) for place in asked))
        return frozenset(namespace or name for (namespace, name), yes in zip(asked, answers, strict=True) if yes)

    async def _may(
        self, person: Person, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
    ) -> bool:
        key = (person.identity, verb, group, resource, namespace, name)
        known = self._answers.recall(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace, "name": name}
        try:
            async with self._asking:
                answer = await may(self._api, person, "resourceAttributes", attributes)
        except ApiError as error:
            _log.warning("it cannot be found out what somebody may see", error=str(error))
            return False
        self._answers[key] = (time.monotonic() + KEPT_SECONDS, answer)
        return answer
