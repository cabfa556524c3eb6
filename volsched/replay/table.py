"""The result of a replay as text: waiting times by size and queue, and usage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from volsched.replay.summary import Json
from volsched.text_page import Part, Row, section


def render(result: Json) -> list[Part]:
    """Return the whole page."""
    summary = result["summary"]
    parts: list[Part] = [_headline(result)]
    parts += section("Jobs by cards", _waits("CARDS", summary["sizes"]))
    parts += section("Queues", _waits("QUEUE", summary["queues"]))
    parts += section("Use", _use(summary["use"]))
    parts += ["", *(line for line in (_fairness(summary), _promises(summary)) if line)]
    return parts


def render_comparison(comparison: Json) -> list[Part]:
    """Return the page of two policies."""
    first, second = (policy["configuration"] for policy in comparison["policies"])
    use = {
        name: [policy["summary"]["use"][name] for policy in comparison["policies"]] for name in _resources(comparison)
    }
    parts: list[Part] = [f"{first} -> {second}"]
    parts += section("Queues", _changes("QUEUE", comparison["queues"]))
    parts += section("Jobs by cards", _changes("CARDS", comparison["sizes"]))
    parts += section("Use", _use_changes(use))
    return parts


def _resources(comparison: Json) -> list[str]:
    return list(comparison["policies"][0]["summary"]["use"])


def _changes(head: str, groups: Mapping[str, Json]) -> Iterator[Row]:
    yield head, "JOBS", "MEDIAN", "P95", "MAX", "SLOWDOWN", "EARLIER", "LATER", "OUTCOME"
    for name, group in groups.items():
        waits = [_change(group["wait"][key], span) for key in ("median", "p95", "max")]
        slowdown = _change(group["bounded_slowdown"], lambda value: f"{value:.2f}")
        counts = str(group["count"]), str(group["earlier"]), str(group["later"])
        yield name, counts[0], *waits, slowdown, *counts[1:], group["outcome"]


def _change(values: Sequence[float | None], text_of: Callable[[float], str]) -> str:
    return " -> ".join("-" if value is None else text_of(value) for value in values)


def _use_changes(use: Mapping[str, Sequence[Json]]) -> Iterator[Row]:
    yield "RESOURCE", "USED", "IDLE WHILE A JOB WAITED THAT ASKS FOR SOME"
    for resource, found in use.items():
        yield resource, *(_change([each[key] for each in found], percent) for key in ("mean", "idle_while_waiting"))


def _headline(result: Json) -> str:
    jobs = result["jobs"]
    over, started = (sum(1 for job in jobs if job[key] is not None) for key in ("end", "start"))
    never = len(jobs) - started
    last = max((job["end"] for job in jobs if job["end"] is not None), default=0.0)
    text = f"{len(jobs)} jobs, {over} over after {span(last)}"
    return f"{text}; {never} never started." if never else f"{text}."


def _waits(head: str, groups: Mapping[str, Json]) -> Iterator[Row]:
    """Yield how long jobs waited."""
    yield head, "JOBS", "MEDIAN", "P95", "P99", "MAX", "SLOWDOWN", "EVICTED", "NEVER STARTED"
    for name, group in groups.items():
        wait = group["wait"] or {}
        waits = [span(wait[key]) if key in wait else "-" for key in ("median", "p95", "p99", "max")]
        slowdown = "-" if group["bounded_slowdown"] is None else f"{group['bounded_slowdown']:.2f}"
        never = str(group["count"] - group["started"])
        yield name, str(group["count"]), *waits, slowdown, str(group["evicted"]), never


def _use(use: Mapping[str, Json]) -> Iterator[Row]:
    yield "RESOURCE", "USED", "IDLE WHILE A JOB WAITED THAT ASKS FOR SOME"
    for resource, found in use.items():
        yield resource, percent(found["mean"]), percent(found["idle_while_waiting"])


def _fairness(summary: Json) -> str:
    found = summary["jain"]
    if found is None:
        return ""
    hourly, whole = ("-" if found[key] is None else f"{found[key]:.3f}" for key in ("hourly", "whole"))
    return f"Fairness between queues (Jain's index, 1 is perfect): {hourly} by the hour, {whole} over the whole time."


def _promises(summary: Json) -> str:
    found = summary["reservations"]
    if not found["given"]:
        return ""
    late = f"{found['late']} later (at most {span(found['late_by']['max'])})" if found["late"] else "none later"
    return f"Reservations: {found['given']} given, {found['kept']} started until the first promise, {late}."


def span(seconds: float) -> str:
    """Return a time for people: seconds below two minutes, minutes below two hours, hours below four days, days."""
    for most, unit, name in ((120, 1, "s"), (7200, 60, "m"), (345600, 3600, "h")):
        if seconds < most:
            return f"{_short(seconds / unit)}{name}"
    return f"{_short(seconds / 86400)}d"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f} %"
