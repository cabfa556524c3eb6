"""What an action knows of one job while it places the tasks of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from actions.gang_search.searches import Searches
from actions.retry import FailedRoles, Retry
from volsched.framework.session import Session
from volsched.framework.statement import Statement
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.queues.queue import QueueInfo


@dataclass(slots=True)
class Attempt:
    """What an action knows of one job: the tasks that are left, last first, and what was tried in vain."""

    job: JobInfo
    tasks: list[TaskInfo]
    retry: Retry
    failed_roles: FailedRoles = field(default_factory=FailedRoles)
    moved: bool = False
    """Whether anything of the job found a place in this turn."""
    held: bool = False
    """Whether the job keeps room in this session without being committed."""
    given_up: bool = False
    """Whether the gang cannot start with what is left to try."""
    ended: str = ""
    """Why the search for a placement of the whole gang ended before it was through."""
    failed: TaskInfo | None = None
    """The task that was tried last and that no node takes."""
    searches: Searches | None = None
    """The searches of the session for a placement of a whole gang; none are made without."""


Place: TypeAlias = Callable[[Session, QueueInfo, Attempt], Statement | None]
"""Places tasks of a job until it is ready. Returns what is to be committed, or None if the job cannot start now."""
