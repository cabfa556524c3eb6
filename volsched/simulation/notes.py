"""What a simulation leaves out of what a cluster would do, in words for whoever reads its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from volsched.simulation.manifests import subject_of
from volsched.simulation.runner import Simulation

MOST_NAMES: Final = 20


def notes_of(simulation: Simulation) -> list[str]:
    """Return what was left out, a sentence for each reason; nothing where the simulation is as strict as a cluster."""
    return [*_of_others(simulation)]


def _of_others(simulation: Simulation) -> Iterator[str]:
    """Yield which workloads wait for another scheduler."""
    found = dict.fromkeys((subject_of(workload), scheduler) for workload, scheduler in simulation.world.of_others())
    if not found:
        return
    names = [f"{subject} ({scheduler or 'no name'})" for subject, scheduler in found]
    ours = ", ".join(simulation.settings.scheduler_names)
    yield f"of other schedulers, and not placed: {_listed(names)}; --scheduler-name says whose are placed, here {ours}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
