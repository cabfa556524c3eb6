"""What a tenant changes: running pods and their PodGroups grow beyond what is kept of one namespace, or are deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

from drills.world import World, wait_until
from tests.cluster.scheduling import GROUPS
from tools.controlplane.errors import ApiServerError

_NOTES: Final = "scheduling.k8s.io/group-name"
_DURATION: Final = "volsched.io/expected-duration"
_QUEUE: Final = "hostile"
_PATIENCE: Final = 120.0


def grow(there: World, space: str, count: int) -> int:
    """Start pods and have them and their PodGroups grow, or be deleted. Return how many changes were taken."""
    names = [f"grows-{number}" for number in range(count)]
    for name in names:
        there.make_group(space, name, minMember=1, queue=_QUEUE)
    there.make_pods(space, [there.pod(name, group=name, cpu="10m") for name in names])
    running: set[str] = set()

    def all_run() -> bool:
        found = there.pods(space)
        running.update(name for name in names if found.get(name, {}).get("spec", {}).get("nodeName"))
        return len(running) == count

    wait_until(all_run, _PATIENCE)
    taken = 0
    for number, name in enumerate(sorted(running)):
        with contextlib.suppress(ApiServerError):  # what the API server refuses harms nobody
            _GROWTHS[number % len(_GROWTHS)](there, space, name)
            taken += 1
    return taken


def _of_pod(body: Any) -> Callable[[World, str, str], None]:
    def patch(there: World, space: str, name: str) -> None:
        there.api.patch(f"/api/v1/namespaces/{space}/pods/{name}", body)

    return patch


def _of_group(body: Any) -> Callable[[World, str, str], None]:
    def patch(there: World, space: str, name: str) -> None:
        there.api.patch(f"{GROUPS}/namespaces/{space}/podgroups/{name}", body)

    return patch


def _delete_group(there: World, space: str, name: str) -> None:
    there.api.delete(f"{GROUPS}/namespaces/{space}/podgroups/{name}")


def _tolerate(there: World, space: str, name: str) -> None:
    """Add tolerations, which is all that may be added to the spec of a pod that runs."""
    path = f"/api/v1/namespaces/{space}/pods/{name}"
    known = there.api.get(path)["spec"].get("tolerations", [])
    more = [{"key": f"t{number}", "operator": "Exists"} for number in range(3_000)]
    there.api.patch(path, {"spec": {"tolerations": [*known, *more]}})


_GROWTHS: Final[tuple[Callable[[World, str, str], None], ...]] = (
    _of_pod({"metadata": {"annotations": {_DURATION: "9" * 200_000}}}),
    _of_pod({"metadata": {"annotations": {_DURATION: "1s"}}}),
    _of_pod({"metadata": {"annotations": {"volcano.sh/card.name": ", ".join(f"card-{n}" for n in range(20_000))}}}),
    _of_pod({"metadata": {"labels": {f"k{n}": f"v{n}" for n in range(8_000)}}}),
    _tolerate,
    _of_pod({"metadata": {"annotations": {_NOTES: "another"}}}),
    _of_group({"metadata": {"annotations": {"volcano.sh/sla-waiting-time": "9" * 200_000}}}),
    _of_group({"spec": {"minTaskMember": {f"role-{n}": 1 for n in range(5_000)}}}),
    _of_group({"spec": {"minResources": {f"example.com/r{n}": "1" for n in range(2_500)}}}),
    _of_group({"spec": {"minResources": {"cpu": "900"}, "minMember": 900}}),
    _of_group({"spec": {"minResources": {"n" * 200_000: "1"}}}),
    _of_group({"spec": {"queue": "honest"}}),
    _delete_group,
)
"""How objects in use grow, or change what they count for. Each once filled memory, or an account of another."""
