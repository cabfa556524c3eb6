"""The input of all decisions as one value: the objects of a cluster or of manifests, and the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from volsched import registry
from volsched.model import api
from volsched.model.changes import Change
from volsched.scheduler import Profile
from volsched.simulation.manifests import Inventory, completed, identity_of
from volsched.simulation.runner import SCHEDULER_NAMES, SimulationSettings, Stage


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment. ``configuration`` is the text of the scheduler's, ``origin`` where it is from.

    ``taken_at`` is when it was read from a cluster, in seconds since the epoch; 0 for manifests.

    Running it changes nothing of it: objects are values.
    """

    objects: tuple[api.ApiObject, ...]
    configuration: str
    origin: str = ""
    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES
    default_queue: str = "default"
    taken_at: float = 0.0

    def with_objects(self, objects: Iterable[api.ApiObject]) -> ClusterSnapshot:
        """Return it with objects that replace those of the same kind and name, or join."""
        table = {identity_of(found): found for found in self.objects}
        table.update({identity_of(found): found for found in map(completed, objects)})
        return replace(self, objects=tuple(table.values()))

    def without(self, gone: Sequence[tuple[str, str, str]]) -> ClusterSnapshot:
        """Return it without objects of these kinds, namespaces and names. Raises KeyError for one that is not there."""
        table = {identity_of(found): found for found in self.objects}
        for identity in gone:
            del table[identity]
        return replace(self, objects=tuple(table.values()))

    def profile(self) -> Profile:
        """Return the configuration with its actions and plugins made anew. Raises ConfigError."""
        return registry.load_profile(self.configuration)[0]

    def stage(self, cycles: int = 10, on_changes: Callable[[Sequence[Change]], None] = lambda _: None) -> Stage:
        """Return the cluster ready to run, with the very mirror, plugins and sessions of the scheduler.

        ``on_changes`` hears of all changes of the run, from the first object on.
        """
        settings = SimulationSettings(cycles, self.scheduler_names, self.default_queue)
        return Stage(Inventory(objects=list(self.objects)), self.profile(), settings, on_changes)
