"""Signals after which a forbidden act of a process would be visible: tests wait for these, not for some seconds.

The API server sends the objects of one kind in the order in which they were written. A process that acts on a marker,
which was made last, has therefore seen everything of the marker's kinds that was there before.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.cluster.controlling import Controlled, ControllersProcess
from tests.cluster.scheduling import GROUPS, Installed, Json, LoggedProcess, SchedulerProcess, eventually
from tools.controlplane import a_node

SESSIONS: Final = "volsched_session_duration_seconds_count"
BINDS: Final = ("bind", "volumes")
STATUSES: Final = ("statuses.waiting",)
PODS: Final = "/api/v1/namespaces/default/pods"
DEVICES: Final = "/apis/resource.k8s.io/v1"

_VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
_LANE: Final = re.compile(r'volsched_(lane_depth\{lane|memory_objects\{table)="(?P<lane>[a-z.]+)"\} (?P<depth>.+)')
"""A lane, or a table that counts what is under way as well."""

_PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")


# -- every process ---------------------------------------------------------------------------------------------------


def ready(*processes: LoggedProcess) -> None:
    """Return once processes have listed everything; what disturbs them then disturbs processes that work.

    A leader also logs when it begins; a follower does not. A test that waits for the leader alone disturbs a follower
    that still lists for the first time.
    """
    for process in processes:
        eventually(lambda process=process: process.page("/readyz")[0] == 200, what="ready")  # type: ignore[misc]


def table(process: LoggedProcess, name: str) -> float:
    """How many entries a table of a process has."""
    return process.metric(f'volsched_memory_objects{{table="{name}"}}')


# -- the scheduler ---------------------------------------------------------------------------------------------------


def after_session(installed: Installed, *, lanes: Sequence[str] = BINDS, devices: bool = False) -> None:
    """Return once the newest scheduler has decided about all that was there, and has written these lanes.

    The marker is a pod that fits one node only, which was made with it, in a queue and a PodGroup that were made with
    it; with `devices` it needs a device as well. It asks for nothing else, so that no quota keeps it away: a
    configuration without the action backfill places it only with `devices`. The session that places the marker has
    seen all earlier objects of these kinds, and decides about every pod. A later session ends after that session. All
    its decisions are written when no write waits.
    """
    process = installed.processes[-1]
    name = f"marker-{uuid.uuid4().hex[:8]}"
    with _marker(installed, name, devices=devices):
        installed.api.wait_for(f"{PODS}/{name}", lambda pod: "nodeName" in pod["spec"])
        _end_of_a_session(process, lambda: touch(installed, name))
        after_writes(process, lanes)


def after_sessions(
    process: SchedulerProcess, count: int, cause: Callable[[], object], *, lanes: Sequence[str] = BINDS
) -> None:
    """Return once so many new sessions have ended and all their decisions are written.

    `cause` changes something, so that a session is held. What a session does without need was done so many times.
    """
    for _ in range(count + 1):  # the first that ends may have begun before
        _end_of_a_session(process, cause)
    after_writes(process, lanes)


def after_writes(process: SchedulerProcess, lanes: Sequence[str] = BINDS) -> None:
    """Return once no write waits in these lanes; what the sessions before have decided is then at the API server."""

    def is_done() -> bool:
        waiting = _waiting(process)
        return not any(waiting[lane] for lane in lanes)

    eventually(is_done, what=f"nothing waits in {lanes}")


def touch(installed: Installed, node: str) -> None:
    """Change a Node in a way that no decision depends on: the scheduler holds a session for it."""
    note = {"metadata": {"annotations": {"example.com/touched": uuid.uuid4().hex}}}
    installed.api.patch(f"/api/v1/nodes/{node}", note)


def _end_of_a_session(process: SchedulerProcess, cause: Callable[[], object]) -> None:
    """Wait until a session ends, for which there is a cause."""
    before = process.metric(SESSIONS)
    cause()
    eventually(lambda: process.metric(SESSIONS) > before, what="another session")


def _waiting(process: SchedulerProcess) -> dict[str, float]:
    """How many writes wait or are under way in each lane at one moment: a binding goes from one lane to another."""
    found: dict[str, float] = {}
    for line in process.page("/metrics")[1].splitlines():
        if (match := _LANE.fullmatch(line)) is not None:
            found[match["lane"]] = float(match["depth"])
    return found


@contextlib.contextmanager
def _marker(installed: Installed, name: str, *, devices: bool) -> Iterator[None]:
    """A node, a queue, a PodGroup and a pod that belong together and are of no use to any other pod."""
    api = installed.api
    kind = {"apiVersion": _VOLCANO, "metadata": {"name": name}}
    taint = {"key": "example.com/marker", "value": name, "effect": "NoSchedule"}
    api.create("/api/v1/nodes", a_node(name, cpu="0", memory="0", pods=1, taints=[taint]))
    api.create(f"{GROUPS}/queues", {**kind, "kind": "Queue", "spec": {"parent": "root"}})
    spec: Json = {"nodeSelector": {"kubernetes.io/hostname": name}, "tolerations": [{"operator": "Exists"}]}
    if devices:
        spec |= _make_device(installed, name)
    api.create(
        f"{GROUPS}/namespaces/default/podgroups", {**kind, "kind": "PodGroup", "spec": {"minMember": 1, "queue": name}}
    )
    api.create(PODS, installed.pod(name, group=name, spec=spec))
    try:
        yield
    finally:
        api.delete(f"{PODS}/{name}", grace_seconds=0)
        for path in (f"{GROUPS}/namespaces/default/podgroups", f"{GROUPS}/queues", "/api/v1/nodes"):
            api.delete(f"{path}/{name}")
        if devices:
            for path in ("resourceslices", "deviceclasses", "namespaces/default/resourceclaims"):
                api.delete(f"{DEVICES}/{path}/{name}")


def _make_device(installed: Installed, name: str) -> Json:
    """Make a device of the marker's node, and a claim for it; return what a pod says that uses the claim."""
    api, driver = installed.api, f"{name}.example.com"
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec: Json = {"driver": driver, "nodeName": name, "pool": pool, "devices": [{"name": "d0"}]}
    api.create(f"{DEVICES}/resourceslices", {"metadata": {"name": name}, "spec": spec})
    of_driver = {"cel": {"expression": f"device.driver == '{driver}'"}}
    api.create(f"{DEVICES}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": [of_driver]}})
    request = {"name": "one", "exactly": {"deviceClassName": name}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    api.create(f"{DEVICES}/namespaces/default/resourceclaims", claim)
    return {"resourceClaims": [{"name": "one", "resourceClaimName": name}]}


# -- the controllers -------------------------------------------------------------------------------------------------


def after_round(controlled: Controlled) -> None:
    """Return once the newest controllers have handled all earlier objects and have written the results.

    The markers are a Queue and a plain pod that names it. The Queue has a state once the controllers have seen it. The
    controllers count the pod's PodGroup in the Queue once they have seen that PodGroup, which they made for the pod.
    Queues, pods and PodGroups that were there before waited for their look before, and all looks are over when no work
    waits.
    """
    process = controlled.controllers[-1]
    name = f"marker-{uuid.uuid4().hex[:8]}"
    controlled.queue(name)
    pod = controlled.pod(name)
    pod["metadata"]["annotations"] = {"scheduling.volcano.sh/queue-name": name}
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "none"}
    controlled.api.create(PODS, pod)
    try:
        controlled.wait_queue(name, state="Open")
        eventually(lambda: _groups(process, name) == 1, what="the marker's PodGroup is counted")
        after_work(process)
    finally:
        controlled.api.delete(f"{PODS}/{name}", grace_seconds=0)
        controlled.api.delete(f"{GROUPS}/queues/{name}")


