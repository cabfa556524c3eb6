"""All problems of a set of objects: common rules, the rules of each kind, then those of plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from volsched import registry
from volsched.controllers.grouping import DEFAULT_QUEUE
from volsched.controllers.objects import GivenJob
from volsched.framework.validation import FORBIDDEN, INVALID, WORKLOADS, ArgumentsOf, Fault, Faults, Surroundings, under
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.budget import pods_stated
from volsched.model.errors import FieldError
from volsched.model.selectors import LabelSelector
from volsched.validation import native_groups, permissions
from volsched.validation.annotations import annotation_faults
from volsched.validation.configuration import config_map_faults
from volsched.validation.deadlocks import deadlock_faults
from volsched.validation.jobs import group_faults, job_faults
from volsched.validation.pods import RESTART_POLICIES, not_below_zero, pod_faults
from volsched.validation.problems import Problem
from volsched.validation.quantities import quantity_faults
from volsched.validation.queues import children_faults, queue_faults
from volsched.validation.states import one_of, state_faults
from volsched.validation.unserved import ignored_faults, unserved_faults


def read_object(raw: Mapping[str, Any]) -> api.ApiObject:
    """Return the struct of an object as it was read. Raises ObjectError.

    The kinds are those of ``api.KINDS`` and ``native_groups.KINDS``. The CRD of Volcano Jobs lets templates
    hold anything. So of a Job it is also looked whether pods can be made of it.
    """
    of_kubernetes = native.KINDS.get((str(raw.get("apiVersion")), str(raw.get("kind"))))
    if of_kubernetes is not None:
        return api.decode_as(of_kubernetes, raw)
    found = api.decode_object(raw)
    if isinstance(found, api.Job):
        api.decode_as(GivenJob, raw)
    return found


def problems_of(
    objects: Sequence[api.ApiObject],
    subject_of: Callable[[api.ApiObject], str],
    arguments_of: ArgumentsOf | None = None,
    scheduler_names: Collection[str] | None = None,
) -> Iterator[Problem]:
    """Yield every problem, in the order of the objects. Objects are judged beside each other.

    ``arguments_of``: those of plugins, by the configuration in force, as far as it is known; ``scheduler_names``:
    whose pods volsched places.
    Raises ConfigError when the validator of an installed distribution cannot be loaded.
    """
    beside = Surroundings(objects, arguments_of, scheduler_names)
    for found in objects:
        seen: set[tuple[str, str]] = set()
        for fault in faults_of(found, beside):
            if (fault.field, fault.message) not in seen:
                seen.add((fault.field, fault.message))
                yield Problem.of(subject_of(found), fault)


def faults_of(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield the faults of one object, beside the others; ConfigError as above.

    Every installed plugin checks its own annotations and fields, also without a configuration that names it: they are
    meant for it.
    """
    yield from state_faults(found)
    yield from quantity_faults(found)
    yield from annotation_faults(found)
    yield from unserved_faults(found, beside)
    yield from ignored_faults(found)
    yield from deadlock_faults(found, beside)
    yield from permissions.pod_faults(found, beside)
    yield from native_groups.member_faults(found, beside)
    yield from kind_faults(found, beside)
    for validate in registry.validators():
        yield from validate(found, beside)


def kind_faults(found: api.ApiObject, beside: Surroundings) -> Faults:
    """Yield violations of the rules of an object's kind: of pods and workloads those of the API server."""
    rules = _RULES.get(type(found))
    if rules is not None:
        yield from rules(found, beside)


def _queue(queue: api.Queue, beside: Surroundings) -> Faults:
    yield from permissions.annotation_faults(queue)
    yield from queue_faults(queue, beside.queues)
    yield from children_faults(queue, beside.queues)


def _group(group: api.PodGroup, beside: Surroundings) -> Faults:
    yield from group_faults(group, beside.queues)
    queue = group.spec.queue or DEFAULT_QUEUE
    yield from permissions.use_faults("spec.queue", group.metadata.namespace, queue, beside)


def _faults_of_job(job: api.Job, beside: Surroundings) -> Faults:
    yield from job_faults(job, beside.queues)
    queue = permissions.queue_of_job(job, beside)
    yield from permissions.use_faults("spec.queue", job.metadata.namespace, queue, beside)


def _budget(budget: api.PodDisruptionBudget, _: Surroundings) -> Faults:
    spec = budget.spec
    if spec.min_available is not None and spec.max_unavailable is not None:
        yield Fault("spec.minAvailable", FORBIDDEN, "stands beside maxUnavailable; a budget has one of the two")
    for field, stated in (("minAvailable", spec.min_available), ("maxUnavailable", spec.max_unavailable)):
        if stated is not None and pods_stated(stated, 0) is None:
            message = f"{stated!r} is neither a number of pods nor a percentage of them, as 50%"
            yield Fault(f"spec.{field}", INVALID, message)


def _config_map(found: api.ConfigMap, beside: Surroundings) -> Faults:
    return config_map_faults(found, beside.of(api.Queue))


def _pod(pod: api.Pod, _: Surroundings) -> Faults:
    return under("spec", pod_faults(pod.spec, pod.metadata))


def _workload(found: Any, _: Surroundings) -> Faults:
    yield from not_below_zero("spec.replicas", getattr(found.spec, "replicas", None))
    yield from not_below_zero("spec.parallelism", getattr(found.spec, "parallelism", None))
    yield from not_below_zero("spec.completions", getattr(found.spec, "completions", None))
    template = found.spec.template
    may = ("OnFailure", "Never") if isinstance(found, api.BatchJob) else ("Always",)
    if template.spec.restart_policy in RESTART_POLICIES:
        yield from one_of("spec.template.spec.restartPolicy", template.spec.restart_policy, may)
    yield from _selector_faults(getattr(found.spec, "selector", None), template.metadata.labels)
    yield from under("spec.template.spec", pod_faults(template.spec, template.metadata))


def _selector_faults(selector: api.LabelSelector | None, labels: Mapping[str, str]) -> Faults:
    """Yield a fault if a workload's selector cannot be read, or does not select its pods."""
    if selector is None:
        return
    try:
        selects = LabelSelector.parse(selector, "spec.selector").matches(labels)
    except FieldError as error:
        yield Fault(error.path, INVALID, error.message)
        return
    if not selects:
        yield Fault("spec.selector", INVALID, "does not select the labels of spec.template.metadata, as it has to")


_RULES: Final[Mapping[type[api.ApiObject], Callable[[Any, Surroundings], Faults]]] = {
    api.ConfigMap: _config_map,
    api.PodDisruptionBudget: _budget,
    api.Queue: _queue,
    api.PodGroup: _group,
    api.Job: _faults_of_job,
    api.Pod: _pod,
    **dict.fromkeys(native.VERSIONS.values(), native_groups.group_faults),
    native.Workload: native_groups.queue_faults,
    **dict.fromkeys(WORKLOADS, _workload),
}
