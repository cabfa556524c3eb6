"""Where admission webhooks listen, and with which certificate.

This is a module of its own so that the options of the controllers do not import the server: the server needs the rules
of validation, and these need every plugin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from volsched.kube.errors import KubeSetupError
from volsched.kube.serve.listeners import parse_address

LARGEST_REVIEW_BYTES: Final = 1 << 20
"""A review has the object before and after. What is judged is within a fraction of that; a larger one is let in unseen
(`failurePolicy: Ignore`), and looked at by the scheduler like everything."""

REVIEWS_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to serve, `host:port` or `:port`, and with which certificate: PEM files that may be replaced any time.

    `reviews` are read and judged at once; one of more than `largest` bytes is not read.
    """

    address: str
    certificate: str
    key: str
    reviews: int = REVIEWS_AT_ONCE
    largest: int = LARGEST_REVIEW_BYTES

    def problem(self) -> str:
        """Return what is wrong with the address, empty when nothing is."""
        try:
            parse_address(self.address)
        except KubeSetupError as error:
            return str(error)
        return ""
