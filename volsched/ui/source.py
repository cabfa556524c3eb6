"""The source of the page's cluster: followed, or static."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.ui.picture import Live, Picture
from volsched.ui.waiting import Reason

Answer = TypeVar("Answer")

LIVE: Final = "live"
STILL: Final = "still"
LOST: Final = "lost"
LISTING: Final = "listing"


@dataclass(frozen=True, slots=True)
class SourceState:
    """Whether the pictures follow the cluster.

    ``kind``: ``live``, ``still`` (files), ``lost`` (no connection to the API server) or ``listing`` (not read yet).
    ``at`` is in seconds since the epoch: of the last change, of the files, or of the loss; 0 if it is not known.
    ``trouble`` states why the connection is lost.
    """

    kind: str
    at: float = 0.0
    trouble: str = ""


class PictureSource(Protocol):
    """A cluster with pictures, which have numbers."""

    @property
    def cluster(self) -> str:
        """Return the name of the cluster or of the files; empty if there is none."""

    @property
    def state(self) -> SourceState:
        """Return whether the pictures follow the cluster."""

    def now(self) -> float:
        """Return the time for ages, in seconds since the epoch: for files their own."""

    @property
    def notice(self) -> str:
        """Return the problem of the written configuration; empty while it is in force."""

    @property
    def about(self) -> str:
        """Return the notice above each view; empty for a followed cluster."""

    async def picture(self) -> tuple[int, Picture]:
        """Return the newest picture, and its number."""

    async def after(self, number: int) -> tuple[int, Picture]:
        """Return the first picture of another number, once there is one."""

    async def known(self) -> tuple[int, ClusterSnapshot]:
        """Return the cluster of the newest picture, and the number of that."""

    def reasons(self, namespace: str, name: str) -> Sequence[Reason]:
        """Return why a job has waited so far."""

    async def ask(self, question: Callable[[Live], Answer]) -> Answer:
        """Return the answer of the cluster of the newest picture. The question runs in a thread, one at a time."""
