"""The actions of volsched. Importing this registers nothing: the registry reads ``BUILDERS``."""

from typing import Final

from volsched.framework.plugin import ActionEntry

BUILDERS: Final[dict[str, ActionEntry]] = {
    "enqueue": ActionEntry("actions.enqueue", "EnqueueAction"),
    "reserve": ActionEntry("actions.reserve.action", "ReserveAction"),
    "allocate": ActionEntry("actions.allocate", "AllocateAction"),
    "preempt": ActionEntry("actions.preempt", "PreemptAction"),
    "reclaim": ActionEntry("actions.reclaim", "ReclaimAction"),
    "backfill": ActionEntry("actions.backfill", "BackfillAction"),
}
