"""The address and certificate of admission webhooks.

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
"""The largest review, with the object before and after. A judged object is a fraction of that.

A larger one is admitted unseen (`failurePolicy: Ignore`), and checked by the scheduler like every object.
"""

REVIEWS_AT_ONCE: Final = 4

PER_PEER: Final = 64
"""The most connections: more than reviews that may wait and be judged (36).

More would be refused anyway, so an API server whose address is not configured needs no more.
"""


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
        """Return the number of its connections."""
        return ConnectionLimits(per_peer=PER_PEER, unlimited=self.clients)

    def problem(self) -> str:
        """Return what is wrong with the address, empty when nothing is."""
        try:
            parse_address(self.address)
        except KubeSetupError as error:
            return str(error)
        return ""
