"""What plugins leave for one another under a name, as they do not see one another.

A plugin that knows something leaves a source when a session opens. Whoever reads it does so when a node is asked about,
so the order of the plugins in a configuration does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

S = TypeVar("S")


@dataclass(slots=True)
class Sources(Generic[S]):
    """The sources of all plugins, by the plugin's name."""

    sources: dict[str, S] = field(default_factory=dict)

    @classmethod
    def of_cluster(cls, _: object) -> Self:
        """Make the account, without any source."""
        return cls()
