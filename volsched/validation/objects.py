"""All problems of a set of objects: what every kind must keep to, then the rules of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from volsched.model import api
from volsched.validation.jobs import group_faults, job_faults
from volsched.validation.pods import not_below_zero, pod_faults
from volsched.validation.problems import Faults, Problem, under
from volsched.validation.quantities import quantity_faults
from volsched.validation.queues import children_faults, queue_faults
from volsched.validation.states import state_faults

Queues = Mapping[str, api.Queue]


def problems_of(objects: Sequence[api.ApiObject], subject_of: Callable[[api.ApiObject], str]) -> Iterator[Problem]:
    """Yield every problem, in the order of the objects; objects are judged beside each other."""
    queues = {found.metadata.name: found for found in objects if isinstance(found, api.Queue)}
    for found in objects:
        said: set[tuple[str, str]] = set()
        for fault in faults_of(found, queues):
            if (fault.field, fault.message) not in said:
                said.add((fault.field, fault.message))
                yield fault.of(subject_of(found))


def faults_of(found: api.ApiObject, queues: Queues) -> Faults:
    """Yield what is wrong with one object, beside the queues that there are."""
    yield from state_faults(found)
    yield from quantity_faults(found)
    rules = _RULES.get(type(found))
    if rules is not None:
        yield from rules(found, queues)


def _queue(queue: api.Queue, queues: Queues) -> Faults:
    yield from queue_faults(queue, queues)
    yield from children_faults(queue, queues)


def _pod(pod: api.Pod, _: Queues) -> Faults:
    yield from under("spec", pod_faults(pod.spec, pod.metadata))


def _workload(found: Any, _: Queues) -> Faults:
    yield from not_below_zero("spec.replicas", getattr(found.spec, "replicas", None))
    yield from not_below_zero("spec.parallelism", getattr(found.spec, "parallelism", None))
    yield from not_below_zero("spec.completions", getattr(found.spec, "completions", None))
    template = found.spec.template
    yield from under("spec.template.spec", pod_faults(template.spec, template.metadata))


_RULES: Final[Mapping[type[api.ApiObject], Callable[[Any, Queues], Faults]]] = {
    api.Queue: _queue,
    api.PodGroup: group_faults,
    api.Job: job_faults,
    api.Pod: _pod,
    api.Deployment: _workload,
    api.ReplicaSet: _workload,
    api.StatefulSet: _workload,
    api.DaemonSet: _workload,
    api.BatchJob: _workload,
}
