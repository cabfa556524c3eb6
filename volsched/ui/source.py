"""Where the page has its cluster from: what it asks of one that is followed, and of one that stands still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.ui.picture import Picture
from volsched.ui.waiting import Reason


class PictureSource(Protocol):
    """A cluster of which there are pictures. Numbers tell pictures apart."""

    @property
    def notice(self) -> str:
        """What is wrong with the configuration as it is written; empty while it is in force."""

    @property
    def about(self) -> str:
        """What is to be said of the cluster above each view; empty for one that is followed."""

    async def picture(self) -> tuple[int, Picture]:
        """Return the newest picture, and its number."""

    async def after(self, number: int) -> tuple[int, Picture]:
        """Return the first picture of another number, once there is one."""

    async def known(self) -> tuple[int, ClusterSnapshot]:
        """Return the cluster of the newest picture, and the number of that."""

    def reasons(self, namespace: str, name: str) -> Sequence[Reason]:
        """Return why a job has waited so far."""
