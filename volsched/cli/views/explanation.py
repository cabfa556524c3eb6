"""An explanation for people: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from volsched.diagnose.records import Advice, Explanation, Figures, Holder
from volsched.diagnose.workload_names import WorkloadName, distinguished, names_of
from volsched.text_page import Mood, Paragraph, Part, Row, section

_NONE: Final = "-"
_MOODS: Final[dict[str, Mood]] = {"scheduled": "good", "waits": "waits"}
_HANG: Final = len("Workload:  ")


def page(answer: Explanation) -> list[Part]:
    """Return the whole page."""
    parts: list[Part] = [Paragraph(answer.sentence, mood=_MOODS.get(answer.state, "")), *_reason(answer)]
    for beware in answer.warnings:
        parts += ["", Paragraph(f"Deadlock: {beware}", mood="bad")]
    parts += section("Short", _short(answer))
    parts += section(f"Quota of {answer.queue}", _quota(answer.quota))
    parts += section("Who holds it", _holders(answer))
    parts += section("Pods", _pods(answer))
    parts += section("Jobs", _jobs(answer))
    parts += section("Nodes", _nodes(answer))
    if answer.advice is not None:
        parts += _advice(answer.advice)
    return parts


def _reason(answer: Explanation) -> Iterator[Part]:
    if answer.message:
        yield from ("", Paragraph(f"{answer.reason}: {answer.message}"))
    if answer.gang is not None and answer.gang.shortage:
        yield from ("", Paragraph(f"As a whole: {answer.gang.shortage}."))
    details = list(_details(answer))
    if details:
        yield ""
        yield from (Paragraph(line, hang=_HANG, wraps=False) for line in details)


def _details(answer: Explanation) -> Iterator[str]:
    if answer.workload.lower() not in ("", f"{answer.subject.kind}/{answer.subject.name}"):
        yield f"Workload:  {answer.workload}"
    if answer.gang is not None:
        gang = answer.gang
        counts = f"{gang.ready} hold room, {gang.waiting} wait, {gang.pods} pods in all"
        yield f"Gang:      starts with {gang.minimum}; {counts}"
    if answer.place is not None:
        place = answer.place
        before = ", ".join(f"{name} {amount}" for name, amount in place.requested_before.items())
        asks = f"; those before ask for {before}" if before else ""
        yield f"Position:  {place.position} of {place.of} in queue {place.queue}{asks}"
    if answer.since is not None:
        yield f"Since:     {datetime.fromtimestamp(answer.since, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if answer.reported and answer.reported != answer.message:
        yield f"Before:    the cluster says: {answer.reported}"


def _short(answer: Explanation) -> Iterator[Row]:
    yield "OF", "RESOURCE", "NEED", "USED", "LIMIT"
    for item in answer.short:
        yield f"{item.of} {item.name}".strip(), item.resource, item.requested, item.used, item.limit


def _quota(figures: tuple[Figures, ...]) -> Iterator[Row]:
    yield "RESOURCE", "QUOTA", "USED", "RESERVED", "HEADROOM", "DESERVED"
    for item in figures:
        amounts = (item.quota, item.used, item.reserved, item.headroom, item.deserved)
        yield item.resource, *(_NONE if amount is None else amount for amount in amounts)


def _holders(answer: Explanation) -> Iterator[Row]:
    with_reserved = any(holder.reserved for holder in answer.holders)
    yield ("NAMESPACE", "WORKLOAD", "QUEUE", "RESOURCE", "AMOUNT", "PODS", *(["RESERVED"] if with_reserved else []))
    named = distinguished(answer.holders, lambda one: (_namespace(one), one.resource), _workload_of_holder)
    for holder, workload in zip(answer.holders, named, strict=True):
        reserved = [holder.reserved or _NONE] if with_reserved else []
        yield (
            _namespace(holder),
            workload,
            holder.queue,
            holder.resource,
            holder.amount,
            str(holder.pods),
            *reserved,
        )


def _namespace(holder: Holder) -> str:
    """Return the namespace of a job; a dash for the number of other jobs."""
    return holder.name.partition("/")[0] if holder.workload else _NONE


def _workload_of_holder(holder: Holder) -> WorkloadName:
    return WorkloadName(holder.workload or holder.name, holder.replica_set)


def _pods(answer: Explanation) -> Iterator[Row]:
    yield "POD", "STEP", "WHY"
    for pod in answer.pods:
        yield pod.pod, pod.step, pod.message
    for name, node in answer.placed.items():
        yield name, "placed", node


def _jobs(answer: Explanation) -> Iterator[Row]:
    yield "NAMESPACE", "WORKLOAD", "POSITION", "PODS", "STEP", "WHY"
    for job, workload in zip(answer.jobs, names_of(answer.jobs), strict=True):
        yield job.namespace, workload, str(job.position), str(job.pods), job.step, job.message


def _nodes(answer: Explanation) -> Iterator[Row]:
    yield "NODES", "SUCH AS", "WHY NOT"
    for line in answer.nodes:
        yield str(line.count), ", ".join(line.names), line.refusal or "has room for one pod"


def _advice(advice: Advice) -> Iterator[Part]:
    yield from ("", "WHAT WOULD HELP")
    for found in advice.helps:
        yield Paragraph(f"* {found.sentence}")
        if found.command:
            yield f"    {found.command}"
        yield from (f"    {line}" for line in found.patch.splitlines())
    if advice.nothing:
        yield Paragraph(advice.nothing)
    if advice.not_tried:
        yield Paragraph(f"Not tried to the end: {', '.join(advice.not_tried)}.")
    yield f"Each was tried by running the scheduler with it ({advice.tried} trials)."
