"""The project's own exceptions.

A refusal of a pod is a value (`verdict.Verdict`). An exception means that an input is wrong or that another system did
not answer. Code that catches a foreign error turns it into one of these, with the original as its cause.
"""

import difflib
from collections.abc import Iterable, Sequence


class VolschedError(Exception):
    """Base of every error that volsched raises on purpose."""


class ConfigError(VolschedError):
    """A configuration has something that it must not: `path` is the key, as `tiers[0].plugins[1].name`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class FieldError(VolschedError):
    """One field of an object cannot be understood.

    It is a value as well as an exception: two with the same path and message are equal, so that refusals can be
    compared and can be part of a key. Keep a fresh one (`detached`), not one that was caught: that holds its frames.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(path, message)
        self.path = path
        self.message = message

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldError) and (self.path, self.message) == (other.path, other.message)

    def __hash__(self) -> int:
        return hash((self.path, self.message))

    def detached(self) -> "FieldError":
        """Return an equal error that was never raised."""
        return type(self)(self.path, self.message)


class ObjectError(VolschedError):
    """A Kubernetes object cannot be read: `field` is the path inside it, as `$.spec.nodeSelector`."""

    def __init__(self, kind: str, name: str, field: str, message: str) -> None:
        super().__init__(kind, name, field, message)
        self.kind = kind
        self.name = name
        self.field = field
        self.message = message

    def __str__(self) -> str:
        where = f"{self.kind}/{self.name}" if self.name else self.kind
        return f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"


class QuantityError(VolschedError, ValueError):
    """A text is not a Kubernetes quantity."""

    def __init__(self, text: object, message: str = "is not a quantity") -> None:
        super().__init__(text, message)
        self.text = text
        self.message = message

    def __str__(self) -> str:
        return f"{'null' if self.text is None else shortened(repr(self.text))} {self.message}"


def shortened(text: str, limit: int = 80) -> str:
    """Return the text, its end replaced by an ellipsis when it is longer than the limit."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(names: Sequence[str], most: int = 3) -> str:
    """Return the first of some names in quotation marks, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(shortened(name)) for name in names[:most]) + more


def no_attribute(kind: str, name: str, known: Iterable[str], way_out: str) -> AttributeError:
    """Return the error over an attribute that callbacks may not read: the likely name, else another way to get it."""
    meant = nearest(name, (each for each in known if not each.startswith("_")), 0.8)
    return AttributeError(
        f"{kind} has no {name}; did you mean {meant}?" if meant else f"{kind} has no {name}: {way_out}"
    )


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known word that a misspelt one was probably meant to be. ``likeness`` is from 0 to 1."""
    listed = list(known)
    folded = {name.casefold(): name for name in reversed(listed)}
    found = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=likeness)
    return folded[found[0]] if found else None
