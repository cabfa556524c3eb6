"""Names for validators of a plugin: objects of the API, and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volsched.plugin import _on_first_use

if TYPE_CHECKING:
    from volsched.framework.validation import FORBIDDEN as FORBIDDEN
    from volsched.framework.validation import INVALID as INVALID
    from volsched.framework.validation import NOT_FOUND as NOT_FOUND
    from volsched.framework.validation import NOT_SUPPORTED as NOT_SUPPORTED
    from volsched.framework.validation import REQUIRED as REQUIRED
    from volsched.framework.validation import Fault as Fault
    from volsched.framework.validation import Faults as Faults
    from volsched.framework.validation import PodIn as PodIn
    from volsched.framework.validation import Surroundings as Surroundings
    from volsched.framework.validation import Validator as Validator
    from volsched.framework.validation import pods_in as pods_in
    from volsched.framework.validation import under as under
    from volsched.framework.validation import warning as warning
    from volsched.model import api as api
else:
    __getattr__, __dir__ = _on_first_use(__name__)
