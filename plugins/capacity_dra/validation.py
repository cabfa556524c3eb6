"""What is wrong with the quotas of devices that a Queue says."""

from __future__ import annotations

from plugins.capacity_dra.quota import SMALLER, read_quota
from volsched.framework.validation import INVALID, Fault, Faults, Surroundings, warning
from volsched.model import api
from volsched.model.queue import QueueInfo


def validate(found: api.ApiObject, _: Surroundings) -> Faults:
    """Yield what is wrong with an object; see ``framework.validation.Validator``."""
    if not isinstance(found, api.Queue):
        return
    queue = QueueInfo(found.metadata.name)
    queue.dra = found.spec.dra
    for fault in read_quota(queue).faults:
        field, _colon, message = fault.partition(" ")
        make = warning if fault.endswith(SMALLER) else Fault
        yield make(field.rstrip(":"), INVALID, message)
