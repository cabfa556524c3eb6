"""The namespaces that may use a queue, from its annotation: by name, or by label.

Administrators label namespaces, as they make Queues. The annotation is meant to keep others out, so an unreadable one
admits no namespace. Unreadable is also what is hardly meant: no name at all, a selector without conditions, a field
that selectors do not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from volsched.model import api
from volsched.model.errors import FieldError, shortened
from volsched.model.selectors import IN, NOT_IN, NOTHING, LabelSelector
from volsched.model.values import json_text

ALLOWED_NAMESPACES: Final = "volsched.io/allowed-namespaces"
FIELD: Final = f"metadata.annotations[{ALLOWED_NAMESPACES}]"

MOST_NAMES: Final = 10
"""Namespaces that a refusal names. The rest is a number."""

_LONGEST_SELECTOR: Final = 300
_LONGEST_PROBLEM: Final = 300
_NAMESPACE: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_WORD: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_LONGEST_DOMAIN: Final = 253
_WAY_OUT: Final = "leave the annotation out to let in every namespace"

T = TypeVar("T")


class AllowedNamespaces(msgspec.Struct, frozen=True, gc=False):
    """The namespaces that a queue admits: these names, or those with such labels; with a ``problem`` none."""

    names: frozenset[str] = frozenset()
    selector: LabelSelector = NOTHING
    problem: str = ""

    def lets_in(self, namespace: str, labels: Mapping[str, str] | None) -> bool:
        """True if a namespace may use the queue. Labels are None if the namespace is not known."""
        return namespace in self.names or (labels is not None and self.selector.matches(labels))

    @property
    def who(self) -> str:
        """Return the admitted namespaces, as "namespaces vision, language" or "namespaces with labels team=vision"."""
        if self.problem:
            return "nobody"
        if not self.names:
            return f"namespaces with labels {shortened(str(self.selector), _LONGEST_SELECTOR)}"
        named = sorted(self.names)
        more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
        return f"namespace{'s' if len(named) > 1 else ''} {', '.join(named[:MOST_NAMES])}{more}"


def allowed_in(annotations: Mapping[str, str]) -> AllowedNamespaces | None:
    """Return the namespaces that a queue with these annotations admits, or None for all."""
    text = annotations.get(ALLOWED_NAMESPACES)
    if text is None:
        return None
    try:
        return parse(text)
    except FieldError as error:
        return AllowedNamespaces(problem=shortened(error.message, _LONGEST_PROBLEM))


def parse(text: str) -> AllowedNamespaces:
    """Read the annotation's text. Raises FieldError for what cannot be read.

    Names are a list: ``vision, language`` or ``["vision", "language"]``. Labels are a list of ``key=value`` and
    ``key!=value`` that must all hold, or a ``metav1.LabelSelector`` in JSON: ``{"matchLabels": {"team": "vision"}}``.
    """
    text = text.strip()
    if text.startswith("["):
        return _of_names(_decoded(text, list[str]))
    if text.startswith("{"):
        return _of_selector(_decoded(text, _NamespaceSelector))
    entries = [entry.strip() for entry in text.split(",")]
    return _of_labels(entries) if "=" in text else _of_names(entries)


class _Expression(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] = []


class _NamespaceSelector(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[_Expression] = []


def _decoded(text: str, kind: type[T]) -> T:
    try:
        return json_text.decode(text, kind)
    except (msgspec.MsgspecError, ValueError) as error:
        wanted = "a list of names" if text.startswith("[") else "a label selector"
        raise _wrong(f"is no JSON of {wanted}: {error}") from error


def _of_names(names: Sequence[str]) -> AllowedNamespaces:
    if not any(names):
        raise _wrong(f"names no namespace; {_WAY_OUT}")
    for name in names:
        if not re.fullmatch(_NAMESPACE, name):
            raise _wrong(f"{shortened(repr(name))} is no name of a namespace")
    return AllowedNamespaces(names=frozenset(names))


def _of_labels(entries: Iterable[str]) -> AllowedNamespaces:
    return _selecting(api.LabelSelector(match_expressions=tuple(map(_requirement, entries))))


def _requirement(entry: str) -> api.LabelSelectorRequirement:
    key, equals, value = entry.partition("=")
    if not equals:
        raise _wrong(f"{shortened(repr(entry))} stands among labels and is no key=value; names and labels do not mix")
    operator = NOT_IN if key.endswith("!") else IN
    value = value.removeprefix("=") if operator == IN else value
    return api.LabelSelectorRequirement(key.removesuffix("!").strip(), operator, (value.strip(),))


def _of_selector(selector: _NamespaceSelector) -> AllowedNamespaces:
    expressions = (api.LabelSelectorRequirement(e.key, e.operator, tuple(e.values)) for e in selector.match_expressions)
    return _selecting(api.LabelSelector(selector.match_labels, tuple(expressions)))


def _selecting(selector: api.LabelSelector) -> AllowedNamespaces:
    keys = [*selector.match_labels, *(expression.key for expression in selector.match_expressions)]
    values = [
        *selector.match_labels.values(),
        *(v for expression in selector.match_expressions for v in expression.values),
    ]
    if not keys:
        raise _wrong(f"is a selector without conditions; {_WAY_OUT}")
    _check(keys, _is_key, "no key of a label")
    _check(values, _is_value, "no value of a label")
    try:
        return AllowedNamespaces(selector=LabelSelector.parse(selector, "selector"))
    except FieldError as error:
        raise _wrong(f"{error.path.removeprefix('selector.')}: {error.message}") from error


def _check(texts: Iterable[str], is_right: Callable[[str], bool], what: str) -> None:
    for text in texts:
        if not is_right(text):
            raise _wrong(f"{shortened(repr(text))} is {what}")


def _is_key(text: str) -> bool:
    domain, slash, word = text.rpartition("/")
    if slash and not (len(domain) <= _LONGEST_DOMAIN and re.fullmatch(_DOMAIN, domain)):
        return False
    return re.fullmatch(_WORD, word) is not None


def _is_value(text: str) -> bool:
    return not text or re.fullmatch(_WORD, text) is not None


def _wrong(message: str) -> FieldError:
    return FieldError(FIELD, message)
