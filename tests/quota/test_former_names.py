"""Former names of the quota engine still work, and warn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.framework.stage import Stage
from volsched.framework.dra.accounts import DeviceAccounts
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_ALLOCATED
from volsched.quota.reclaim import Elastic
from volsched.quota.usage import QueueUsageObserver
from volsched.testing.builders import a_cluster


class FormerView:
    """What queues hold and deserve, by the names that these had."""

    def levels(self, queue: str) -> Sequence[str]:
        return (queue,)

    def held(self, queue: str, key: str) -> int:
        return 1

    def due(self, queue: str, key: str) -> int | None:
        return 2

    def wanted(self, task: TaskInfo) -> Mapping[str, int]:
        return {"cards": 1}

    def holds(self, victim: TaskInfo, task: TaskInfo) -> Mapping[str, int]:
        return {}

    def frees(self, queue: str, victims: Sequence[TaskInfo], task: TaskInfo) -> Mapping[str, int]:
        return {}


def test_a_reclaim_view_with_former_names_is_asked_by_these() -> None:
    view: Any = FormerView()
    with pytest.warns(DeprecationWarning, match=r"FormerView\.held ends with the next minor version; it is allocated"):
        quota = Elastic[str](view)

    task: Any = None
    assert quota.applies_to(task)
    assert (view.allocated("q", "cards"), view.deserved("q", "cards")) == (1, 2)


def test_usage_catches_up_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="it is refresh"):
        QueueUsageObserver(Stage(a_cluster()).cluster).catch_up()


def test_accounts_of_devices_have_their_former_names() -> None:
    accounts: Any = DeviceAccounts(Stage(a_cluster()).cluster, counts=IS_ALLOCATED)
    heard: list[str] = []

    with pytest.warns(DeprecationWarning, match="is up to date without it"):
        accounts.catch_up()
    with pytest.warns(DeprecationWarning, match="it is on_claim_changed"):
        accounts.turned = heard.append
    with pytest.warns(DeprecationWarning, match=r"read DeviceAccounts\.generation"):
        assert accounts.era == accounts.generation

    accounts.on_claim_changed("ns/claim")
    assert heard == ["ns/claim"]
