"""Who is admitted to a queue of at most four of ten cores: what plugins with quotas of queues agree in."""

from __future__ import annotations

from typing import Any

from volsched.testing.builders import ClusterBuilder, a_cluster


def a_job_to_admit(least: dict[str, str] | None, *, held: int = 0, admitted: int = 0, **spec: Any) -> ClusterBuilder:
    """Return a world in which PodGroup ``new`` wants in with this minimum.

    In its queue ``held`` pods of a core run, of a PodGroup whose minimum is one, and one of ``admitted`` cores is in.
    """
    given = a_cluster().node("n1", cpu=10, memory="10Gi").queue("q", **{"capability": {"cpu": "4"}, **spec})
    given.group("run", "q", phase="Running", minResources={"cpu": "1"})
    for index in range(held):
        given.pod(f"run-{index}", "run", on="n1", cpu=1)
    if admitted:
        given.group("in", "q", phase="Inqueue", minResources={"cpu": str(admitted)})
    return given.group("new", "q", phase="Pending", **({"minResources": least} if least is not None else {}))


ADMISSION: dict[str, tuple[dict[str, Any], bool]] = {
    "nothing asked for": ({"least": None}, True),
    "all that the queue may have": ({"least": {"cpu": "4"}}, True),
    "more than it may have": ({"least": {"cpu": "4001m"}}, False),
    "beside what an admitted job will take": ({"least": {"cpu": "2"}, "admitted": 2}, True),
    "more than an admitted job leaves": ({"least": {"cpu": "2"}, "admitted": 3}, False),
    "what runs beyond its minimum is elastic": ({"least": {"cpu": "3"}, "held": 4}, True),
    "what runs of its minimum is not": ({"least": {"cpu": "4"}, "held": 4}, False),
    "a resource without a limit": ({"least": {"memory": "10Gi"}}, True),
    "more of it than there is": ({"least": {"memory": "11Gi"}}, False),
    "a resource that nobody has": ({"least": {"nvidia.com/gpu": "1"}}, False),
    "none of a resource that nobody has": ({"least": {"nvidia.com/gpu": "0"}}, True),
    "a quota of devices is no resource": (
        {"least": {"cpu": "1"}, "capability": {"cpu": "4", "deviceclass/x": "0"}},
        True,
    ),
}
"""What: (the arguments of ``a_job_to_admit``, whether it is admitted)."""
