"""Which ResourceClaims the pods of a PodGroup will have, stated before they exist, in an annotation of the PodGroup.

A JSON object: for each role (``volcano.sh/task-spec``; "" stands for any other) the entries of its pods'
``spec.resourceClaims``, as ``{"worker": [{"name": "gpu", "template": "one"}, {"name": "nic", "claim": "shared"}]}``.
``volsched controllers`` writes it for Volcano Jobs, whose pods are made only once their PodGroup is admitted. Other
makers of PodGroups may write it, too. What the claims ask for is read from the cluster, so changes of templates count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from volsched.model import api
from volsched.model.pods.claim_use import ResourceClaimUse
from volsched.model.values import json_text
from volsched.model.values.bounded import Weighed

ANNOTATION: Final = "volsched.io/resource-claims"
PATH: Final = f"metadata.annotations[{ANNOTATION}]"

Uses = tuple[ResourceClaimUse, ...]


class _AnnouncedClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Announced:
    """What an annotation states, by role; nothing when there is none, or when `fault` states what is wrong with it."""

    roles: Mapping[str, Uses] = field(default_factory=dict)
    fault: str = ""

    def of_role(self, role: str) -> Uses:
        """Return the claims that each pod of a role will have."""
        return self.roles.get(role, self.roles.get("", ()))


NOTHING: Final = Announced()

_known: Final[Weighed[str, Announced]] = Weighed(1 << 20, len)


def announced_by(annotations: Mapping[str, str]) -> Announced:
    """Return what the annotations of a PodGroup state of its pods' claims."""
    text = annotations.get(ANNOTATION)
    return NOTHING if text is None else _read(text)


def _read(text: str) -> Announced:
    """Read an annotation, once for all PodGroups that state the same."""
    return _known.recall(text) or _known.keep(text, _parsed(text))


def _parsed(text: str) -> Announced:
    try:
        roles = json_text.decode(text, dict[str, tuple[_AnnouncedClaim, ...]])
    except (msgspec.DecodeError, UnicodeError) as error:
        return Announced(fault=f"is not understood: {error}")
    for role, entries in roles.items():
        for entry in entries:
            if bool(entry.claim) == bool(entry.template):
                return Announced(fault=f'entry "{entry.name}" of role "{role}" must name either a claim or a template')
    uses = {role: tuple(ResourceClaimUse(e.name, e.claim, e.template) for e in found) for role, found in roles.items()}
    return Announced({role: found for role, found in uses.items() if found})


def announcement(roles: Iterable[tuple[str, api.PodSpec]]) -> dict[str, str]:
    """Return the annotation for pods of these roles; none when they have no claims."""
    found = {role: entries for role, spec in roles if (entries := _entries(spec))}
    return {ANNOTATION: msgspec.json.encode(found).decode()} if found else {}


def _entries(spec: api.PodSpec) -> list[_AnnouncedClaim]:
    return [
        _AnnouncedClaim(use.name, use.resource_claim_name or "", use.resource_claim_template_name or "")
        for use in spec.resource_claims
        if use.resource_claim_name or use.resource_claim_template_name
    ]
