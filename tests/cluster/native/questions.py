"""kube-scheduler plays the cases of its own gangs, so that a case that asks too much is found out.

What volsched makes of the cases is tested each time; what kube-scheduler makes of them is recorded.
"""

from __future__ import annotations

import inspect
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final

from tests.cluster.native import claims, groups, preemption, situations, stage, topology
from tests.cluster.native.stage import API_FLAGS, GATES, NativeStage, make_classes
from tests.framework.dra import worlds
from tests.judges.answers import Answers, Cases, Question
from tools.controlplane import ControlPlane, ControlPlaneError, objects, stages
from tools.controlplane.binaries import KUBERNETES_VERSION, Report

Case = Callable[[NativeStage], None]

MODULES: Final = (groups, preemption, topology, claims, situations)
COMES_TRUE: Final = "comes true"
"""The answer that each case should have."""

_PROGRAM: Final = (Path(__file__), *(Path(str(m.__file__)) for m in (stage, worlds, objects, stages)))


def cases_of(module: ModuleType) -> dict[str, Case]:
    """Return the cases of a module by their names."""
    found: tuple[Case, ...] = module.CASES
    return {case.__name__: case for case in found}


def _question(module: ModuleType) -> Question:
    name = module.__name__.rpartition(".")[-1]

    def cases() -> Cases:
        return dict.fromkeys(cases_of(module), inspect.getsource(module))

    def ask(cases: Cases, report: Report) -> Answers:
        return _play({case: cases_of(module)[case] for case in cases}, report)

    return Question(
        name=f"gangs-{name}",
        about=f"Kubernetes' own gangs: whether kube-scheduler makes the cases of {name}.py come true",
        judge=f"kube-scheduler {KUBERNETES_VERSION}",
        file=Path(__file__).with_name("answers") / f"{name}.jsonl",
        asking=_PROGRAM,
        cases=cases,
        ask=ask,
    )


QUESTIONS: Final = tuple(_question(module) for module in MODULES)


def _play(cases: dict[str, Case], report: Report) -> Answers:
    """Play the cases, one after the other, on one control plane with kube-scheduler."""
    answers = {}
    with ControlPlane(feature_gates=GATES, api_flags=API_FLAGS) as cluster:
        make_classes(cluster)
        _check_version(cluster.start_kube_scheduler().command[0])
        for number, (name, case) in enumerate(cases.items(), 1):
            began = time.monotonic()
            answers[name] = _answer(cluster, case)
            report(f"{number} of {len(cases)} cases, {time.monotonic() - began:.0f} s: {name} {answers[name]}")
    return answers


def _answer(cluster: ControlPlane, case: Case) -> str:
    played = NativeStage(cluster, cluster.create_namespace(f"native-{uuid.uuid4().hex[:8]}"))
    try:
        case(played)
    except AssertionError as error:
        return f"fails: {error}"
    finally:
        played.clear()
    return COMES_TRUE


def _check_version(program: str) -> None:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if said != f"Kubernetes {KUBERNETES_VERSION}":
        raise ControlPlaneError(
            f"{program} is {said}, and the judge is kube-scheduler {KUBERNETES_VERSION}: "
            "unset KUBEBUILDER_ASSETS, or take that program off PATH"
        )
