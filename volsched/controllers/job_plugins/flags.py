"""Arguments of Job plugins, which Volcano reads as flags of Go: `-name`, `--name`, `--name=value`, `--name value`.

Volcano logs what it cannot read and goes on with defaults; here it is a fault of the Job, since its pods would not be
what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from volsched.framework.config.arguments import hint
from volsched.model.errors import shortened

Value: TypeAlias = str | int | bool

LARGEST_PORT: Final = 65535

MOST_ARGUMENTS: Final = 64
"""The most flags of one plugin that are read: none has a quarter as many, and wrong ones cost a search for similar
ones.
"""

_BOOLEANS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""As Go's strconv.ParseBool."""


@dataclass(frozen=True, slots=True)
class Flag:
    """One argument; its type is that of the default. Whole numbers are from 1 to `most`."""

    name: str
    default: Value
    most: int = LARGEST_PORT

    def parse(self, text: str) -> Value:
        """Return the value. A ValueError states what is wrong with it."""
        if isinstance(self.default, bool):
            if text not in _BOOLEANS:
                raise ValueError(f"--{self.name} must be true or false, not {shortened(text)!r}")
            return _BOOLEANS[text]
        if isinstance(self.default, int):
            if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= self.most):
                raise ValueError(f"--{self.name} must be a whole number from 1 to {self.most}, not {shortened(text)!r}")
            return int(text)
        return text


@dataclass(frozen=True, slots=True)
class Values:
    """The value of every flag of a plugin, given or default; the given ones; their problems."""

    values: Mapping[str, Value]
    given: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """Return the value of a flag that is a text."""
        return str(self.values[name])

    def number(self, name: str) -> int:
        """Return the value of a flag that is a whole number."""
        return int(self.values[name])

    def is_true(self, name: str) -> bool:
        """True if a boolean flag is set."""
        return self.values[name] is True


def read(flags: Sequence[Flag], arguments: Sequence[str]) -> Values:
    """Return the flags in arguments. An unreadable one counts as absent, and is among the problems."""
    known = {flag.name: flag for flag in flags}
    values = {flag.name: flag.default for flag in flags}
    given: set[str] = set()
    problems: list[str] = []
    left = iter(arguments[:MOST_ARGUMENTS])
    if len(arguments) > MOST_ARGUMENTS:
        problems.append(f"there are {len(arguments)} arguments; no more than {MOST_ARGUMENTS} are read")
    for argument in left:
        try:
            name, text = _one(argument, left, known)
            values[name] = known[name].parse(text)
            given.add(name)
        except ValueError as error:
            problems.append(str(error))
    return Values(values, frozenset(given), tuple(problems))


def _one(argument: str, left: Iterator[str], known: Mapping[str, Flag]) -> tuple[str, str]:
    """Return the name and the text of an argument's value, together with the next argument if it needs that."""
    name, equals, text = argument.removeprefix("-").removeprefix("-").partition("=")
    if not argument.startswith("-") or not name or name.startswith("-"):
        raise ValueError(f"{shortened(argument)!r} is no argument; write it as --name=value")
    if name not in known:
        given, flags = f"--{shortened(name)}", [f"--{flag}" for flag in known]
        has = f"there are {', '.join(flags)}" if flags else "it takes none"
        raise ValueError(f"there is no argument {given}{hint(given, flags) or f'; {has}'}")
    if equals:
        return name, text
    if isinstance(known[name].default, bool):
        return name, "true"
    following = next(left, None)
    if following is None:
        raise ValueError(f"--{name} has no value; write it as --{name}=value")
    return name, following
