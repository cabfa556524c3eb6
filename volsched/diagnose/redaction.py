"""An explanation for a user who may read one object only: names of other teams' objects become counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from volsched.diagnose.records import Advice, Explanation, Help, Holder, NodeLine
from volsched.framework.redaction import ANOTHER, without

OTHERS: Final = "others"


def redacted(answer: Explanation, may_name: Callable[[str], bool] | None = None) -> Explanation:
    """Return an explanation that names objects of namespaces alone that its reader may name. Other jobs are "another".

    Without ``may_name`` that is the subject's namespace; of a queue, no job at all is named then.
    """
    namespace = answer.subject.namespace
    names = may_name or (lambda each: bool(namespace) and each == namespace)
    known = {*(each.resource for each in answer.short), *(each.resource for each in answer.quota)}

    def shown(text: str) -> str:
        return without(text, names, known)

    return msgspec.structs.replace(
        answer,
        sentence=shown(answer.sentence) if namespace else answer.sentence,
        message=shown(answer.message) if namespace else "",
        gang=msgspec.structs.replace(answer.gang, shortage=shown(answer.gang.shortage)) if answer.gang else None,
        reported=shown(answer.reported),
        holders=tuple(_holders(answer.holders, names)),
        pods=tuple(msgspec.structs.replace(pod, message=shown(pod.message)) for pod in answer.pods),
        nodes=tuple(NodeLine(line.count, (), shown(line.refusal)) for line in answer.nodes),
        jobs=tuple(
            msgspec.structs.replace(job, message=shown(job.message)) for job in answer.jobs if names(job.namespace)
        ),
        warnings=tuple(map(shown, answer.warnings)),
        advice=_advice(answer.advice, shown) if answer.advice is not None else None,
    )


def _holders(holders: Iterable[Holder], names: Callable[[str], bool]) -> Iterable[Holder]:
    """Yield holders that may be named as they are, then how many others hold each resource in each queue."""
    others: dict[tuple[str, str], list[Holder]] = {}
    for holder in holders:
        if names(holder.name.partition("/")[0]):
            yield holder
        else:
            others.setdefault((holder.queue, holder.resource), []).append(holder)
    for (queue, resource), found in others.items():
        who = ANOTHER if len(found) == 1 else f"{len(found)} other jobs"
        yield Holder(who, queue, resource, "", sum(holder.pods for holder in found))


def _advice(advice: Advice, shown: Callable[[str], str]) -> Advice:
    helps, not_tried = tuple(map(_help, advice.helps)), tuple(map(shown, advice.not_tried))
    return msgspec.structs.replace(advice, helps=helps, nothing=shown(advice.nothing), not_tried=not_tried)


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
