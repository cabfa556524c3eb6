"""The table of property tests: sets of plugins, the scenarios that they live through, and what holds in them.

Each cell is one test. In every cell all engines decide the same, every account of the cluster is that of a recount, and
no session leaves anything behind; the properties beside that are listed.
"""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from tests.plugins.busy_worlds import busy_worlds
from tests.plugins.capacity import properties as capacity
from tests.plugins.capacity_card import properties as cards
from tests.plugins.capacity_card.waiting import queueing
from tests.plugins.capacity_card.worlds import card_worlds
from tests.plugins.crossquota import properties as crossquota
from tests.plugins.devices_alone import WholeGang, gangs
from tests.plugins.fragmentation.device_worlds import DeviceWave
from tests.plugins.fragmentation.worlds import Wave
from tests.plugins.mgpu.sequences import KeepsBooks, shifts
from tests.plugins.predicates.claims import GivenOnce, failing, sharing
from tests.plugins.proportion import properties as proportion
from tests.properties import (
    crowds,
    elastic,
    eviction,
    native_groups,
    promises,
    queue_permissions,
    repairs,
    tenants,
    tight_gangs,
)
from tests.properties.lives import COUNTS, EAGER, ENGINES, NAIVE, SHUFFLED, Cell
from tests.properties.sound import Rests, Sound
from tests.properties.stories import worlds

SEEDS: Final = st.integers(0, 1 << 30)
CARD_PROPERTIES: Final = (cards.WithinQuotas, cards.ChargesWhatIsUsed, cards.QueuesTell, cards.GivesAllBack)
ALL_FORGETTING: Final = (*ENGINES, COUNTS, EAGER)

