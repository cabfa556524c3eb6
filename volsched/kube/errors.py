"""Failures in contact with an API server, as the project's own exceptions.

Foreign errors (aiohttp, ssl, asyncio, JSON) end in `rest.py`; its callers see only these.
"""

from __future__ import annotations

from typing import Final

from volsched.model.errors import VolschedError, shortened

OVERLOADED: Final = "Overloaded"
"""Reason of a 429 that came before the server read the request: it has no Status object."""


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
        """True if the server as a whole is overloaded; False if only this request was refused with 429."""
        return self.status == 429 and self.reason == OVERLOADED

    @property
    def code(self) -> str:
        """Return the label for counting: the HTTP status, or the reason in lower case without an answer."""
        return str(self.status) if self.status else self.reason.lower()

    @property
    def may_have_happened(self) -> bool:
        """True if the server may have done the request although it did not confirm it."""
        return self.status in (500, 502, 503, 504) or self.reason in ("Timeout", "Broken")

    @property
    def is_deleted(self) -> bool:
        """True if the object does not exist any more, or another one has its name."""
        if self.status == 404:
            return True
        return (self.status == 409 and "UID" in self.message) or (self.status == 422 and "metadata.uid" in self.message)

    @property
    def is_transient(self) -> bool:
        """True if the same request may succeed a little later (for 409: unless `is_deleted`)."""
        return self.status in {0, 409, 429} or self.status >= 500


class ElsewhereError(ApiError):
    """The object exists already and belongs to another user. It may be on its way out."""

    def __init__(self, message: str) -> None:
        super().__init__(409, "BelongsToAnother", message)


class CredentialsError(VolschedError):
    """There is no usable way to the API server: no configuration, or an unreadable one."""


class KubeSetupError(VolschedError):
    """The program cannot start as configured: an address is taken, a flag contradicts another."""


class FenceError(VolschedError):
    """The right to write has ended for good: the next leader does the rest."""
