"""What the recorded plans have in them: figures that tell whether the scenarios are worth playing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.plans.scenarios import CHUNKS, STORED, recorded_plans


def _cycles() -> Iterator[tuple[str, dict[str, Any]]]:
    for chunk in range(CHUNKS):
        for name, plan in recorded_plans(chunk).items():
            for cycle in plan:
                yield name, cycle


def _reasons(cycle: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every reason that a cycle states, with its message."""
    for told in cycle.get("events", {}).values():
        yield from ((reason, message) for _, reason, message in told)
    for condition in cycle.get("conditions", {}).values():
        yield condition["reason"], condition["message"]
    for why in cycle.get("waiting", {}).values():
        if why is not None:
            yield why[2], why[3]
    groups = [told["conditions"] for told in cycle.get("podGroups", {}).values()]
    for conditions in [*groups, *cycle.get("nativePodGroups", {}).values()]:
        yield from ((reason, message) for _, _, reason, message in conditions)


def _alike(message: str) -> str:
    """Return a message without names and numbers."""
    return re.sub(r"[0-9]+", "#", re.sub(r'"[^"]*"|<[^>]*>', "_", message))


def measured() -> str:
    """Return the figures as lines of text."""
    counts, reasons, plugins, evicting, stopped = (Counter[str]() for _ in range(5))
    messages: set[str] = set()
    kinds: set[str] = set()
    for _, cycle in _cycles():
        counts["cycles"] += 1
        counts.update({what: len(table) for what, table in cycle.items()})
        counts["nominations"] += sum(1 for told in cycle.get("conditions", {}).values() if "nominated" in told)
        evicting.update(evicted["action"] for evicted in cycle.get("evictions", ()))
        for why in cycle.get("waiting", {}).values():
            if why is not None:
                plugins[why[1] or "none"] += 1
                stopped[why[0]] += 1
        for reason, message in _reasons(cycle):
            reasons[reason] += 1
            messages.add(message)
            kinds.add(_alike(message))
    size = sum(file.stat().st_size for file in STORED.iterdir())
    return "\n".join(
        [
            f"{size / 2**20:.2f} MiB stored",
            f"counts: {dict(counts.most_common())}",
            f"evictions by action: {dict(evicting.most_common())}",
            f"refusals by step: {dict(stopped.most_common())}",
            f"refusals by plugin: {dict(plugins.most_common())}",
            f"reasons: {dict(reasons.most_common())}",
            f"{len(messages)} messages, {len(kinds)} of them different without names and numbers",
        ]
    )