TABLE: Final[dict[str, Cell]] = {
    # plugins and arguments are drawn
    "any plugins: stories": Cell(
        worlds(),
        (Sound, Rests),
        (*ENGINES, SHUFFLED),
        {"Bind": 1 / 3, "WritePodCondition": 1 / 3},
    ),
    "any plugins: stories with victims": Cell(
        worlds(evicting=True),
        (Sound, Rests),
        (*ALL_FORGETTING, SHUFFLED),
        {"Bind": 1 / 3, "WritePodCondition": 1 / 3, "Evict": 1 / 20},
    ),
    "any plugins: queues that let namespaces in": Cell(
        queue_permissions.reigns(), (queue_permissions.NothingForTheBarred,), worth={"Bind": 1 / 4}
    ),
    # what is written into one namespace about others
    **{
        f"{name}: tenants": Cell(
            tenants.of_tenants(scenarios),
            (tenants.NamesNobodyElse,),
            (),
            dict.fromkeys(("odd", *seen), 1 / 20),
        )
        for name, scenarios, seen in (
            ("any plugins", worlds(evicting=True), ("replaced", "released")),
            ("capacity-card", card_worlds(evicting=True), ("replaced",)),
            ("proportion, repair", repairs.losses("proportion"), ("replaced", "lost")),
            ("native gangs", native_groups.arrivals("default"), ()),
        )
    },
    # gangs of equal pods, and the plugins that limit them
    **{
        f"{plugins}: crowds": Cell(
            crowds.crowds(crowds.QUOTAS[plugins]), (crowds.PlacedInOneGo,), worth={"runs": 1 / 4, "long runs": 1 / 20}
        )
        for plugins in crowds.QUOTAS
    },
    # gangs that hardly fit
    **{
        f"{family}: tight gangs": Cell(
            tight_gangs.attempts(family), (tight_gangs.StartsIfItCan,), worth={"Bind": 1 / 4, "does not fit": 1 / 20}
        )
        for family in tight_gangs.FAMILIES
    },
    # victims, promises and native gangs
    **{
        f"{name}: victims go": Cell(
            eviction.plays(name),
            (eviction.LawfulVictims, *((eviction.TakesFromTheRich,) if name in eviction.RECLAIMING else ())),
            worth={"Bind": 1 / 2, "Evict": 1 / 20},
        )
        for name in eviction.CONFIGURATIONS
    },
    **{
        f"{name}: budgets": Cell(eviction.with_budgets(name), (eviction.KeepsBudget,), (NAIVE,), {"Evict": 1 / 20})
        for name in eviction.CONFIGURATIONS
    },
    "reclaim: leaves the deserved": Cell(
        eviction.leaving_the_deserved(), (eviction.LeavesDeserved,), (NAIVE,), {"Evict": 1 / 4}
    ),
    "preempt: promises": Cell(promises.plays(), (promises.KeepsPromises,), (NAIVE,), {"Evict": 1 / 4}),
    "preempt, mgpu: promises": Cell(promises.card_plays(), (promises.KeepsPromises,), (NAIVE,), {"Evict": 1 / 4}),
    **{
        f"{name}: native gangs": Cell(native_groups.arrivals(name), (native_groups.WholeGangs,), worth={"Bind": 1 / 2})
        for name in native_groups.CONFIGURATIONS
    },
    **{
        f"{name}: gangs lose pods": Cell(
            repairs.losses(name), (repairs.KeepsRoom,), worth={"Bind": 1 / 2, "kept": 1 / 3, "refused": 1 / 20}
        )
        for name in repairs.CONFIGURATIONS
    },
    # plugins with quotas
    **{
        f"capacity {kind}: victims go": Cell(
            capacity.plays(kind, capacity.ALL),
            (capacity.WithinLimits,),
            (*ENGINES, EAGER),
            {"Bind": 1 / 2, "Evict": 1 / 10},
        )
        for kind in capacity.MAKE
    },
    **{
        f"capacity {kind}: reclaim, allocate": Cell(
            capacity.plays(kind, "reclaim, allocate"),
            (capacity.WithinLimits, capacity.KeepsGuarantees),
            (NAIVE,),
            {"Evict": 1 / 10},
        )
        for kind in capacity.MAKE
    },
    **{
        f"capacity {kind}: reclaim": Cell(
            capacity.plays(kind, "reclaim", sessions=1), (capacity.ReclaimsItsDue,), (NAIVE,), {"Evict": 1 / 20}
        )
        for kind in capacity.MAKE
    },
    **{
        f"capacity {kind}: reclaim beyond minima": Cell(
            capacity.without_minimum(kind), (capacity.StaysBetweenDues,), (NAIVE,), {"Evict": 1 / 20}
        )
        for kind in capacity.MAKE
    },
    "proportion in a tree: victims go": Cell(
        proportion.plays(),
        (proportion.WithinCapabilities, proportion.TakesFromTheRicherSide),
        (*ENGINES, EAGER),
        {"Bind": 1 / 2, "Evict": 1 / 10},
    ),
    "drf in a tree: victims go": Cell(
        proportion.plays(plugin="drf"), (), (*ENGINES, EAGER), {"Bind": 1 / 2, "Evict": 1 / 10}
    ),
    "proportion in a tree: reclaim": Cell(
        proportion.plays("reclaim, allocate"),
        (proportion.WithinCapabilities, proportion.TakesFromTheRicherSide),
        (NAIVE,),
        {"Evict": 1 / 10},
    ),
    "capacity-card: stories": Cell(
        card_worlds(),
        CARD_PROPERTIES,
        (*ENGINES, EAGER),
        {
            "held": 1 / 4,
            "full": 1 / 10,
            "InsufficientScalarQuota": 1 / 10,
            "GetTaskRequestResourceFailed": 1 / 20,
            "InsufficientCPUQuota": 1 / 20,
        },
    ),
    "capacity-card: stories with victims": Cell(
        card_worlds(evicting=True), CARD_PROPERTIES, ALL_FORGETTING, {"held": 1 / 4, "Evict": 1 / 20}
    ),
    "capacity-card: gangs wait for quota": Cell(queueing(), (), (NAIVE, EAGER), {"Bind": 1 / 2}),
    "capacity-card: takes back": Cell(
        elastic.takings("cards"),
        (elastic.TakesWhatItDeserves, elastic.EvictsInNoRing),
        worth={"taken": 1 / 5, "gangs": 1 / 20},
    ),
    "capacity-dra: takes back": Cell(
        elastic.takings("devices"),
        (elastic.TakesWhatItDeserves, elastic.EvictsInNoRing),
        worth={"taken": 1 / 5, "gangs": 1 / 20},
    ),
    "capacity-dra: gangs that want devices alone": Cell(gangs(), (WholeGang,), worth={"Bind": 1 / 4}),
    "crossquota: pods and nodes change": Cell(crossquota.worlds(), (crossquota.WithinQuotas,), worth={"Bind": 1 / 4}),
    # plugins of nodes and cards
    "predicates, nodeorder, binpack: busy worlds": Cell(busy_worlds(), worth={"Bind": 3 / 4}),
    "predicates: claims change": Cell(sharing(), (), (NAIVE, EAGER), {"Bind": 1 / 2}),
    "predicates: bindings fail": Cell(failing(), (GivenOnce,), (NAIVE,), {"Bind": 1 / 2}),
    **{
        f"mgpu {policy}: pods come and go": Cell(shifts(policy), (KeepsBooks,), worth={"Bind": 1 / 2})
        for policy in ("binpack", "spread")
    },
    "fragmentation, mgpu: cards": Cell(st.builds(Wave, SEEDS), worth={"Bind": 1}),
    "fragmentation, mgpu: devices": Cell(st.builds(DeviceWave, SEEDS), worth={"Bind": 1}),
}
