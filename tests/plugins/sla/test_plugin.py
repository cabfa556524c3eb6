"""sla: jobs that have waited for their agreed time."""

from __future__ import annotations

import pytest

from tests.actions.rigs import conf, cycle, phases, rig
from volsched.model.errors import ConfigError
from volsched.registry import load_profile
from volsched.testing.builders import ClusterBuilder, Rig, a_cluster

START = 1_767_225_600.0
NOBODY_FITS = conf("enqueue, allocate", "sla", "overcommit predicates")


def created(seconds_ago: int) -> str:
    hours, rest = divmod(86_400 - seconds_ago, 3_600)
    return f"2025-12-31T{hours:02}:{rest // 60:02}:{rest % 60:02}Z"


def world(*jobs: tuple[str, int, str | None]) -> ClusterBuilder:
    """A node of one core that is taken, and Pending groups of one core: name, age in seconds, agreed time."""
    given = a_cluster().node("n1", cpu=1).queue("q").group("run", "q", phase="Running").pod("r", "run", on="n1", cpu=1)
    for name, age, agreed in jobs:
        given.group(name, "q", phase="Pending", minResources={"cpu": "1"})
        meta = given.objects[-1]["metadata"]
        meta["creationTimestamp"] = created(age)
        meta["annotations"] = {"sla-waiting-time": agreed} if agreed is not None else {}
    return given


def after(on: Rig, seconds: float) -> dict[str, str]:
    on.clock.time = START + seconds
    return phases(cycle(on))


def test_a_job_is_admitted_once_it_has_waited_for_as_long_as_was_agreed() -> None:
    on = rig(world(("soon", 50, "1m"), ("never", 50, None)), NOBODY_FITS)
    assert after(on, 0) == {"run": "Running", "soon": "Pending", "never": "Pending"}
    assert on.scheduler.wake_at() == START + 10

    assert after(on, 9.9)["soon"] == "Pending"
    assert after(on, 10) == {"run": "Running", "soon": "Inqueue", "never": "Pending"}
    assert on.scheduler.wake_at() is None


def test_the_argument_is_for_all_jobs_and_the_annotation_goes_before_it() -> None:
    text = NOBODY_FITS.replace("name: sla", "name: sla\n    arguments: {sla-waiting-time: 40s}")
    on = rig(world(("all", 50, None), ("own", 50, "1m"), ("odd", 50, "soon")), text)

    found = after(on, 0)

    assert [found[name] for name in ("all", "own", "odd")] == ["Inqueue", "Pending", "Inqueue"]


@pytest.mark.parametrize(
    ("prefixed", "bare", "admitted"),
    [
        ("1s", None, True),
        ("1h", "1s", False),
        ("1s", "1h", True),
        ("soon", "1s", True),
        ("0s", "1s", True),
        ("-1s", None, False),
    ],
)
def test_the_annotation_with_a_prefix_goes_before_the_bare_one(prefixed: str, bare: str | None, admitted: bool) -> None:
    given = world(("a", 50, bare))
    given.objects[-1]["metadata"]["annotations"]["volcano.sh/sla-waiting-time"] = prefixed

    assert after(rig(given, NOBODY_FITS), 0)["a"] == ("Inqueue" if admitted else "Pending")


def test_a_plugin_of_the_same_tier_may_still_reject_it() -> None:
    on = rig(world(("soon", 50, "1s")), conf("enqueue", "sla overcommit", "predicates"))

    assert after(on, 0)["soon"] == "Pending"


def test_jobs_are_ordered_by_when_their_time_is_over() -> None:
    given = a_cluster().node("n1", cpu=1).queue("q")
    for name, age, agreed in (("first", 90, None), ("late", 50, "1h"), ("early", 10, "1m")):
        given.job(name, 1, queue="q", cpu=1)
        group = next(o for o in given.objects if o["kind"] == "PodGroup" and o["metadata"]["name"] == name)
        group["metadata"]["creationTimestamp"] = created(age)
        if agreed is not None:
            group["metadata"].setdefault("annotations", {})["sla-waiting-time"] = agreed

    assert list(cycle(rig(given, conf("allocate", "sla", "predicates"))).bindings) == ["early-0"]


def test_a_job_that_comes_later_is_waited_for_too_and_one_that_goes_is_not() -> None:
    on = rig(world(("a", 10, "40s")), NOBODY_FITS)
    cycle(on)
    assert on.scheduler.wake_at() == START + 30

    cycle(on, *world(("b", 10, "30s")).changes())
    assert on.scheduler.wake_at() == START + 20

    assert after(on, 25)["b"] == "Inqueue"
    assert on.scheduler.wake_at() == START + 30


@pytest.mark.parametrize("value", ["soon", "-1s", ""])
def test_a_time_that_is_none_is_an_error(value: str) -> None:
    text = NOBODY_FITS.replace("name: sla", f'name: sla\n    arguments: {{sla-waiting-time: "{value}"}}')

    with pytest.raises(ConfigError, match=r"sla-waiting-time: .*must be a duration"):
        load_profile(text)
