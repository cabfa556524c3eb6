"""Finds what would help: the smallest change of each sort, each proven by sessions that were run with it.

If no change alone helps, two of different sorts are tried together. If nothing helps, the remaining reason is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import combinations, product

from volsched.diagnose.explain import AskedAbout
from volsched.diagnose.options import Option, both
from volsched.diagnose.records import Advice, Help
from volsched.diagnose.searches import ONE_WILL_DO, SEARCHES
from volsched.diagnose.what_if import Change, OutOfTimeError, WhatIf, WhatIfError, nothing
from volsched.simulation.runner import Stage

Options = dict[str, list[Option]]
"""The possible changes, by sort."""


def advise(stage: Stage, found: AskedAbout, left: Callable[[], float]) -> Advice:
    """Search for what would let a job, or one pod of it, start. ``left``: how many seconds there are."""
    search = _OptionSearch(WhatIf(stage, found, left))
    search.one_by_one()
    if not search.helps:
        search.two_by_two()
    return Advice(tuple(search.helps), search.what_if.made, search.nothing, tuple(search.not_tried))


class _OptionSearch:
    """Tries options, and notes which help, which could not be tried, and why none helps."""

    def __init__(self, what_if: WhatIf) -> None:
        self.what_if = what_if
        self.helps: list[Help] = []
        self.not_tried: list[str] = []
        self.nothing = ""
        self._options: Options = {sort: list(options(what_if)) for sort, options in SEARCHES.items()}

    def one_by_one(self) -> None:
        """Try each option alone."""
        for sort, options in self._options.items():
            self._try(sort, options, one_will_do=sort in ONE_WILL_DO)

    def two_by_two(self) -> None:
        """Try options of two sorts together; all of them at once first, since with less nothing would start either."""
        sorts = [sort for sort, options in self._options.items() if options]
        try:
            waits = self.what_if.refusal(_all(self._of(sorts)))
        except WhatIfError as error:
            self._note("two changes together", error)
            return
        if waits:
            self.nothing = _because(sorts, waits)
            return
        for one, other in combinations(sorts, 2):
            self._try_pairs(one, other)
        if not self.helps and not self.not_tried:
            self.nothing = f"Nothing would, unless more than two of these are changed at once: {', '.join(sorts)}."

    def _try_pairs(self, one: str, other: str) -> None:
        """Try options of two sorts in pairs, if all of these sorts help at all."""
        pairs = (both(*pair) for pair in product(self._options[one], self._options[other]))
        try:
            if self.what_if.starts(_all(self._of((one, other)))):
                self._try(f"{one}+{other}", pairs, one_will_do=True)
        except WhatIfError as error:
            self._note(f"{one}+{other}", error)

    def _of(self, sorts: Iterable[str]) -> Iterator[Option]:
        return (option for sort in sorts for option in self._options[sort])

    def _try(self, sort: str, options: Iterable[Option], *, one_will_do: bool) -> None:
        does = False
        try:
            for option in options:
                does = option.starts(self.what_if)
                helps = option.smallest(self.what_if) if does else None
                if helps is not None:
                    self.helps.append(helps)
                    if one_will_do:
                        return
                does = False
        except WhatIfError as error:
            self._note(f"how little of {sort} will do" if does else sort, error)

    def _note(self, what: str, error: WhatIfError) -> None:
        """Note what was not tried, and why if it is not for want of time."""
        self.not_tried.append(what if isinstance(error, OutOfTimeError) else f"{what} ({error})")


def _all(options: Iterable[Option]) -> Change:
    """Return all options at once, each as far as it may go."""
    found = list(options)
    if not found:
        return nothing
    everything = reduce(both, found)
    return everything.change(everything.most)


def _because(sorts: list[str], waits: str) -> str:
    if not sorts:
        return f"Nothing would that can be tried here, because it waits {waits}"
    return f"Nothing would, because with all of these changed at once ({', '.join(sorts)}) it waits {waits}"
