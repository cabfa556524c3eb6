"""Suggestions of plugins for a job (``volsched.quota.report``), as what-if changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import yaml

from volsched.diagnose.options import Option, Sizes, merge_patch, patch_commands
from volsched.diagnose.records import Help
from volsched.diagnose.what_if import Change, WhatIf
from volsched.framework.quota_report import Suggestion, Target
from volsched.model import api
from volsched.model.changes import Change as ObjectChange
from volsched.model.changes import Put
from volsched.simulation.runner import Simulation

Objects = dict[Target, api.ApiObject]


class _Dose(NamedTuple):
    """A size of a suggestion, for these of its objects."""

    suggestion: Suggestion
    size: int
    targets: tuple[Target, ...]

    @property
    def text(self) -> str:
        return self.suggestion.text(self.size, [name for _, name in self.targets])


def suggestions_of(what_if: WhatIf) -> Iterator[Suggestion]:
    """Yield the suggestions of the plugins in force for a job, as far as their objects exist."""
    simulation = what_if.stage.simulation
    there = _objects(simulation)
    session = simulation.session
    for fn in session.reported(lambda report: report.suggestions) if session is not None else ():
        for suggestion in fn(what_if.found.job):
            kept = tuple(target for target in suggestion.objects if target in there)
            if kept:
                yield replace(suggestion, objects=kept)


def option_of(what_if: WhatIf, suggestions: Sequence[Suggestion]) -> Option:
    """Return suggestions of one sort as one change; each of several may have size 0."""
    there = _objects(what_if.stage.simulation)
    smallest = 0 if len(suggestions) > 1 else 1
    least = tuple(size for suggestion in suggestions for size in _sizes(suggestion, smallest, 1))
    most = tuple(
        size for suggestion in suggestions for size in _sizes(suggestion, suggestion.most, len(suggestion.objects))
    )

    def change(sizes: Sizes) -> Change:
        return lambda simulation: _make(simulation, _doses(suggestions, sizes))

    return Option(suggestions[0].sort, least, most, change, lambda sizes: _help(_doses(suggestions, sizes), there))


def _sizes(suggestion: Suggestion, size: int, objects: int) -> Sizes:
    return (size, objects) if _counts(suggestion) else (size,)


def _counts(suggestion: Suggestion) -> bool:
    """True if the number of objects is a size of its own."""
    return suggestion.is_each and len(suggestion.objects) > 1


def _doses(suggestions: Sequence[Suggestion], sizes: Sizes) -> list[_Dose]:
    """Return the sizes by suggestion, without zeros."""
    left, found = iter(sizes), []
    for suggestion in suggestions:
        size = next(left)
        count = next(left) if _counts(suggestion) else len(suggestion.objects)
        if size:
            found.append(_Dose(suggestion, size, suggestion.objects[:count]))
    return found


def _objects(simulation: Simulation) -> Objects:
    """Return the objects that may be changed: pods and PodGroups as they are now, others as they were read."""
    api_server = simulation.api_server
    found: Objects = {
        (kind, each.key): each for kind in (api.Queue, api.Node) for each in api_server.inventory.of(kind)
    }
    found |= {(api.Pod, key): pod for key, pod in api_server.pods.items()}
    return found | {(api.PodGroup, key): group for key, group in api_server.groups.items()}


def _changed(doses: Sequence[_Dose], there: Objects) -> Objects:
    """Return the objects that are changed, with all that is to be changed of them."""
    found: Objects = {}
    for dose in doses:
        for target in dose.targets:
            if target in there:
                found[target] = dose.suggestion.changed(found.get(target, there[target]), dose.size)
    return found


def _make(simulation: Simulation, doses: Sequence[_Dose]) -> None:
    changes: list[ObjectChange] = []
    for changed in _changed(doses, _objects(simulation)).values():
        if isinstance(changed, api.Pod):
            changes += simulation.api_server.write_pods([changed])
        elif isinstance(changed, api.PodGroup):
            changes += simulation.api_server.write_group(changed)
        else:
            changes.append(Put(changed))
    simulation.take(changes)


def _help(doses: Sequence[_Dose], there: Objects) -> Help | None:
    """Return what people do: patch queues and nodes, and change the template of pods, or None where that is nothing."""
    if not doses:
        return None
    suggestion, changed = doses[0].suggestion, _changed(doses, there)
    pairs = {target: (there[target], after) for target, after in changed.items()}
    pods = [pair for (kind, _), pair in pairs.items() if kind is api.Pod]
    others = [pair for (kind, _), pair in pairs.items() if kind in (api.Queue, api.Node)]
    sentence = doses[0].text if suggestion.is_alternative else f"Raise {', '.join(dose.text for dose in doses)}."
    patch = yaml.safe_dump(merge_patch(*pods[0])) if pods else ""
    return Help(suggestion.sort, sentence, patch_commands(others), patch)
