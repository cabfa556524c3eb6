"""What jobs are charged for, in any dimensions, and the sums of their queues and of those above."""

from __future__ import annotations

from volsched.model.job import JobInfo
from volsched.quota.usage import JobCharges

CPU, CARD = "cpu", ("A100",)
Dimension = str | tuple[str, ...]


def two_levels() -> tuple[JobCharges[Dimension], dict[str, str]]:
    """Charges of queues that are below those of a table, which may change."""
    above = {"q": "org", "p": "org"}
    return JobCharges(lambda queue: (queue, above[queue]) if queue in above else (queue,)), above


def a_job(name: str, queue: str) -> JobInfo:
    job = JobInfo("default", name)
    job.queue = queue
    return job


def test_what_a_job_is_charged_for_counts_in_its_queue_and_in_those_above() -> None:
    charges, _ = two_levels()

    charges.charge(a_job("a", "q"), {CPU: 2, CARD: 1}, 3)
    charges.charge(a_job("b", "p"), {CPU: 1}, 1)

    assert charges.own.of("q") == {CPU: 6, CARD: 3}
    assert charges.with_below.of("org") == {CPU: 7, CARD: 3}
    assert charges.own.of("org") == {}


def test_what_is_taken_back_leaves_no_zeros() -> None:
    charges, _ = two_levels()
    job = a_job("a", "q")

    charges.charge(job, {CPU: 2, CARD: 1}, 1)
    charges.charge(job, {CPU: 2}, -1)

    assert charges.of(job) == charges.with_below.of("org") == {CARD: 1}


def test_a_job_that_moves_takes_its_charges_along_and_one_that_is_gone_is_forgotten() -> None:
    charges, _ = two_levels()
    charges.charge(a_job("a", "q"), {CPU: 2}, 1)

    charges.follow(a_job("a", "p"), gone=False)

    assert (charges.own.of("q"), charges.own.of("p"), charges.with_below.of("org")) == ({}, {CPU: 2}, {CPU: 2})
    charges.follow(a_job("a", "p"), gone=True)
    assert charges.of(a_job("a", "p")) == {}


def test_sums_are_added_up_again_when_a_queue_is_below_another_one() -> None:
    charges, above = two_levels()
    charges.charge(a_job("a", "q"), {CPU: 2}, 1)
    before = charges.with_below.version_of("org")

    above["q"] = "other"
    charges.add_up_again()

    assert (charges.with_below.of("org"), charges.with_below.of("other")) == ({}, {CPU: 2})
    assert charges.with_below.version_of("org") != before, "answers that were kept for it do not hold any more"


def test_without_levels_there_is_one_sum() -> None:
    charges = JobCharges[Dimension]()
    job = a_job("a", "q")

    charges.charge(job, {CPU: 2}, 1)

    assert charges.with_below.of("q") == charges.own.of("q") == {CPU: 2}
    version = charges.own.version_of("q")
    charges.add_up_again()
    assert charges.own.version_of("q") == version


def test_a_job_is_known_until_it_is_dropped_also_with_nothing() -> None:
    charges, _ = two_levels()
    job = a_job("a", "q")
    charges.charge(job, {CPU: 2}, 1)
    charges.charge(job, {CPU: 2}, -1)
    assert charges.knows(job)

    charges.charge(job, {CARD: 1}, 1)
    assert charges.drop(job.key) == "q"

    assert not charges.knows(job)
    assert charges.with_below.of("org") == {}
    assert charges.drop(job.key) == ""
