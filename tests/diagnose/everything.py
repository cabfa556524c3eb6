"""Every question that may be asked about a cluster, and what holds of every answer."""

from __future__ import annotations

from collections.abc import Iterator

from volsched.cli.views.explanation import page
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.explain import AskedAbout, explain, find
from volsched.diagnose.options import Option
from volsched.diagnose.records import Explanation, Subject
from volsched.diagnose.searches import SEARCHES
from volsched.diagnose.what_if import WhatIf
from volsched.model.pods.owners import controller_of
from volsched.simulation.runner import Simulation, Stage
from volsched.text_page import plain

NOT_LOOKED_AT = "NotConsidered"
"""The reason of a pod at which no action has looked: no cause, unless the configuration has no such action."""


def answers(known: ClusterSnapshot, cycles: int) -> Iterator[Explanation]:
    """Yield the explanation of each pod, PodGroup, Job and queue.

    Raises whatever goes wrong on the way, AssertionError where an answer that it waits does not name the cause.
    """
    run = known.stage(cycles).run()
    for subject in questions(run):
        said = explain(run, subject, nodes=True)
        assert plain(page(said), 100)
        if said.state == "waits":
            _check_names_cause(run, said)
        yield said


def make_each_change(known: ClusterSnapshot, cycles: int) -> int:
    """Make each change that is tried for the first pod that waits, as far as it may go and in a cluster of its own.

    Returns how many there are. Advice makes them in copies of its process, in which a fault is only counted.
    """
    found = next(_waiting(known.stage(cycles)), None)
    number = len(list(_options(*found))) if found is not None else 0
    for place in range(number):
        stage = known.stage(cycles)
        of_job = next(_waiting(stage))
        option = list(_options(*of_job))[place]
        option.change(option.most)(stage.simulation)
        stage.simulation.settled = False
        stage.run(more=1)
        option.help(option.most)
    return number


def _waiting(stage: Stage) -> Iterator[tuple[Stage, AskedAbout]]:
    run = stage.run()
    for subject in questions(run):
        if subject.kind == "pod" and explain(run, subject).state == "waits":
            yield stage, find(run, subject)


def _options(stage: Stage, found: AskedAbout) -> Iterator[Option]:
    what_if = WhatIf(stage, found, lambda: 0.0)
    return (option for search in SEARCHES.values() for option in search(what_if))


def questions(run: Simulation) -> Iterator[Subject]:
    """Yield all that may be asked about."""
    cluster, world = run.mirror.cluster, run.api_server
    for task in cluster.tasks.values():
        if task.spec.is_managed:
            yield Subject("pod", task.name, task.namespace)
    for job in cluster.jobs.values():
        yield Subject("podgroup", job.name, job.namespace)
    owners = [(controller_of(group.metadata), group.metadata.namespace) for group in world.groups.values()]
    for owner, namespace in owners:
        if owner is not None and owner.kind == "Job":
            yield Subject("job", owner.name, namespace)
    for queue in cluster.queues:
        yield Subject("queue", queue)


def _check_names_cause(run: Simulation, said: Explanation) -> None:
    actions = run.profile.configuration.actions
    assert said.step, said
    assert said.reason, said
    assert said.message, said
    assert said.reason != NOT_LOOKED_AT or not {"allocate", "backfill"} <= set(actions), said
    if said.queue and said.queue not in run.mirror.cluster.queues:
        assert said.queue in said.message, said