def after_seen_queues(controlled: Controlled) -> None:
    """Return once the newest controllers, which stand aside, have seen all Queues, and no work waits.

    The marker is a Queue that was made last: there are figures of it once it is known. A Queue is noted and put among
    the work in one step, so work for one would be seen here.
    """
    process, name = controlled.controllers[-1], controlled.queue(f"marker-{uuid.uuid4().hex[:8]}")
    eventually(lambda: f'queue_name="{name}"' in process.page("/metrics")[1], what="the marker is seen")
    after_work(process)
    controlled.api.delete(f"{GROUPS}/queues/{name}")


def after_work(process: ControllersProcess) -> None:
    """Return once the controllers have no work: none waits, none is under way, and none is to be done later."""
    eventually(lambda: not table(process, "work.waiting"), what="no work of the controllers waits")


def after_looks(process: ControllersProcess, kind: str, cause: Callable[[], object], *, failed: bool = False) -> None:
    """Return once the controllers have looked at an object of a kind after `cause`; `failed` wants a look that fails.

    A look ends with its writes, so what the look would do is done.
    """
    sample = f'volsched_controllers_reconcile{"_errors" if failed else "s"}_total{{kind="{kind}"}}'
    before = process.metric(sample)
    cause()
    eventually(lambda: process.metric(sample) > before, what=f"another look at a {kind}")


def after_seen_pods(process: ControllersProcess, count: int) -> None:
    """Return once controllers that stand aside know so many pods without a PodGroup, and no work waits.

    The pod is noted and put among the work in one step, so work for the pod would be seen here.
    """
    sample = "volsched_controllers_pods_without_group"
    eventually(lambda: process.metric(sample) >= count, what=f"{count} pods without a PodGroup are seen")
    after_work(process)


def _groups(process: ControllersProcess, queue: str) -> float:
    """How many PodGroups the controllers count in a queue."""
    return sum(
        process.metrics(*(f'volcano_queue_pod_group_{phase}_count{{queue_name="{queue}"}}' for phase in _PHASES))
    )
