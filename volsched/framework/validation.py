"""Faults of objects, and the contract by which plugins report them before anything is scheduled.

A plugin that reads fields or annotations of its own publishes a ``Validator``: a pure function from an object, and the
objects beside it, to faults. ``volsched validate`` and admission ask all validators. The scheduler does not depend on
either and reads everything again.
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
    """One fault of one field of an object: an error refuses the object, a warning does not.

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
    """Return a warning."""
    return Fault(field, code, message, "warning")


ArgumentsOf: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""The checked arguments of a plugin by its name; None when it is not configured."""


class Surroundings:
    """The objects beside a checked object: those of the same input, or of the cluster.

    The absence of an object means nothing: the input of ``volsched validate`` may be a single object.
    """

    def __init__(
        self,
        objects: Iterable[api.ApiObject] = (),
        arguments_of: ArgumentsOf | None = None,
        scheduler_names: Collection[str] | None = None,
    ) -> None:
        """``arguments_of`` is None without a configuration, ``scheduler_names`` if they are not known."""
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
        """Return the namespaces, by name."""
        return {found.metadata.name: found for found in self.of(api.Namespace)}

    @cached_property
    def queues(self) -> Mapping[str, api.Queue]:
        """Return the queues, by name."""
        return {found.metadata.name: found for found in self.of(api.Queue)}

    def places(self, found: api.ApiObject) -> bool:
        """True if volsched places the pods of an object, as far as that is known.

        It places those of a Volcano Job without a scheduler name, as admission and controllers assume, too.
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
"""Return the faults of an object; none for other kinds.

The object itself may be among those beside it. It raises nothing, whatever users wrote.
"""


class PodIn(NamedTuple):
    """A pod, or the template of pods, inside an object. ``prefix`` is the path to it, with a dot at its end."""

    prefix: str
    metadata: api.ObjectMeta
    spec: api.PodSpec

    def under(self, faults: Iterable[Fault]) -> Faults:
        """Return faults of the pod as faults of the object that it is in."""
        return (replace(fault, field=self.prefix + fault.field) for fault in faults)


def pods_in(found: api.ApiObject) -> Iterator[PodIn]:
    """Yield the pods of an object: a Pod, or those that a workload or the tasks of a Volcano Job make."""
    if isinstance(found, api.Pod):
        yield PodIn("", found.metadata, found.spec)
    elif isinstance(found, api.Job):
        for number, task in enumerate(found.spec.tasks):
            yield PodIn(f"spec.tasks[{number}].template.", task.template.metadata, task.template.spec)
    elif isinstance(found, WORKLOADS):
        yield PodIn("spec.template.", found.spec.template.metadata, found.spec.template.spec)
