"""Sources: values that plugins share under a name, since they do not import each other.

A plugin registers a source when a session opens. Other plugins read it when they are asked about a node, so the order
of plugins in a configuration does not matter.
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
