"""What can go wrong in the control plane for tests, in one tree, so that a caller can catch it in one place."""

from __future__ import annotations

import contextlib
import json


class ControlPlaneError(RuntimeError):
    """The base of all errors of this package."""


class BuildError(ControlPlaneError):
    """A program is missing and could not be built."""


class StartError(ControlPlaneError):
    """A program did not come up; the message ends with the tail of its log."""


class ApiServerError(ControlPlaneError):
    """The API server answered a request of the tests with an error; the message has what its Status says."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status}: {_said(body)}")
        self.status = status
        self.body = body


def _said(body: str) -> str:
    """Return the message of a Status; of anything else the first 500 characters."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(body)["message"])
    return body[:500]


class KubectlError(ControlPlaneError):
    """A kubectl command failed; the message has its output."""
