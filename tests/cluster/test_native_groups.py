"""Kubernetes' own gangs on a real control plane with all gates on, by kube-scheduler and by volsched in its place.

The cases are those of kube-scheduler's own integration tests, and what it was seen to do. kube-scheduler is tried, too,
so that a case that asks too much is found out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.native import claims, differences, groups, preemption, situations, topology
from tests.cluster.native.ours import DIRECT, start_ours
from tests.cluster.native.stage import NativeStage
from volsched.framework.config.loading import IN_KUBE_SCHEDULERS_PLACE
from volsched.testing.controlplane import ControlPlane

pytest_plugins = ["tests.cluster.native.fixtures"]

KUBE, OURS = "kube-scheduler", "volsched"


@pytest.fixture(scope="module", params=[KUBE, OURS])
def scheduler(
    request: pytest.FixtureRequest, gated_cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """One of both, for all pods of the cluster."""
    if request.param == KUBE:
        gated_cluster.start_kube_scheduler()
        yield KUBE
        gated_cluster.stop_kube_scheduler()
        return
    flags = (*DIRECT, "--leader-elect-resource-name", "volsched")
    folder = tmp_path_factory.mktemp("ours")
    process = start_ours(gated_cluster, folder, "default-scheduler", IN_KUBE_SCHEDULERS_PLACE, *flags)
    yield OURS
    process.close()


@pytest.fixture
def stage(gated_cluster: ControlPlane, scheduler: str) -> Iterator[NativeStage]:
    found = NativeStage(gated_cluster, gated_cluster.create_namespace(f"native-{uuid.uuid4().hex[:8]}"))
    yield found
    found.clear()


Case = Callable[[NativeStage], None]
CASES: tuple[Case, ...] = (*groups.CASES, *preemption.CASES, *topology.CASES, *claims.CASES, *situations.CASES)


def _name_of(case: Case) -> str:
    return case.__name__


@pytest.mark.parametrize("case", CASES, ids=_name_of)
def test_a_case_of_kube_scheduler_comes_true(stage: NativeStage, case: Case) -> None:
    case(stage)


@pytest.mark.parametrize("scheduler", [OURS], indirect=True)
@pytest.mark.parametrize("case", differences.CASES, ids=_name_of)
def test_a_difference_is_as_documented(stage: NativeStage, case: Case) -> None:
    case(stage)
