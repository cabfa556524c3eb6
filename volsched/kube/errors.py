"""What can go wrong when speaking to an API server, as the project's own exceptions.

Foreign errors (aiohttp, ssl, asyncio, JSON) end in `client.py`; whoever calls it sees only these.
"""

from __future__ import annotations

from typing import Final

from volsched.model.errors import VolschedError, shortened

OVERLOADED: Final = "Overloaded"
"""Reason of a 429 that came before anybody looked at what was asked for: it has no Status object."""


TOO_LARGE: Final = "TooLarge"
"""The reason where an answer is larger than is taken in."""


class ApiError(VolschedError):
    """A request was refused, or its answer never came.

    `status` is the HTTP status, 0 when there was no answer; `reason` is the machine-readable reason of the answer's
    Status object, or one of `Timeout`, `Broken`, `Unreachable`, `TooLarge`; `retry_after` is how many seconds the
    server asks to wait, if it does.
    """

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(status, reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.status or 'no answer'} {self.reason}: {shortened(self.message, 500)}"

    @property
    def is_overload(self) -> bool:
        """Whether the server as a whole has too much to do, and not only this request was refused with 429."""
        return self.status == 429 and self.reason == OVERLOADED

    @property
    def code(self) -> str:
        """How it is counted: the HTTP status, or the reason in lower case when there was no answer."""
        return str(self.status) if self.status else self.reason.lower()

    @property
    def may_have_happened(self) -> bool:
        """Whether the server may have done what was asked although it did not answer that."""
        return self.status in (500, 502, 503, 504) or self.reason in ("Timeout", "Broken")

    @property
    def is_gone(self) -> bool:
        """Whether the object is not there any more, or another one is there under its name."""
        if self.status == 404:
            return True
        return (self.status == 409 and "UID" in self.message) or (self.status == 422 and "metadata.uid" in self.message)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may well succeed a little later (for 409: unless `is_gone`)."""
        return self.status in {0, 409, 429} or self.status >= 500


class ElsewhereError(ApiError):
    """An object is there already and belongs to somebody else; it may be on its way out."""

    def __init__(self, message: str) -> None:
        super().__init__(409, "BelongsToAnother", message)


class CredentialsError(VolschedError):
    """There is no usable way to the API server: no configuration, or one that cannot be read."""


class KubeSetupError(VolschedError):
    """The program cannot start as it was asked to: an address is taken, a flag contradicts another."""


class FenceError(VolschedError):
    """A write was due, but the right to write has run out, for good: who leads next does what is left."""
