"""Types of conditions of PodGroups. A new leader reads the ``REMEMBERED`` ones to learn former decisions.

A leading scheduler remembers these itself, as its watches may be behind its writes.
"""

from __future__ import annotations

from typing import Final

from volsched.model.held_nodes import RESERVED
from volsched.model.queues.kept_queue import QUEUE_KEPT

RESERVATION_RELEASED: Final = "ReservationReleased"
"""The condition type, and the Event reason, of an admitted job without kept room."""

ADMITTED: Final = "Admitted"
"""The condition type of a PodGroup that was admitted and has not started. Its time is that of the admission."""


LOST_PODS: Final = "LostPods"
"""The condition type, and its reason, of a PodGroup whose gang has lost pods and lacks them."""

REMEMBERED: Final = (RESERVED, QUEUE_KEPT, LOST_PODS)
