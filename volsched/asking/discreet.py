"""An explanation for somebody who may get one object alone: names of other teams' objects become counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from volsched.asking.records import Advice, Explanation, Help, Holder, NodeLine

OTHERS: Final = "others"


def discreet(answer: Explanation) -> Explanation:
    """Return an explanation that names objects of its subject's namespace alone; of a queue, no job at all."""
    namespace = answer.subject.namespace
    jobs = tuple(job for job in answer.jobs if job.namespace == namespace)
    return msgspec.structs.replace(
        answer,
        message=answer.message if namespace else "",
        holders=tuple(_holders(answer.holders, namespace)),
        nodes=tuple(NodeLine(line.count, (), line.refusal) for line in answer.nodes),
        jobs=jobs,
        advice=_advice(answer.advice) if answer.advice is not None else None,
    )


def _holders(holders: Iterable[Holder], namespace: str) -> Iterable[Holder]:
    """Yield the namespace's holders as they are, then how many others hold each resource in each queue."""
    others: dict[tuple[str, str], list[Holder]] = {}
    for holder in holders:
        if namespace and holder.name.startswith(f"{namespace}/"):
            yield holder
        else:
            others.setdefault((holder.queue, holder.resource), []).append(holder)
    for (queue, resource), found in others.items():
        yield Holder(f"{len(found)} {OTHERS}", queue, resource, "", sum(holder.pods for holder in found))


def _advice(advice: Advice) -> Advice:
    return msgspec.structs.replace(advice, helps=tuple(map(_help, advice.helps)))


def _help(found: Help) -> Help:
    """Return a help without names of pods and nodes, which may be others'; what a command names is left out with it."""
    sorts = found.sort.split("+")
    if hidden := [_HIDDEN[sort] for sort in sorts if sort in _HIDDEN]:
        alone = "" if len(hidden) == len(sorts) else " That alone does not do."
        return Help(found.sort, f"{' '.join(hidden)}{alone}")
    return msgspec.structs.replace(found, patch="") if "nodes" in sorts else found


_HIDDEN: Final = {
    "pods": "It starts once pods of another job are gone.",
    "nodeQuota": "It starts once CPU pods may hold more on GPU nodes.",
}
"""What is stated in place of changes that name objects of others."""
