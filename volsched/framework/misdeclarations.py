"""Checks of a rule by itself, made when it is registered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final, get_args, get_origin

from volsched.framework.rules import EventHandler, NodeRule, Predicate, Rule
from volsched.framework.signature import Signature, SignatureError, called, name_of
from volsched.model.observers import Observer

_NO_END: Final = 1 << 10


def check_rule(plugin: str, rule: object) -> Rule:
    """Return what was registered if it is a rule whose callbacks can be called. Raises SignatureError."""
    if not isinstance(rule, Rule):
        given = rule.__name__ if isinstance(rule, type) else f"of type {type(rule).__name__}"
        raise SignatureError(
            f"plugin {plugin}: register() takes rules, as register(NodeOrder(fn), ...); this is {given}"
        )
    if isinstance(rule, NodeRule):
        _check_key(plugin, rule)
    if isinstance(rule, EventHandler):
        _check_handler(plugin, rule)
    for name, arguments in _callbacks(type(rule)):
        given = getattr(rule, name)
        for fn in given.values() if isinstance(given, Mapping) else (given,):
            if fn is not None:
                _check_callable(plugin, rule, name, fn, arguments)
    return rule


def check_accounts(plugin: str, rule: NodeRule, signature: Signature) -> None:
    """Refuse a callback whose answers are shared although it reads an account of the cluster. Raises SignatureError.

    A callback that is given the whole node may read an account of that node: it is asked again after each change there.
    """
    if (
        rule.key is None
        and signature.pod != "task"
        and signature.node != "node"
        and any(isinstance(each, Observer) for each in _held(rule.fn))
    ):
        raise SignatureError(
            f"plugin {plugin}: {name_of(rule.fn)} reads an account that changes when pods move; give it a key= and a "
            "version=, or annotate the pod as TaskInfo, so that it is asked for every pod"
        )


def _held(fn: Any) -> Iterator[object]:
    """Yield the objects that a callable is bound to, or got from an enclosing function."""
    if isinstance(fn, partial):
        yield from (*fn.args, *fn.keywords.values())
        fn = fn.func
    yield getattr(fn, "__self__", None)
    for cell in getattr(fn, "__closure__", None) or ():
        yield cell.cell_contents


@cache
def _callbacks(kind: type[Rule]) -> tuple[tuple[str, int | None], ...]:
    """Return the fields of a rule that are functions, each with the number of its arguments."""
    found = []
    hints = {name: hint for base in reversed(kind.__mro__) for name, hint in _own_hints(base).items()}
    for name in kind.__struct_fields__:
        for form in (hints[name], *get_args(hints[name])):
            if get_origin(form) is _CALLABLE:
                arguments = get_args(form)[0]
                found.append((name, None if arguments is Ellipsis else len(arguments)))
                break
    return tuple(found)


@cache
def _own_hints(kind: type) -> dict[str, Any]:
    """Return what a class itself annotates. Bases that many rules share are evaluated once."""
    if not issubclass(kind, Rule):
        return {}
    from volsched.framework.dispatch.combining import ElasticQuota  # noqa: PLC0415 - plugins are imported without it

    return inspect.get_annotations(kind, eval_str=True, locals={"ElasticQuota": ElasticQuota})


_CALLABLE: Final = get_origin(Callable[[], None])


def _check_callable(plugin: str, rule: Rule, name: str, fn: Any, arguments: int | None) -> None:
    field = f"{name} of {type(rule).__name__}"
    if not callable(fn):
        raise SignatureError(f"plugin {plugin}: {field} is {fn!r}, and no function")
    function, bound = called(fn)
    code = getattr(function, "__code__", None)
    if code is None:
        return  # a builtin, or a class: it states nothing of its parameters
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise SignatureError(f"plugin {plugin}: {name_of(fn)} is async; rules are asked in the middle of a session")
    if arguments is None or isinstance(fn, partial):
        return
    least, most = _takes(function)
    if not least - bound <= arguments <= most - bound:
        raise SignatureError(f"plugin {plugin}: {name_of(fn)} is called with {_count(arguments)}, as {field}")


def _takes(function: Any) -> tuple[int, int]:
    """Return how many arguments a function takes, at least and at most."""
    code = function.__code__
    by_name = code.co_kwonlyargcount - len(function.__kwdefaults__ or ())
    least = code.co_argcount - len(function.__defaults__ or ()) + by_name
    return least, _NO_END if code.co_flags & inspect.CO_VARARGS else code.co_argcount


def _check_handler(plugin: str, rule: EventHandler) -> None:
    for name in ("allocate", "deallocate"):
        if not callable(getattr(rule.events, name, None)):
            raise SignatureError(
                f"plugin {plugin}: EventHandler takes an object with allocate(task) and deallocate(task); "
                f"{name_of(rule.events)} has no {name}"
            )


def _check_key(plugin: str, rule: NodeRule) -> None:
    """Refuse fields that make sense only with another field, if that is missing."""
    if rule.key is not None and (not isinstance(rule, Predicate) or rule.wordings is None):
        return
    pairs: list[tuple[str, bool, str, bool]] = [("version", rule.version is not None, "key", rule.key is not None)]
    pairs.append(("for_each_pod", rule.for_each_pod is not None, "key", rule.key is not None))
    if isinstance(rule, Predicate):
        pairs.append(("wordings", rule.wordings is not None, "vector", rule.vector is not None))
    for name, is_given, needed, is_there in pairs:
        if is_given and not is_there:
            raise SignatureError(f"plugin {plugin}: {name_of(rule.fn)} has {name}= without {needed}=")


def _count(arguments: int) -> str:
    return f"{arguments} argument{'' if arguments == 1 else 's'}"
