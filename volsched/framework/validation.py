"""What is wrong with an object, and the contract by which plugins report it before anybody schedules it.

A plugin that reads fields or annotations of its own publishes a ``Validator``: a pure function from an object, and the
objects beside it, to faults. ``volsched validate`` asks all validators, and so does admission; the scheduler does not
depend on either and reads everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from volsched.model import api

Severity: TypeAlias = Literal["error", "warning"]

WRONG_TYPE: Final = "WrongType"
INVALID: Final = "Invalid"
REQUIRED: Final = "Required"
DUPLICATE: Final = "Duplicate"
NOT_SUPPORTED: Final = "NotSupported"
NOT_FOUND: Final = "NotFound"
FORBIDDEN: Final = "Forbidden"
UNKNOWN_KIND: Final = "UnknownKind"
QUEUE_NOT_ALLOWED: Final = "QueueNotAllowed"

WORKLOADS: Final = (api.Deployment, api.ReplicaSet, api.StatefulSet, api.DaemonSet, api.BatchJob)
"""Kinds that make pods of one template."""

T = TypeVar("T")
Object = TypeVar("Object", bound=api.ApiObject)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with one field of an object: an error refuses the object, a warning stops nobody.

    ``field`` is a path in the object, ``code`` one word for programs; ``message`` follows the field in a sentence and
    states the way out.
    """

    field: str
    code: str
    message: str
    severity: Severity = "error"


Faults: TypeAlias = Iterator[Fault]


def under(prefix: str, faults: Iterable[Fault]) -> Faults:
    """Put a prefix before the field of each fault."""
    for fault in faults:
        yield replace(fault, field=f"{prefix}.{fault.field}" if fault.field else prefix)


def warning(field: str, code: str, message: str) -> Fault:
    """Return a fault that stops nobody."""
    return Fault(field, code, message, "warning")


ArgumentsOf: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""The checked arguments of a plugin by its name; None when it is not configured."""


class Surroundings:
    """The objects beside which one is judged: those of the same input, or those that are in the cluster.

    Nothing can be stated from the absence of an object: the input of ``volsched validate`` may be a single one.
    """

    def __init__(
        self,
        objects: Iterable[api.ApiObject] = (),
        arguments_of: ArgumentsOf | None = None,
        scheduler_names: Collection[str] | None = None,
    ) -> None:
        """``arguments_of`` is None where no configuration is known, ``scheduler_names`` where nobody stated them."""
        self.arguments_of = arguments_of
        self.scheduler_names = scheduler_names
        self._by_kind: dict[type[api.ApiObject], list[api.ApiObject]] = {}
        self._derived: dict[Callable[[Surroundings], Any], Any] = {}
        for found in objects:
            self._by_kind.setdefault(type(found), []).append(found)

    def of(self, kind: type[Object]) -> Sequence[Object]:
        """Return the objects of one kind."""
        return cast("Sequence[Object]", self._by_kind.get(kind, ()))

    @cached_property
    def namespaces(self) -> Mapping[str, api.Namespace]:
        """The namespaces, by name."""
        return {found.metadata.name: found for found in self.of(api.Namespace)}

    @cached_property
    def queues(self) -> Mapping[str, api.Queue]:
        """The queues, by name."""
        return {found.metadata.name: found for found in self.of(api.Queue)}

    def places(self, found: api.ApiObject) -> bool:
        """Whether volsched places the pods that an object is or makes, as far as that is known.

        A Volcano Job that names no scheduler is ours, as admission and controllers have it.
        """
        if self.scheduler_names is None:
            return True
        if isinstance(found, api.Job):
            return not found.spec.scheduler_name or found.spec.scheduler_name in self.scheduler_names
        return all((pod.spec.scheduler_name or api.DEFAULT_SCHEDULER) in self.scheduler_names for pod in pods_in(found))

    def derived(self, make: Callable[[Surroundings], T]) -> T:
        """Return a function of these objects, worked out once however many objects are judged."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast("T", self._derived[make])


Validator: TypeAlias = Callable[[api.ApiObject, Surroundings], Iterable[Fault]]
"""Finds what is wrong with an object of any kind, nothing for kinds that are not its business.

The object itself may be among those beside it. Raises nothing, whatever users wrote."""


class PodIn(NamedTuple):
    """A pod, or the template of pods, inside an object; ``prefix`` is the path to it, with a dot at its end."""

    prefix: str
    metadata: api.ObjectMeta
    spec: api.PodSpec

    def under(self, faults: Iterable[Fault]) -> Faults:
        """Return faults of the pod as faults of the object that it is in."""
        return (replace(fault, field=self.prefix + fault.field) for fault in faults)


def pods_in(found: api.ApiObject) -> Iterator[PodIn]:
    """Yield the pods that an object is or makes: those of a Pod, a workload, or a Volcano Job's tasks."""
    if isinstance(found, api.Pod):
        yield PodIn("", found.metadata, found.spec)
    elif isinstance(found, api.Job):
        for number, task in enumerate(found.spec.tasks):
            yield PodIn(f"spec.tasks[{number}].template.", task.template.metadata, task.template.spec)
    elif isinstance(found, WORKLOADS):
        yield PodIn("spec.template.", found.spec.template.metadata, found.spec.template.spec)
