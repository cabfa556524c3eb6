"""Where admission webhooks listen, and with which certificate.

This is a module of its own so that the options of the controllers do not import the server: the server needs the rules
of validation, and these need every plugin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from volsched.kube.errors import KubeSetupError
from volsched.kube.serve.connections import ConnectionLimits, Network
from volsched.kube.serve.listeners import parse_address

LARGEST_REVIEW_BYTES: Final = 1 << 20
"""A review has the object before and after. What is judged is within a fraction of that; a larger one is let in unseen
(`failurePolicy: Ignore`), and looked at by the scheduler like everything."""

REVIEWS_AT_ONCE: Final = 4

PER_PEER: Final = 64
"""More connections than reviews that may wait and be judged (36): an API server whose address nobody has named needs no
more, since what came beyond would be told to come again."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to serve, `host:port` or `:port`, and with which certificate: PEM files that may be replaced any time.

    `reviews` are read and judged at once; one of more than `largest` bytes is not read. From ``clients``, the networks
    of API servers, any number of connections may come, as far as there are places at all.
    """

    address: str
    certificate: str
    key: str
    reviews: int = REVIEWS_AT_ONCE
    largest: int = LARGEST_REVIEW_BYTES
    clients: tuple[Network, ...] = ()

    @property
    def connections(self) -> ConnectionLimits:
        """How many connections it holds."""
        return ConnectionLimits(per_peer=PER_PEER, unlimited=self.clients)

    def problem(self) -> str:
        """Return what is wrong with the address, empty when nothing is."""
        try:
            parse_address(self.address)
        except KubeSetupError as error:
            return str(error)
        return ""
