"""Label selectors and node selectors, parsed once and evaluated often.

Meaning: apimachinery `labels.Requirement.Matches` and `metav1.LabelSelectorAsSelector`; for nodes component-helpers
`nodeaffinity`. A selector that cannot be parsed is a FieldError, and refuses its pod: no pod is placed with one of its
rules left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from volsched.model import api
from volsched.model.errors import FieldError

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER: Final = "Gt"
LESS: Final = "Lt"

LABEL_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
NODE_OPERATORS: Final = (*LABEL_OPERATORS, GREATER, LESS)
FIELD_OPERATORS: Final = (IN, NOT_IN)
NODE_NAME_FIELD: Final = "metadata.name"
NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label by which the API server lets namespaces be selected by their names."""


class Requirement(msgspec.Struct, frozen=True, gc=False, order=True):
    """One condition on one label. `values` is sorted and without doubles, `bound` is the number of Gt and Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet the condition. NotIn and DoesNotExist are met by a label that is absent."""
        value = labels.get(self.key)
        operator = self.operator
        if operator == IN:
            return value in self.values
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        if operator == NOT_IN:
            return value not in self.values
        number = int64(value) if value is not None else None
        if number is None:
            return False
        return number > self.bound if operator == GREATER else number < self.bound

    def __str__(self) -> str:
        if self.operator in (IN, NOT_IN):
            return f"{self.key} {self.operator} ({', '.join(self.values)})"
        return f"{self.key} {self.operator}{f' {self.bound}' if self.operator in (GREATER, LESS) else ''}"


class LabelSelector(msgspec.Struct, frozen=True, gc=False):
    """Conditions that labels must all meet; with none it matches everything, unless it `matches_nothing`.

    `equal` are labels that must have one value, as pairs sorted by key; `requirements` are all other conditions.
    """

    equal: tuple[tuple[str, str], ...] = ()
    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    @classmethod
    def parse(cls, selector: api.LabelSelector | None, path: str = "labelSelector") -> "LabelSelector":
        """Parse a selector; None matches nothing, an empty one everything."""
        if selector is None:
            return NOTHING
        expressions = _requirements(selector.match_expressions, f"{path}.matchExpressions", LABEL_OPERATORS)
        return cls._of(selector.match_labels.items(), expressions)

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "LabelSelector":
        """Return the selector for labels that must have these values."""
        return cls._of(labels.items(), ())

    @classmethod
    def _of(cls, equal: Iterable[tuple[str, str]], requirements: Iterable[Requirement]) -> "LabelSelector":
        pairs, others = set(equal), set()
        for requirement in requirements:
            if requirement.operator == IN and len(requirement.values) == 1:
                pairs.add((requirement.key, requirement.values[0]))
            else:
                others.add(requirement)
        return cls(tuple(sorted(pairs)), tuple(sorted(others)))

    @property
    def is_empty(self) -> bool:
        """True if it has no conditions and so matches everything."""
        return not (self.equal or self.requirements or self.matches_nothing)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether these labels meet all conditions."""
        if self.matches_nothing:
            return False
        for key, value in self.equal:
            if labels.get(key) != value:
                return False
        for requirement in self.requirements:  # noqa: SIM110 - a generator would cost more than the conditions
            if not requirement.matches(labels):
                return False
        return True

    def keys(self) -> Iterator[str]:
        """Yield the keys of all labels that it looks at."""
        for key, _ in self.equal:
            yield key
        for requirement in self.requirements:
            yield requirement.key

    def with_label_keys(
        self, labels: Mapping[str, str], match_keys: Iterable[str], mismatch_keys: Iterable[str] = ()
    ) -> "LabelSelector":
        """Merge a pod's own values of some labels in, as the API server does when it admits the pod.

        A key that is already merged stays as it is: the API server has done it, and the labels at admission hold even
        if they changed since. A selector that matches nothing stays so.
        """
        if self.matches_nothing:
            return self
        bound = {key for key, _ in self.equal}
        bound_not = {item.key for item in self.requirements if item.operator == NOT_IN and len(item.values) == 1}
        more = [Requirement(key, IN, (labels[key],)) for key in match_keys if key in labels and key not in bound]
        more += [
            Requirement(key, NOT_IN, (labels[key],)) for key in mismatch_keys if key in labels and key not in bound_not
        ]
        return self._of(self.equal, (*self.requirements, *more)) if more else self

    def __str__(self) -> str:
        if self.matches_nothing:
            return "<nothing>"
        parts = [f"{key}={value}" for key, value in self.equal] + [str(item) for item in self.requirements]
        return ", ".join(parts) or "<everything>"


NOTHING: Final = LabelSelector(matches_nothing=True)
EVERYTHING: Final = LabelSelector()


class NodeTerm(msgspec.Struct, frozen=True, gc=False):
    """Conditions on a node's labels and on its name that must all hold; a term without conditions matches no node."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[str, ...] = ()
    not_names: tuple[str, ...] = ()

    @classmethod
    def parse(cls, term: api.NodeSelectorTerm, path: str = "") -> "NodeTerm":
        """Parse one alternative of a node selector."""
        fields = _requirements(term.match_fields, f"{path}.matchFields", FIELD_OPERATORS)
        for number, field in enumerate(fields):
            _check_field(field, f"{path}.matchFields[{number}]")
        return cls(
            tuple(sorted(set(_requirements(term.match_expressions, f"{path}.matchExpressions", NODE_OPERATORS)))),
            tuple(sorted({field.values[0] for field in fields if field.operator == IN})),
            tuple(sorted({field.values[0] for field in fields if field.operator == NOT_IN})),
        )

    @property
    def is_empty(self) -> bool:
        """True if it has no conditions and so matches no node."""
        return not (self.labels or self.names or self.not_names)

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node of this name and with these labels meets all conditions."""
        if self.is_empty or name in self.not_names:
            return False
        if any(wanted != name for wanted in self.names):
            return False
        for requirement in self.labels:  # noqa: SIM110 - as above
            if not requirement.matches(labels):
                return False
        return True

    def __str__(self) -> str:
        parts = [str(item) for item in self.labels]
        parts += [f"name={name}" for name in self.names] + [f"name!={name}" for name in self.not_names]
        return ", ".join(parts) or "<nothing>"


class NodeSelector(msgspec.Struct, frozen=True, gc=False):
    """Labels that a node must have, and alternatives one of which it must meet (None: no such demand)."""

    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    @classmethod
    def parse(
        cls, terms: api.NodeSelector | None, labels: Mapping[str, str] | None = None, path: str = ""
    ) -> "NodeSelector":
        """Parse a node selector, together with a plain mapping of labels such as `spec.nodeSelector`."""
        parsed = None
        if terms is not None:
            parsed = tuple(
                NodeTerm.parse(term, f"{path}.nodeSelectorTerms[{number}]")
                for number, term in enumerate(terms.node_selector_terms)
            )
        return cls(tuple(sorted((labels or {}).items())), parsed)

    @property
    def is_empty(self) -> bool:
        """True if it matches every node."""
        return not self.labels and self.terms is None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether the node of this name and with these labels will do."""
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        if self.terms is None:
            return True
        return any(term.matches(name, labels) for term in self.terms)

    def keys(self) -> Iterator[str]:
        """Yield the keys of all labels that it looks at."""
        for key, _ in self.labels:
            yield key
        for term in self.terms or ():
            for requirement in term.labels:
                yield requirement.key


