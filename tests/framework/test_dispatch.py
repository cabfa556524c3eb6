"""How the answers of several plugins combine: every rule as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.framework.stage import Plug, Stage, no
from volsched.framework.callbacks import ABSTAIN, PERMIT, Ballot, Vote
from volsched.framework.config.configuration import SWITCHES
from volsched.framework.dispatch import combining as dispatch
from volsched.framework.rules import (
    Allocatable,
    BatchNodeOrder,
    BestNode,
    JobEnqueueable,
    JobEnqueued,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    NodeOrder,
    Overused,
    Predicate,
    Preemptive,
    PrePredicate,
)
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.model.verdict import Verdict
from volsched.testing.builders import a_cluster

JOB = JobInfo("default", "job")


def ballot(letter: str, number: int) -> Ballot:
    """``+`` permits, ``-`` rejects with its number as the reason, ``0`` abstains."""
    return {"+": PERMIT, "0": ABSTAIN}.get(letter) or Ballot(Vote.REJECT, no(str(number)))


def electorate(tiers: str, asked: list[int]) -> dispatch.Tiered[Callable[[JobInfo], Ballot]]:
    """Voters as a text, tiers divided by a bar; each notes that it was asked."""
    fns: dispatch.Tiered[Callable[[JobInfo], Ballot]] = []
    for tier, letters in enumerate(tiers.split("|")):
        for letter in letters:
            number = len(fns)

            def fn(job: JobInfo, letter: str = letter, number: int = number) -> Ballot:
                asked.append(number)
                return ballot(letter, number)

            fns.append((tier, fn))
    return fns


@pytest.mark.parametrize(
    ("tiers", "admitted", "reason", "asked"),
    [
        ("", True, None, []),
        ("0", True, None, [0]),
        ("+", True, None, [0]),
        ("-", False, "0", [0]),
        ("+-", False, "1", [0, 1]),  # a reject in the tier of a permit still counts
        ("-+", False, "0", [0]),  # and ends the vote at once
        ("+|-", True, None, [0]),  # a permit ends the vote with its tier
        ("0|-", False, "1", [0, 1]),
        ("00|0+|-", True, None, [0, 1, 2, 3]),
        ("0|+0|-", True, None, [0, 1, 2]),
        ("0||0|+", True, None, [0, 1, 2]),
        ("+0|-", True, None, [0, 1]),
        ("0+0-|+", False, "3", [0, 1, 2, 3]),
    ],
)
def test_a_reject_ends_the_vote_and_a_permit_ends_it_with_its_tier(
    tiers: str, admitted: bool, reason: str | None, asked: list[int]
) -> None:
    heard: list[int] = []

    outcome, verdict = dispatch.vote(electorate(tiers, heard), JOB)

    assert (outcome, verdict and verdict.message, heard) == (admitted, reason, asked)


@pytest.mark.parametrize(
    ("tiers", "told", "asked"),
    [
        ("-0-|-", "0; 2; 3", [0, 1, 2, 3]),
        ("-+|-", "0", [0, 1]),  # behind a permit nobody would have been asked
        ("0|-", "1", [0, 1]),
        ("+|-", None, [0]),
    ],
)
def test_whoever_else_rejects_can_be_told_with_the_first(tiers: str, told: str | None, asked: list[int]) -> None:
    heard: list[int] = []

    outcome, verdict = dispatch.vote(electorate(tiers, heard), JOB, list_all=True)

    assert (outcome, verdict and verdict.message, heard) == (told is None, told, asked)


@pytest.mark.parametrize(
    ("tiers", "starving"),
    [
        ("", False),
        ("y", True),
        ("n", False),
        ("yy", True),
        ("yn", False),
        ("y|n", True),  # only the first tier in which anybody is registered
        ("|n|y", False),
        ("|yy|n", True),
    ],
)
def test_a_job_starves_when_the_whole_first_tier_with_a_say_finds_so(tiers: str, starving: bool) -> None:
    fns = [(tier, (lambda _, s=say: s == "y")) for tier, says in enumerate(tiers.split("|")) for say in says]

    assert dispatch.first_tier_and(fns, JOB) is starving


CANDIDATES = [TaskInfo(name, "default", name, PodTemplate(0)) for name in "abcd"]


def chooser(names: str) -> Callable[[TaskInfo, Sequence[TaskInfo]], Sequence[TaskInfo] | None]:
    """Names that candidate tasks are chosen by, last first; ``?`` abstains and ``-`` chooses nobody."""
    if names == "?":
        return lambda task, candidates: None
    return lambda task, candidates: [c for c in reversed(candidates) if c.name in names]


@pytest.mark.parametrize(
    ("tiers", "chosen"),
    [
        ([], ""),
        ([["?"]], ""),
        ([["abc"]], "abc"),  # in the order of the candidates, whatever a plugin's order
        ([["abc", "bcd"]], "bc"),
        ([["abc", "?", "cd"]], "c"),
        ([["?"], ["ab"]], "ab"),
        ([["ab"], ["cd"]], "ab"),  # the first tier with somebody decides
        ([["-"], ["cd"]], "cd"),  # a tier that names nobody lets the next one try
        ([["ab", "cd"], ["d"]], "d"),
        ([["ab", "cd", "abcd"]], ""),  # ours: an empty intersection is firm; upstream starts anew with abcd
        ([["ab", "cd", "abcd"], ["bd"]], "bd"),
        ([["-", "abcd"]], ""),
        ([["?", "?"], ["?"]], ""),
    ],
)
def test_victims_are_the_intersection_of_the_first_tier_that_leaves_any(tiers: list[list[str]], chosen: str) -> None:
    fns = [(number, chooser(names)) for number, tier in enumerate(tiers) for names in tier]

    found = dispatch.victims(fns, CANDIDATES[0], CANDIDATES)

    assert "".join(task.name for task in found) == chosen


def test_a_filter_of_victims_is_shown_all_candidates_and_not_what_others_left() -> None:
    shown: list[str] = []

    def note(task: TaskInfo, candidates: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        shown.append("".join(c.name for c in candidates))
        return candidates

    dispatch.victims([(0, chooser("ab")), (0, note), (1, note)], CANDIDATES[0], CANDIDATES)

    assert shown == ["abcd"]


@pytest.mark.parametrize(("answers", "counts"), [([], None), ([None], None), ([None, "b", "c"], "b")])
def test_the_first_refusal_counts(answers: list[str | None], counts: str | None) -> None:
    asked: list[Any] = []

    def fn(answer: str | None) -> Callable[[str], Verdict | None]:
        def ask(_: str) -> Verdict | None:
            asked.append(answer)
            return no(answer) if answer else None

        return ask

    found = dispatch.first_refusal([fn(answer) for answer in answers], "subject")

    assert (found and found.message) == counts
    assert asked == answers[: len(asked)]
    assert len(asked) <= 2


# -- what a session makes of registrations ---------------------------------------------------------------------------


def a_job() -> Any:
    return a_cluster().node("n1").queue("q").job("j", tasks=2, minimum=1, queue="q", cpu="1")


QUESTIONS: dict[str, tuple[str, Callable[[Session, bool], None], Callable[[Stage], bool]]] = {
    # extension point: (its switch, how to register a yes or a no, whether a session says yes)
    "prePredicate": (
        "enablePredicate",
        lambda r, yes: r.register(PrePredicate(lambda task: None if yes else no())),
        lambda g: g.session.rules.pre_refusal(g.task("j-0")) is None,
    ),
    "predicate": (
        "enablePredicate",
        lambda r, yes: r.register(Predicate(lambda task, node: None if yes else no())),
        lambda g: g.best("j-0") is not None,
    ),
    "not overused": (
        "enabledOverused",
        lambda r, yes: r.register(Overused(lambda queue: None if yes else no())),
        lambda g: g.session.rules.overused(g.queue("q")) is None,
    ),
    "allocatable": (
        "enabledAllocatable",
        lambda r, yes: r.register(Allocatable(lambda queue, task: None if yes else no())),
        lambda g: g.session.allocatable_refusal(g.queue("q"), g.task("j-0")) is None,
    ),
    "preemptive": (
        "enablePreemptive",
        lambda r, yes: r.register(Preemptive(lambda queue, tasks: yes)),
        lambda g: g.session.may_preempt(g.queue("q"), [g.task("j-0")]),
    ),
    "jobReady": (
        "enableJobReady",
        lambda r, yes: r.register(JobReady(lambda job: yes)),
        lambda g: g.session.rules.is_ready(g.cluster.jobs["default/j"]),
    ),
    "jobPipelined": (
        "enableJobPipelined",
        lambda r, yes: r.register(JobPipelined(lambda job: PERMIT if yes else Ballot(Vote.REJECT))),
        lambda g: g.session.rules.is_pipelined(g.cluster.jobs["default/j"]),
    ),
    "jobEnqueueable": (
        "enableJobEnqueued",
        lambda r, yes: r.register(JobEnqueueable(lambda job: PERMIT if yes else Ballot(Vote.REJECT), always=True)),
        lambda g: g.session.rules.enqueue_refusal(g.cluster.jobs["default/j"]) is None,
    ),
}


@pytest.mark.parametrize("point", QUESTIONS)
def test_permissions_are_granted_by_all_plugins_together_and_by_nobody_too(point: str) -> None:
    switch, register, says_yes = QUESTIONS[point]

    def stage(*answers: bool, switches: dict[str, bool] | None = None) -> bool:
        plugs = [Plug(lambda s, yes=yes: register(s, yes), switches=switches or {}) for yes in answers]
        return says_yes(Stage(a_job(), *plugs))

    assert stage()
    assert stage(True, True)
    assert not stage(True, False)
    assert not stage(False, True)
    assert stage(False, switches={switch: False}), "a plugin that is switched off at this point has no say"


def test_nobody_starves_when_nobody_says_so() -> None:
    stage = Stage(a_job())
    hungry = Stage(a_job(), lambda r: r.register(JobStarving(lambda job: True)))
    switched_off = Stage(
        a_job(), Plug(lambda r: r.register(JobStarving(lambda job: True)), switches={"enableJobStarving": False})
    )

    starving = [g.session.rules.is_starving(g.cluster.jobs["default/j"]) for g in (stage, hungry, switched_off)]

    assert starving == [False, True, False]


def test_validity_has_no_switch() -> None:
    every_switch_off = dict.fromkeys(SWITCHES, False)
    stage = Stage(
        a_job(), Plug(lambda r: r.register(JobValid(lambda job: no("incomplete"))), switches=every_switch_off)
    )

    refusal = stage.session.rules.invalidity(stage.cluster.jobs["default/j"])

    assert refusal is not None
    assert refusal.message == "incomplete"


def test_every_plugin_hears_of_an_admission_and_the_phase_follows() -> None:
    heard: list[str] = []
    stage = Stage(
        a_cluster().group("g", phase="Pending"),
        lambda r: r.register(JobEnqueued(lambda job: heard.append(f"a {job.name}"))),
        lambda r: r.register(JobEnqueued(lambda job: heard.append(f"b {job.name}"))),
    )
    job = stage.cluster.jobs["default/g"]

    stage.session.enqueued(job)

    assert (heard, job.phase) == (["a g", "b g"], "Inqueue")


def test_a_reject_without_a_verdict_is_explained_all_the_same() -> None:
    stage = Stage(a_job(), lambda r: r.register(JobEnqueueable(lambda job: Ballot(Vote.REJECT), always=True)))

    refusal = stage.session.rules.enqueue_refusal(stage.cluster.jobs["default/j"])

    assert refusal is dispatch.UNEXPLAINED_REJECT


def test_scores_are_summed_and_the_first_plugin_that_names_a_node_chooses() -> None:
    three = a_cluster().node("a").node("b").node("c").job("j", cpu="1")
    scores = {"a": 1.0, "b": 3.0, "c": 2.0}

    def by(table: dict[str, float]) -> Callable[[Session], None]:
        return lambda r: r.register(NodeOrder(lambda task, node: table[node.name]))

    def choose(name: str | None) -> Callable[[Session], None]:
        return lambda r: r.register(BestNode(lambda task, totals: name))

    def best(*plugs: Callable[[Session], None]) -> str | None:
        return Stage(three, *plugs).best("j-0")

    assert best() == "a", "equal scores fall to the first name"
    assert best(by(scores)) == "b"
    assert best(by(scores), by({"a": 0.0, "b": 0.0, "c": 1.5})) == "c"
    assert best(by(scores), choose("c"), choose("a")) == "c"
    assert best(by(scores), choose(None), choose("a")) == "a"
    assert best(by(scores), choose("elsewhere")) == "b", "only a node that was offered can be chosen"
    assert best(by(scores), lambda r: r.register(BatchNodeOrder(lambda task, nodes: [5.0, 0.0, 0.0]))) == "a"


def test_the_chooser_is_shown_the_sums() -> None:
    shown: list[dict[str, float]] = []
    stage = Stage(
        a_cluster().node("a").node("b").node("tiny", cpu="0").job("j", cpu="1"),
        lambda r: r.register(NodeOrder(lambda task, node: 1.5)),
        lambda r: r.register(BatchNodeOrder(lambda task, nodes: [10.0 * i for i, _ in enumerate(nodes)])),
        lambda r: r.register(BestNode(lambda task, totals: shown.append(dict(totals)))),
    )

    assert stage.best("j-0") == "b"
    assert shown == [{"a": 1.5, "b": 11.5}]
