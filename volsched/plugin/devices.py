"""Names for plugins about the devices of ResourceClaims, beside those of ``volsched.plugin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volsched.plugin import _on_first_use

if TYPE_CHECKING:
    from volsched.framework.accounts.device_holdings import device_holdings as device_holdings
    from volsched.framework.dra.accounts import DeviceAccounts as DeviceAccounts
    from volsched.framework.dra.accounts import claims_of as claims_of
    from volsched.framework.dra.amounts import COUNT as COUNT
    from volsched.framework.dra.amounts import FLAT as FLAT
    from volsched.framework.dra.amounts import Amount as Amount
    from volsched.framework.dra.amounts import Amounts as Amounts
    from volsched.framework.dra.amounts import in_words as in_words
    from volsched.framework.dra.amounts import milli as milli
    from volsched.framework.dra.charges import named_as as named_as
    from volsched.framework.dra.charges import of_spec as of_spec
    from volsched.framework.dra.extended import MOST_REQUESTS as MOST_REQUESTS
    from volsched.framework.dra.extended import Pairs as Pairs
    from volsched.framework.dra.extended import PendingClaim as PendingClaim
    from volsched.framework.dra.extended import from_devices as from_devices
    from volsched.framework.dra.extended import made_for as made_for
    from volsched.framework.dra.extended import pending_claim_of as pending_claim_of
    from volsched.framework.dra.outcomes import RESULTS as RESULTS
    from volsched.framework.dra.outcomes import Outcomes as Outcomes
    from volsched.framework.dra.outcomes import Picks as Picks
    from volsched.framework.dra.pools import Pools as Pools
    from volsched.framework.dra.pools import pool_for as pool_for
    from volsched.framework.dra.reads import Read as Read
    from volsched.framework.dra.reads import kind_of as kind_of
    from volsched.framework.dra.reads import reads_of as reads_of
    from volsched.framework.dra.results import allocation_of as allocation_of
    from volsched.framework.dra.search import BLOCKING as BLOCKING
    from volsched.framework.dra.search import NO_DEVICES as NO_DEVICES
    from volsched.framework.dra.search import Choice as Choice
    from volsched.framework.dra.search import Impossible as Impossible
    from volsched.framework.dra.search import Limits as Limits
    from volsched.framework.dra.search import Unfit as Unfit
    from volsched.framework.dra.search import no_class as no_class
    from volsched.framework.dra.selectors import MOST_SECONDS as MOST_SECONDS
    from volsched.framework.dra.selectors import OverBudgetError as OverBudgetError
    from volsched.framework.dra.selectors import Selectors as Selectors
    from volsched.model.dra.announced import Uses as Uses
    from volsched.model.dra.announced import announced_by as announced_by
    from volsched.model.dra.device import Ask as Ask
    from volsched.model.dra.device import Capacity as Capacity
    from volsched.model.dra.device import Claim as Claim
    from volsched.model.dra.device import ClaimSpec as ClaimSpec
    from volsched.model.dra.device import Device as Device
    from volsched.model.dra.device import PoolId as PoolId
    from volsched.model.dra.device import Slice as Slice
    from volsched.model.dra.devices import Devices as Devices
    from volsched.model.dra.devices import DeviceUsage as DeviceUsage
    from volsched.model.dra.devices import pending_claim_uid as pending_claim_uid
    from volsched.model.pods.claim_use import ResourceClaimUse as ResourceClaimUse
else:
    __getattr__, __dir__ = _on_first_use(
        __name__,
        {
            "DeviceLedger": ("volsched.model.dra.devices:DeviceUsage", "it is DeviceUsage"),
            "Unmade": ("volsched.framework.dra.extended:PendingClaim", "it is PendingClaim"),
            "unmade_claim": ("volsched.framework.dra.extended:pending_claim_of", "it is pending_claim_of"),
            "unmade_uid": ("volsched.model.dra.devices:pending_claim_uid", "it is pending_claim_uid"),
        },
    )