def int64(text: str) -> int | None:
    """Return the number as Go's `strconv.ParseInt(text, 10, 64)` reads it, None when that would fail."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 1000:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _requirements(
    expressions: Iterable[api.LabelSelectorRequirement], path: str, operators: tuple[str, ...]
) -> list[Requirement]:
    return [_requirement(item, f"{path}[{number}]", operators) for number, item in enumerate(expressions)]


def _requirement(item: api.LabelSelectorRequirement, path: str, operators: tuple[str, ...]) -> Requirement:
    operator = item.operator
    if operator not in operators:
        raise FieldError(f"{path}.operator", f"unknown operator {operator!r}, must be one of {', '.join(operators)}")
    if operator in (EXISTS, DOES_NOT_EXIST):
        if item.values:
            raise FieldError(f"{path}.values", f"must be empty for operator {operator}")
        return Requirement(item.key, operator)
    if operator in (GREATER, LESS):
        return Requirement(item.key, operator, (), _bound(item, path))
    if not item.values:
        raise FieldError(f"{path}.values", f"must not be empty for operator {operator}")
    return Requirement(item.key, operator, tuple(sorted(set(item.values))))


def _bound(item: api.LabelSelectorRequirement, path: str) -> int:
    bound = int64(item.values[0]) if len(item.values) == 1 else None
    if bound is None:
        raise FieldError(f"{path}.values", f"must be one integer for operator {item.operator}")
    return bound


def _check_field(field: Requirement, path: str) -> None:
    if field.key != NODE_NAME_FIELD:
        raise FieldError(f"{path}.key", f"unknown field {field.key!r}, must be {NODE_NAME_FIELD}")
    if len(field.values) != 1:
        raise FieldError(f"{path}.values", "must have one element")
