"""Who goes together."""

from __future__ import annotations

import pytest

from volsched.framework.eviction_units import departing
from volsched.testing.builders import Rig, a_cluster, a_rig

CONFIGURATION = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'


def a_gang(minimum: int, *roles: str, least: dict[str, int] | None = None, waiting: int = 0) -> Rig:
    cluster = a_cluster().node("n1").queue("default")
    cluster.group("g", minimum=minimum, phase="Running", **({"minTaskMember": least} if least else {}))
    for number, role in enumerate(roles):
        cluster.pod(f"p{number}", "g", on="n1", annotations=_role(role), cpu=1)
    for number in range(waiting):
        cluster.pod(f"w{number}", "g", cpu=1000)
    return a_rig(cluster, CONFIGURATION)


def _role(name: str) -> dict[str, str]:
    return {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": name}


def together(rig: Rig, victim: str) -> list[str]:
    tasks = {task.name: task for task in rig.cluster.tasks.values()}
    return [task.name for task in departing(tasks[victim])]


@pytest.mark.parametrize(
    ("minimum", "count", "gone"), [(0, 2, 1), (1, 1, 1), (1, 2, 1), (2, 2, 2), (2, 3, 1), (3, 2, 2)]
)
def test_the_rest_goes_too_when_fewer_than_the_minimum_would_be_left(minimum: int, count: int, gone: int) -> None:
    rig = a_gang(minimum, *["w"] * count)

    assert len(together(rig, "p1" if count > 1 else "p0")) == gone


def test_the_victim_is_first_and_those_who_wait_stay() -> None:
    assert together(a_gang(3, "w", "w", "w", waiting=2), "p1") == ["p1", "p0", "p2"]


def test_a_role_s_minimum_counts() -> None:
    rig = a_gang(2, "driver", "worker", "worker", "worker", least={"driver": 1, "worker": 1})

    assert together(rig, "p1") == ["p1"]
    assert together(rig, "p0") == ["p0", "p1", "p2", "p3"]
