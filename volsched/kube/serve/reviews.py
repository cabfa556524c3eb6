"""Reviews at the API server: the user of a token (TokenReview), and its rights (SubjectAccessReview)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from volsched.kube.client.rest import Api

REVIEWS_OF_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
REVIEWS_OF_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_WITHIN_SECONDS: Final = 10.0

_ACCOUNT: Final = "system:serviceaccount:"
"""With which the name of a ServiceAccount begins; its namespace and name follow."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whose a token is. ``identity`` is all that the API server knows of them, as JSON."""

    name: str
    identity: str

    @property
    def asker(self) -> str:
        """Return the name by which it takes turns: a tenant makes ServiceAccounts, so those of a namespace are one."""
        return self.name.rpartition(":")[0] if self.name.startswith(_ACCOUNT) else self.name


async def whose(api: Api, token: str) -> Person | None:
    """Return whose a token is, or None when the API server does not know it. Raises ApiError."""
    review = await _review(api, REVIEWS_OF_TOKENS, "TokenReview", "authentication.k8s.io/v1", {"token": token})
    if not review.get("authenticated"):
        return None
    user = review.get("user") or {}
    known = {
        "user": user.get("username", ""),
        "uid": user.get("uid", ""),
        "groups": user.get("groups") or [],
        "extra": user.get("extra") or {},
    }
    return Person(known["user"], json.dumps(known, sort_keys=True))


async def may(api: Api, person: Person, field: str, attributes: Mapping[str, str]) -> bool:
    """True if a user may do what the ``field`` of a SubjectAccessReview names. Raises ApiError."""
    spec = {**json.loads(person.identity), field: dict(attributes)}
    review = await _review(api, REVIEWS_OF_ACCESS, "SubjectAccessReview", "authorization.k8s.io/v1", spec)
    return bool(review.get("allowed"))


async def _review(api: Api, path: str, kind: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Have one review made, and return its status. Raises ApiError."""
    body = json.dumps({"apiVersion": version, "kind": kind, "spec": spec}).encode()
    answer = await api.request("POST", path, path.rpartition("/")[2], body=body, within=_WITHIN_SECONDS)
    status = json.loads(answer).get("status")
    return status if isinstance(status, dict) else {}
