"""Kubernetes' own gangs on a real control plane with all gates on, by volsched in kube-scheduler's place.

The cases are those of kube-scheduler's own integration tests, and what it was seen to do. kube-scheduler is tried, too,
so that a case that asks too much is found out: `tests/judges/test_gangs.py` has its recorded answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.cluster.native import differences
from tests.cluster.native.ours import DIRECT, Settled, start_ours
from tests.cluster.native.questions import MODULES, Case, cases_of
from tests.cluster.native.stage import NativeStage
from tools.controlplane import ControlPlane
from tools.controlplane.objects import DEFAULT_SCHEDULER
from volsched.framework.config.loading import IN_KUBE_SCHEDULERS_PLACE

pytest_plugins = ["tests.cluster.native.fixtures"]


@pytest.fixture(scope="module")
def settled(gated_cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settled]:
    """volsched for all pods of the cluster, and how to wait until it has decided."""
    flags = (*DIRECT, "--leader-elect-resource-name", "volsched")
    folder = tmp_path_factory.mktemp("ours")
    process = start_ours(gated_cluster, folder, DEFAULT_SCHEDULER, IN_KUBE_SCHEDULERS_PLACE, *flags)
    settled = Settled(gated_cluster, process, DEFAULT_SCHEDULER)
    yield settled
    settled.close()
    process.close()


@pytest.fixture
def stage(gated_cluster: ControlPlane, settled: Settled) -> Iterator[NativeStage]:
    namespace = gated_cluster.create_namespace(f"native-{uuid.uuid4().hex[:8]}")
    found = NativeStage(gated_cluster, namespace, settle=settled)
    yield found
    found.clear()


CASES = {name: case for module in MODULES for name, case in cases_of(module).items()}
DIFFERENCES = cases_of(differences)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_of_kube_scheduler_comes_true(stage: NativeStage, case: Case) -> None:
    case(stage)


@pytest.mark.parametrize("case", DIFFERENCES.values(), ids=DIFFERENCES)
def test_a_difference_is_as_documented(stage: NativeStage, case: Case) -> None:
    case(stage)
