"""Types of conditions of PodGroups. From those that are ``REMEMBERED`` whoever leads next learns what was decided.

While a scheduler leads it remembers that itself, as what it watches may be behind what it wrote.
"""

from __future__ import annotations

from typing import Final

from volsched.model.queues.kept_queue import QUEUE_KEPT
from volsched.model.reservation import RESERVED

RESERVATION_RELEASED: Final = "ReservationReleased"
"""The type of the condition, and the reason of the Event, of an admitted job for which no room is kept."""

ADMITTED: Final = "Admitted"
"""The type of the condition of a PodGroup that was admitted and has not started; its time is that of the admission."""


LOST_PODS: Final = "LostPods"
"""The type of the condition of a PodGroup whose gang has lost pods and lacks them, and its reason."""

REMEMBERED: Final = (RESERVED, QUEUE_KEPT, LOST_PODS)
