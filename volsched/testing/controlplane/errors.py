"""What can go wrong in the control plane for tests, in one tree, so that a caller can catch it in one place."""

from __future__ import annotations


class ControlPlaneError(RuntimeError):
    """The base of all errors of this package."""


class BuildError(ControlPlaneError):
    """A program is missing and could not be built."""


class StartError(ControlPlaneError):
    """A program did not come up; the message ends with the tail of its log."""


class ApiServerError(ControlPlaneError):
    """The API server answered a request of the tests with an error."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status}: {body[:500]}")
        self.status = status
        self.body = body


class KubectlError(ControlPlaneError):
    """A kubectl command failed; the message has its output."""
