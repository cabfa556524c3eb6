"""A bound on what is kept of objects: who is refused, who is not, and what happens once there is room."""

from __future__ import annotations

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import GROUPS, Installed, eventually

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

REFUSED = 'volsched_quarantined_objects{kind="PodGroup",where="memory"}'
LARGE, MANY = 20_000, 30
BOUND = MANY * LARGE * 3 // 5
"""There is room for more than half of the objects, so all that are refused find room once the others are gone."""


def test_one_namespace_fills_the_memory_and_nobody_else_is_refused(
    installed: Installed, namespace: str, other_namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    scheduler = installed.start("--kept-bytes", str(BOUND)).wait_leading()

    groups = f"{GROUPS}/namespaces/{namespace}/podgroups"
    for number in range(MANY):
        wish = {"volsched.io/expected-duration": "x" * LARGE}
        installed.make_group(namespace, f"large-{number}", minMember=3)
        installed.api.patch(f"{groups}/large-{number}", {"metadata": {"annotations": wish}})
    eventually(lambda: scheduler.metric(REFUSED) > 0)
    installed.make_gang(other_namespace, "g", 2, cpu="100m")
    installed.wait_bound(other_namespace, 2)

    assert scheduler.metric("volsched_kept_bytes") <= scheduler.metric("volsched_kept_bytes_limit")
    installed.wait_event(namespace, "", "NoMemory")
    told = [event for event in installed.events(namespace) if event["reason"] == "NoMemory"]
    assert all(namespace in event["message"] and "--kept-bytes" in event["message"] for event in told)
    assert not [event for event in installed.events(other_namespace) if event["reason"] == "NoMemory"]
    refused = {event["involvedObject"]["name"] for event in told}
    for number in range(MANY):
        if f"large-{number}" not in refused:
            installed.api.delete(f"{groups}/large-{number}")
    eventually(lambda: scheduler.metric(REFUSED) == 0, timeout=120)
