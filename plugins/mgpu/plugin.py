"""mgpu: GPU cards shared by containers, and several cards for one container, placed as well as possible.

After the design of a plugin for Volcengine's mGPU that was proposed to Volcano.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from plugins.mgpu.devices import CARD_IDS, POLICY
from plugins.mgpu.devices import MGPU as NAME
from plugins.mgpu.requests import MIN_MEMORY, MULTIPLE
from plugins.mgpu.results import ASSUMED, INDEX
from plugins.mgpu.scoring import Strategy
from volsched.plugin import AnnotationTypes, Argument, Registrar

ENABLE: Final = "predicate.MGPUEnable"
CARD_POLICY: Final = "predicate.MGPUPolicy"
WEIGHT_OF_CORE: Final = "predicate.MGPUWeightOfCore"
SCHEDULE_MODE: Final = "predicate.MGPUScheduleMode"
MOST_CONTAINERS: Final = "predicate.MGPUMaxContainersPerCard"
LEAST_MEMORY: Final = "predicate.MGPUMinMemory"
UP_TO: Final = "predicate.MGPUMaxContainersNumPolicyValid"
NODE_ORDER_WEIGHT: Final = "predicate.MGPUNodeOrderWeight"


class MGPUPlugin:
    """Registers the rules. The usage of cards follows the cluster between sessions."""

    name: ClassVar[str] = NAME
    POD_ANNOTATIONS: ClassVar[tuple[str, ...]] = (POLICY, MULTIPLE)
    TASK_ANNOTATIONS: ClassVar[tuple[str, ...]] = (ASSUMED, f"{INDEX}*")
    RESULT_ANNOTATIONS: ClassVar[tuple[str, ...]] = TASK_ANNOTATIONS
    NODE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (CARD_IDS,)
    ANNOTATION_TYPES: ClassVar[AnnotationTypes] = {
        POLICY: "word",
        MULTIPLE: "numbers",
        ASSUMED: "truth",
        CARD_IDS: "ids",
        f"{INDEX}*": ("ids", "ids"),
    }
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = (
        Argument(ENABLE, "bool", False, "Whether the plugin does anything.", expected=True),
        Argument(
            CARD_POLICY,
            "str",
            "binpack",
            "Fill cards one after the other, or use all alike.",
            choices=("binpack", "spread"),
            any_case=True,
        ),
        Argument(WEIGHT_OF_CORE, "int", 20, "Percent that core counts; memory has the rest.", minimum=0, maximum=100),
        Argument(SCHEDULE_MODE, "str", "index", "How cards are told to a pod.", choices=("index", "id"), any_case=True),
        Argument(MOST_CONTAINERS, "int", 16, "Containers on one card; the driver's limit.", minimum=1),
        Argument(LEAST_MEMORY, "int", MIN_MEMORY, "MiB that a part of a card has at least.", minimum=1),
        Argument(UP_TO, "int", 5, "Taken from the plugin proposed for Volcano, where nothing reads it.", minimum=0),
        Argument(NODE_ORDER_WEIGHT, "int", 1, "How much cards count in the node's score.", minimum=0),
    )

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._strategy = Strategy(
            packs=arguments[CARD_POLICY] == "binpack",
            weight_of_core=arguments[WEIGHT_OF_CORE],
            most_instances=arguments[MOST_CONTAINERS],
        )

    def on_session_open(self, registrar: Registrar) -> None:
        """Register everything, unless the plugin is off."""
        if not self._arguments[ENABLE]:
            return
        from plugins.mgpu.accounts import register  # noqa: PLC0415 - clusters without shared cards need none of them

        register(
            registrar,
            self._strategy,
            least_memory=self._arguments[LEAST_MEMORY],
            weight=self._arguments[NODE_ORDER_WEIGHT],
            by_id=self._arguments[SCHEDULE_MODE] == "id",
        )
