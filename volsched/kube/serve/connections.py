"""Limits of connections to an address: in total, per peer, and the idle time.

Any pod can open connections and send nothing. Each costs a descriptor, one with TLS also 280 KB. So an address holds a
limited number, and when it is full idle ones are closed: a peer at its own limit loses its own oldest idle connection,
and when all places are taken the peer that holds most loses one. A new client is therefore answered, also beside
thousands of idle ones. A connection with a request under way is never closed for another one.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

PORTS: Final = 3
"""The most addresses that one process listens on: pages, probes, webhooks."""

FIRST_REQUEST_SECONDS: Final = 10.0
"""From the connection to the end of the first request's header, the TLS handshake included."""

HANDSHAKE_SECONDS: Final = 5.0
"""From the first byte to the end of the TLS handshake."""

IDLE_SECONDS: Final = 100.0
"""From one answer to the end of the next header. The API server's client leaves idle connections after 90 s itself."""

STALLED_SECONDS: Final = 30.0
"""A peer that takes nothing of an answer for so long is not waited for."""


WHY_CLOSED: Final = ("displaced", "refused", "slow", "idle", "stalled", "handshake")
"""Reasons to close connections while the process serves."""


class Stage(IntEnum):
    """The stages of a connection. Lower ones are closed first."""

    SILENT = 0
    """Not a byte has come."""
    OPENING = 1
    """The TLS handshake, or the header of the first request, is under way."""
    ANSWERED = 2
    """A request was answered, and no other one has come."""
    ASKED = 3
    """A request is under way."""


@dataclass(slots=True, eq=False)
class Connection:
    """One connection of a peer. ``since`` is the loop's time at which its stage began."""

    peer: str
    since: float
    close: Callable[[], None]
    left_to_send: Callable[[], int] = lambda: 0
    """Bytes of an answer that the peer has not taken yet."""
    stage: Stage = Stage.SILENT
    opened: float = 0.0
    seen_left: int = 0
    stalled_since: float = 0.0

    @property
    def is_idle(self) -> bool:
        """True if no request waits for an answer on it."""
        return self.stage is not Stage.ASKED and not self.left_to_send()

    def enter(self, stage: Stage, now: float) -> None:
        """Go on to another stage."""
        self.stage, self.since = stage, now

    def overdue(self, now: float) -> str:
        """Return why it is to be closed: `slow`, `idle` or `stalled`; empty when it may stay."""
        left = self.left_to_send()
        if not left or left < self.seen_left:
            self.stalled_since = now
        self.seen_left = left
        if left and now - self.stalled_since > STALLED_SECONDS:
            return "stalled"
        if not self.is_idle:
            return ""
        if self.stage is Stage.ANSWERED:
            return "idle" if now - self.since > IDLE_SECONDS else ""
        return "slow" if now - self.opened > FIRST_REQUEST_SECONDS else ""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of an address, in total and per peer. Peers in ``unlimited`` may use all places."""

    total: int = 128
    per_peer: int = 32
    unlimited: tuple[Network, ...] = ()

    def within_descriptors(self) -> ConnectionLimits:
        """Return limits that leave half of the process's descriptors free, for any number of addresses."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        total = min(self.total, max(1, most // 2 // PORTS)) if most != resource.RLIM_INFINITY else self.total
        return ConnectionLimits(total, min(self.per_peer, max(1, total // 2)), self.unlimited)

    def has_no_limit(self, peer: str) -> bool:
        """Return whether the limit per peer does not hold for an address."""
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        return any(address in network for network in self.unlimited)


@dataclass(slots=True)
class ConnectionTable:
    """The connections of one address. ``closed`` counts those that were closed from this side, by reason."""

    limits: ConnectionLimits
    closed: Counter[str] = field(default_factory=Counter)
    _of: dict[str, list[Connection]] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        """Return the number of connections."""
        return self._count

    def __iter__(self) -> Iterator[Connection]:
        """Yield all of them; may be changed meanwhile."""
        return iter([each for group in self._of.values() for each in group])

    def make_room(self, peer: str) -> bool:
        """Close idle connections to make room for a new one of a peer. Return False if there is none to close."""
        own = self._of.get(peer, [])
        if len(own) >= self.limits.per_peer and not self.limits.has_no_limit(peer):
            return self._give_up([own])
        return self._count < self.limits.total or self._give_up(self._by_size())

    def add(self, connection: Connection) -> None:
        """Take a connection in."""
        self._of.setdefault(connection.peer, []).append(connection)
        self._count += 1

    def remove(self, connection: Connection) -> None:
        """Forget one that has ended. One that is forgotten already does no harm."""
        group = self._of.get(connection.peer, [])
        if connection in group:
            group.remove(connection)
            self._count -= 1
            if not group:
                del self._of[connection.peer]

    def close(self, connection: Connection, why: str) -> None:
        """Close one from this side, and forget it."""
        self.closed[why] += 1
        self.remove(connection)
        connection.close()

    def close_overdue(self, now: float) -> None:
        """Close all that have been silent, idle or stalled for too long."""
        for connection in self:
            why = connection.overdue(now)
            if why:
                self.close(connection, why)

    def close_one(self) -> bool:
        """Close the least useful idle connection, as descriptors are short. Return False without one."""
        return self._give_up(self._by_size())

    def _by_size(self) -> list[list[Connection]]:
        """Yield the connections of each peer: peers with a limit first, of them the peer that holds most."""
        return sorted(self._of.values(), key=lambda own: (self.limits.has_no_limit(own[0].peer), -len(own)))

    def _give_up(self, groups: list[list[Connection]]) -> bool:
        for group in groups:
            idle = [each for each in group if each.is_idle]
            if idle:
                self.close(min(idle, key=lambda each: (each.stage, each.since)), "displaced")
                return True
        return False


def peer_of(name: object) -> str:
    """Return the address in what a socket says of its other end; IPv4 addresses inside of IPv6 as IPv4."""
    text = str(name[0]) if isinstance(name, tuple) and name else str(name)
    text = text.partition("%")[0]
    return text.removeprefix("::ffff:") if "." in text else text


def networks(text: str) -> tuple[Network, ...]:
    """Return networks and single addresses that a text lists with commas between them. Raises ValueError."""
    return tuple(ipaddress.ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())
