"""The type annotations of a callback declare which parts of a pod and a node it reads.

A callback gets only the parts that it names, so the engine knows how long an answer holds:

======================  ===============================================================================================
``PodRequest``          the amounts that a pod requests; pods with equal requests share the answer
``PodConstraints``      the rules of a pod about properties of nodes; pods with equal rules share the answer
``PodTemplate``         everything that equal pods share; they share the answer
``TaskInfo``            this very pod; also without an annotation; asked for each pod
``NodePropertiesView``  properties of the node: labels, taints, allocatable; asked again when they change
``NodeAmounts``         allocatable and used amounts of the node; asked once for nodes with equal amounts
``NodeInfo``            everything, its tasks too; also without an annotation; asked again after each change
======================  ===============================================================================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from volsched.framework.columns.views import NodePropertiesView, NodeTable
from volsched.model.errors import VolschedError
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodConstraints, PodRequest, PodTemplate
from volsched.model.queues.queue import QueueInfo
from volsched.model.values.bounded import Bounded

__all__ = [
    "UNTYPED",
    "NodeAmounts",
    "NodeInfo",
    "NodePropertiesView",
    "NodeTable",
    "PodConstraints",
    "PodRequest",
    "PodTemplate",
    "Signature",
    "SignatureError",
    "TaskInfo",
    "called",
    "is_of_queue",
    "name_of",
    "signature_of",
    "slower_without_types",
]

T = TypeVar("T")

PodPart: TypeAlias = Literal["request", "constraints", "template", "task"]
NodePart: TypeAlias = Literal["properties", "amounts", "node"]

_PODS: Final[dict[type, PodPart]] = {
    PodRequest: "request",
    PodConstraints: "constraints",
    PodTemplate: "template",
    TaskInfo: "task",
}
_NODES: Final[dict[type, NodePart]] = {NodePropertiesView: "properties", NodeAmounts: "amounts", NodeInfo: "node"}
_FORMER: Final = {"NodeFacts": "NodePropertiesView"}
"""Names of one minor version ago, in the texts of annotations."""
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ABOUT_A_NODE: Final = 2
"""Parameters of a callback about a pod and a node."""


class SignatureError(VolschedError):
    """A callback was registered that cannot be asked: the message states what is wrong and the way out."""


class Signature(NamedTuple):
    """What a callback is given of a pod, and of a node; ``is_typed``: whether by an annotation."""

    pod: PodPart
    node: NodePart
    is_typed: bool


UNTYPED: Final = Signature("task", "node", is_typed=False)
"""What a callback is given that declares nothing."""


def slower_without_types(plugin: str, fn: Callable[..., object]) -> str:
    """Return what makes a callback faster that is asked for every pod."""
    return (
        f"plugin {plugin}: {name_of(fn)} is asked for every pod and node, as it may read all of both; annotate its "
        "parameters, for example (template: PodTemplate, node: NodePropertiesView), and equal pods and nodes share its "
        "answers"
    )


class _Parameter(NamedTuple):
    name: str
    annotation: Any
    """A class, or the text of an annotation that could not be evaluated; None when there is none."""


_KNOWN: Final[Bounded[tuple[Any, ...], Any]] = Bounded(4_096)


def signature_of(plugin: str, fn: Callable[..., object]) -> Signature:
    """Read what a callback about a pod and a node is given. Raises SignatureError."""
    return _remembered(_signature, plugin, fn)


def is_of_queue(plugin: str, key: Callable[..., object]) -> bool:
    """Return whether a key is made of a template and a queue, and not of a task. Raises SignatureError."""
    return _remembered(_takes_queue, plugin, key)


def _remembered(read: Callable[[str, Any, tuple[_Parameter, ...]], T], plugin: str, fn: Callable[..., object]) -> T:
    """Return what is read from the parameters that a caller has to give.

    It is remembered by the code of the function: plugins register in every session, and make lambdas again for it.
    """
    function, bound = called(fn)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        raise _wrong(plugin, fn, "is no function or method, so that nobody can tell what it reads")
    given = bound + (len(fn.args) if isinstance(fn, partial) else 0)
    key = (read, code, given, *(getattr(function, "__annotations__", None) or {}).items())
    found: T | None = _KNOWN.recall(key)
    if found is None:
        found = _KNOWN[key] = read(plugin, fn, _parameters_of(function)[given:])
    return found


def _signature(plugin: str, fn: Callable[..., object], parameters: tuple[_Parameter, ...]) -> Signature:
    if len(parameters) != _ABOUT_A_NODE:
        raise _wrong(plugin, fn, f"takes {len(parameters)} arguments; it is called with a pod and a node")
    pod = _view(plugin, fn, parameters[0], _PODS)
    node = _view(plugin, fn, parameters[1], _NODES)
    return Signature(pod or "task", node or "node", pod is not None)


def _takes_queue(plugin: str, key: Callable[..., object], parameters: tuple[_Parameter, ...]) -> bool:
    if len(parameters) == 1:
        return False
    names = [_class_named(parameter, (PodTemplate, QueueInfo)) for parameter in parameters]
    if names != [PodTemplate, QueueInfo]:
        raise _wrong(plugin, key, "must take (task), or (template: PodTemplate, queue: QueueInfo)")
    return True


def _view(plugin: str, fn: Callable[..., object], parameter: _Parameter, views: dict[type, Any]) -> Any:
    """Return the word for what an annotation names, None when there is no annotation."""
    if parameter.annotation in (None, Any, object, "Any", "object"):
        return None
    found = _class_named(parameter, tuple(views))
    if found is None:
        names = [view.__name__ for view in views]
        annotation = getattr(parameter.annotation, "__name__", parameter.annotation)
        raise _wrong(
            plugin, fn, f"annotates {parameter.name} as {annotation}; it may be {', '.join(names[:-1])} or {names[-1]}"
        )
    return views[found]


def _class_named(parameter: _Parameter, classes: tuple[type, ...]) -> type | None:
    annotation = parameter.annotation
    text = annotation.rpartition(".")[2] if isinstance(annotation, str) else ""
    text = _FORMER.get(text, text)
    return next((known for known in classes if annotation is known or text == known.__name__), None)


def called(fn: Callable[..., object]) -> tuple[Any, int]:
    """Return the plain function behind a callable, and how many of its arguments are bound."""
    if isinstance(fn, MethodType) and not hasattr(fn, "__wrapped__"):  # most are
        return fn.__func__, 1
    if isinstance(fn, FunctionType) and not hasattr(fn, "__wrapped__"):
        return fn, 0
    if isinstance(fn, partial):
        return called(fn.func)
    fn = inspect.unwrap(fn)
    method = fn if inspect.isfunction(fn) or inspect.ismethod(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - wanted
    if inspect.ismethod(method):
        return method.__func__, 1
    return method, 0


def _parameters_of(function: Any) -> tuple[_Parameter, ...]:
    """Return positional parameters without a default, each with the class that its annotation names."""
    annotations = getattr(function, "__annotations__", None) or {}
    return tuple(
        _Parameter(parameter.name, _evaluated(annotations.get(parameter.name), function))
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in _POSITIONAL and parameter.default is parameter.empty
    )


def _evaluated(annotation: Any, function: Any) -> Any:
    """Look an annotation up that is a text, as with ``from __future__ import annotations``."""
    if not isinstance(annotation, str):
        return annotation
    found: Any = function.__globals__.get(annotation.split(".")[0])
    for name in annotation.split(".")[1:]:
        found = getattr(found, name, None)
    return annotation.strip("'\"") if found is None else found


def name_of(thing: object) -> str:
    """Return what a function is called where it is defined; of anything else, what it is."""
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else repr(thing)


def _wrong(plugin: str, fn: Callable[..., object], what: str) -> SignatureError:
    return SignatureError(f"plugin {plugin}: {name_of(fn)} {what}")
