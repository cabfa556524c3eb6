"""A change that may help, in sizes: its limit, its effect on the cluster, and its command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec

from volsched.diagnose.records import Help
from volsched.diagnose.what_if import Change, WhatIf
from volsched.model import api
from volsched.simulation.manifests import kind_of
from volsched.simulation.runner import Simulation

Sizes: TypeAlias = tuple[int, ...]

_TOGETHER: Final = "+"


@dataclass(frozen=True, slots=True)
class Option:
    """One way to change the cluster. Of each of its parts, ``least`` and ``most`` are the sizes that are tried."""

    sort: str
    least: Sizes
    most: Sizes
    change: Callable[[Sizes], Change]
    help: Callable[[Sizes], Help | None]

    def starts(self, what_if: WhatIf) -> bool:
        """Return whether it helps when it goes as far as it may. Raises WhatIfError."""
        return what_if.starts(self.change(self.most))

    def smallest(self, what_if: WhatIf) -> Help | None:
        """Return its help with each part as small as possible, one after the other. Raises WhatIfError.

        None: the job would start without any of it, in a later session.
        """
        sizes = self.most
        for place, least in enumerate(self.least):
            before, after = sizes[:place], sizes[place + 1 :]

            def change(size: int, before: Sizes = before, after: Sizes = after) -> Change:
                return self.change((*before, size, *after))

            sizes = (*before, what_if.smallest(change, least, sizes[place]), *after)
        return self.help(sizes)


def whether(sort: str, change: Change, helps: Help) -> Option:
    """Return a change that is made or is not."""
    return Option(sort, (), (), lambda _: change, lambda _: helps)


def sized(sort: str, most: int, change: Callable[[int], Change], helps: Callable[[int], Help]) -> Option:
    """Return a change of one size, from 1 on."""
    return Option(sort, (1,), (most,), lambda sizes: change(sizes[0]), lambda sizes: helps(sizes[0]))


def both(one: Option, other: Option) -> Option:
    """Return two changes that are made together."""
    cut = len(one.most)

    def change(sizes: Sizes) -> Change:
        return in_turn(one.change(sizes[:cut]), other.change(sizes[cut:]))

    def helps(sizes: Sizes) -> Help | None:
        first, second = one.help(sizes[:cut]), other.help(sizes[cut:])
        return _together(first, second) if first and second else first or second

    return Option(_joined(one.sort, other.sort), one.least + other.least, one.most + other.most, change, helps)


def _together(one: Help, other: Help) -> Help:
    """Return a help that takes two changes."""
    command = " && ".join(filter(None, (one.command, other.command)))
    patch = "---\n".join(filter(None, (one.patch, other.patch)))
    sentence = f"{one.sentence.removesuffix('.')}, and together with that: {other.sentence}"
    return Help(_joined(one.sort, other.sort), sentence, command, patch)


def _joined(one: str, other: str) -> str:
    return one if one == other else f"{one}{_TOGETHER}{other}"


def in_turn(*changes: Change) -> Change:
    """Make several changes of one."""

    def change(simulation: Simulation) -> None:
        for each in changes:
            each(simulation)

    return change


# --- commands -------------------------------------------------------------------------------------------------------


def patch_commands(changed: list[tuple[api.ApiObject, api.ApiObject]]) -> str:
    """Return the commands for several objects of one kind without a namespace; for equal changes one command."""
    alike: dict[str, list[api.ApiObject]] = {}
    for before, after in changed:
        alike.setdefault(merge_flags(merge_patch(before, after)), []).append(before)
    return " && ".join(_of_several(found, merge) for merge, found in alike.items())


def _of_several(found: list[api.ApiObject], merge: str) -> str:
    names = [each.metadata.name for each in found]
    return for_each(names, f"kubectl patch {kind_of(found[0]).lower()} {{}} {merge}")


def for_each(names: Sequence[str], command: str) -> str:
    """Return a command for some names, the first ``{}`` of which is the name."""
    start, _, end = command.partition("{}")
    quoted = [shlex.quote(name) for name in names]
    if len(quoted) == 1:
        return f"{start}{quoted[0]}{end}"
    return f'for name in {" ".join(quoted)}; do {start}"$name"{end}; done'


def merge_flags(body: Mapping[str, Any]) -> str:
    """Return the kubectl arguments of a JSON merge patch."""
    return f"--type merge -p {shlex.quote(json.dumps(body))}"


def merge_patch(before: api.ApiObject, after: api.ApiObject) -> dict[str, Any]:
    """Return what of an object is another one, as a JSON merge patch."""
    return _difference(msgspec.to_builtins(before), msgspec.to_builtins(after))


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in after.items():
        was = before.get(key)
        if isinstance(value, Mapping) and isinstance(was, Mapping):
            if inner := _difference(was, value):
                found[key] = inner
        elif value != was:
            found[key] = value
    return {**found, **dict.fromkeys(before.keys() - after.keys())}
