"""A Volcano Job whose pods will have ResourceClaims, in a queue that may hold fewer devices, on a real API server."""

from __future__ import annotations

import json
import uuid

from tests.cluster.controlling import AT_WORK, Controlled
from tests.cluster.scheduling import GROUPS, Json, still
from tests.cluster.test_resource_claims import Fleet, devices_of, fleet, from_template

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

__all__ = ["fleet"]

CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: capacity-dra
"""


def test_a_job_whose_claims_are_above_the_quota_has_no_pods_until_they_are_not(
    controlled: Controlled, namespace: str, fleet: Fleet
) -> None:
    fleet.make_template("one")
    queue = controlled.queue(f"q-{uuid.uuid4().hex[:6]}", weight=1, dra=quota_of(fleet, 2))
    path = controlled.folder / "scheduler.conf"
    path.write_text(CONFIGURATION)
    controlled.start("--scheduler-conf", str(path)).wait_leading()
    controlled.control().wait_for(AT_WORK)
    task = controlled.task("worker", 3)
    task["template"]["spec"] |= from_template("one")

    controlled.job(namespace, "train", [task], queue=queue)

    [group] = controlled.wait_groups(namespace, 1)
    told = json.loads(group["metadata"]["annotations"]["volsched.io/resource-claims"])
    assert told == {"worker": [{"name": "gpu", "template": "one"}]}
    name = group["metadata"]["name"]
    refusal = controlled.wait_event(namespace, name, "InsufficientDRAQuota")
    assert "requested 3, used 0, total would be 3, but capability is 2" in refusal["message"]
    still(lambda: controlled.pods(namespace) == {}, 1.5)

    controlled.api.patch(f"{GROUPS}/queues/{queue}", {"spec": {"dra": quota_of(fleet, 3)}})

    controlled.wait_bound(namespace, 3)
    assert sum(len(devices_of(found)) for found in fleet.api.items(fleet.claims)) == 3


def quota_of(fleet: Fleet, count: int) -> Json:
    return {"capability": {fleet.name: {"count": count}}}
