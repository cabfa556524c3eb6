"""Access to `/metrics`, `/configz` and explanations, by requests to the API server about the reader's token.

Answers are kept for a minute, and only a few are requested per second from one address: a client may send any number of
tokens, and each costs a request to the API server. A client from a new address is answered whatever others send.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Final

import structlog

from volsched.kube.asker_turns import AskerTurns, TooManyAskedError
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.serve.reviews import may, whose
from volsched.kube.write.throttle import TokenBucket
from volsched.model.values.bounded import Bounded

KEPT_SECONDS: Final = 60.0
MOST_KEPT: Final = 1024
REVIEWS_PER_SECOND: Final = 5.0
REVIEWS_AT_ONCE: Final = 20
"""From one address."""

REVIEWS_PER_SECOND_IN_ALL: Final = 50.0
REVIEWS_UNDER_WAY: Final = 8
MOST_REVIEWS_WAITING: Final = 256


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """The answer to a reader without access: an HTTP status, and the reason."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A right to check: a SubjectAccessReview's ``field`` with its ``attributes``, and words for both."""

    text: str
    takes: str
    field: str
    attributes: dict[str, str]

    @classmethod
    def path(cls, path: str) -> AccessRequest:
        """Return what stands for a path of this server."""
        attributes = {"path": path, "verb": "get"}
        return cls(path, "a ClusterRole with this nonResourceURL", "nonResourceAttributes", attributes)

    @classmethod
    def object(cls, group: str, resource: str, namespace: str, name: str) -> AccessRequest:
        """Return what stands for one object; without a namespace one of the cluster."""
        attributes = {"verb": "get", "group": group, "resource": resource, "namespace": namespace, "name": name}
        place = f" in namespace {namespace}" if namespace else ""
        called = f"{resource}.{group}" if group else resource
        return cls(f"{called} {name}{place}", f"the verb get on {called}{place}", "resourceAttributes", attributes)


class ReaderAccess:
    """Asks the API server about readers, with TokenReviews and SubjectAccessReviews for the verb `get`."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._rates = ReviewRates()
        self._turns = AskerTurns(REVIEWS_UNDER_WAY, 2, REVIEWS_AT_ONCE, MOST_REVIEWS_WAITING)
        self._names: Bounded[bytes, str] = Bounded(MOST_KEPT)
        self._known: Bounded[tuple[bytes, str], tuple[float, AccessRefusal | None]] = Bounded(MOST_KEPT)

    async def refusal(self, authorization: str, path: str, address: str = "") -> AccessRefusal | None:
        """Return why the sender of this header, from an address, may not read a path, or None if it may."""
        return await self._refusal(authorization, AccessRequest.path(path), address)

    async def refusal_of(
        self, authorization: str, group: str, resource: str, namespace: str, name: str, *, address: str = ""
    ) -> AccessRefusal | None:
        """Return why the sender of this header, from an address, may not get an object, or None if it may."""
        return await self._refusal(authorization, AccessRequest.object(group, resource, namespace, name), address)

    def asker(self, authorization: str) -> str:
        """Return the name of the sender of this header, if it was checked. Readers take turns by it."""
        return self._names.recall(_digest(authorization.partition(" ")[2].strip())) or ""

    async def _refusal(self, authorization: str, wanted: AccessRequest, address: str) -> AccessRefusal | None:
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return AccessRefusal(401, "send the token of a ServiceAccount or user: Authorization: Bearer TOKEN")
        key = (_digest(token), wanted.text)
        known = self._known.recall(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        if not self._rates.take(address):
            return _TOO_MANY
        try:
            async with self._turns.turn(address):
                found = await self._asked(token, wanted)
        except TooManyAskedError:
            return _TOO_MANY
        except ApiError as error:
            _log.warning("it cannot be found out who may read", path=wanted.text, error=str(error))
            return AccessRefusal(
                503, _CANNOT_ASK if error.status == 403 else "the API server cannot be asked who may read"
            )
        self._known[key] = (time.monotonic() + KEPT_SECONDS, found)
        return found

    async def _asked(self, token: str, wanted: AccessRequest) -> AccessRefusal | None:
        person = await whose(self._api, token)
        if person is None:
            return AccessRefusal(401, "the API server does not know this token")
        self._names[_digest(token)] = person.name
        if await may(self._api, person, wanted.field, wanted.attributes):
            return None
        return AccessRefusal(403, f'user "{person.name}" may not get {wanted.text}: that takes {wanted.takes}')


class ReviewRates:
    """The most readers to check per second: from one address, and from all recent addresses."""

    def __init__(self) -> None:
        self._all = TokenBucket(REVIEWS_PER_SECOND_IN_ALL, 2 * int(REVIEWS_PER_SECOND_IN_ALL))
        self._of: Bounded[str, TokenBucket] = Bounded(MOST_KEPT)

    def take(self, address: str) -> bool:
        """True if a reader at an address is checked now. A new address always is."""
        bucket = self._of.recall(address)
        if bucket is None:
            self._of[address] = bucket = TokenBucket(REVIEWS_PER_SECOND, REVIEWS_AT_ONCE)
            self._all.take()
            return bucket.take()
        return bucket.take() and self._all.take()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


_TOO_MANY: Final = AccessRefusal(429, "too many readers are being asked about; try again in a second")
_CANNOT_ASK: Final = (
    "volsched may not ask who may read: bind its ServiceAccount to the ClusterRole system:auth-delegator, as the "
    "component metrics-auth does"
)
