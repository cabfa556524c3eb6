"""Scenarios are drawn while they are played, so that what happens is about pods that run and pods that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from tests.plans.cluster import Happening, Manifest
from tests.plans.drawing.configurations import THEMES, Theme, configuration
from tests.plans.drawing.objects import CORE, HOST, MEMORY
from tests.plans.drawing.workloads import QUEUE, Workloads
from tests.plans.scenarios import CHUNKS, Play, Scenario

SEED = 40
CARD = "vke.volcengine.com/gpu-index-container-c"
"""The annotation that tells which cards the container of a pod was given."""


def drawn_scenarios(chunk: int) -> list[Scenario]:
    """Return the scenarios of a chunk: some of each theme, those of a theme with one configuration."""
    found: list[Scenario] = []
    for name, theme in THEMES.items():
        text = configuration(_random(f"{name} configuration {chunk}"), theme, chunk)
        for number in range(chunk, theme.scenarios, CHUNKS):
            title = f"{name} {number}"
            found.append(scenario_of(_random(title), title, theme, text))
    return found


def _random(purpose: str) -> Random:
    """Return draws for a purpose, the same ones each time."""
    return Random(f"{SEED} {purpose}")  # noqa: S311 - nothing secret is drawn


def scenario_of(rng: Random, name: str, theme: Theme, text: str) -> Scenario:
    """Draw one scenario."""
    draws = Workloads(rng, theme.features)
    nodes = [draws.node() for _ in range(draws.some(1, 4))]
    objects = draws.shared() + draws.queues()
    draws.queue_names = tuple(found["metadata"]["name"] for found in objects if found["kind"] == "Queue")
    unlikely = {"top", *(["default"] if "cards" in theme.features else [])}
    if rng.random() < 0.9:
        draws.queue_names = tuple(queue for queue in draws.queue_names if queue not in unlikely)
    objects += [found for node in nodes for found in node]
    slices = [found for node in nodes for found in node if found["kind"] == "ResourceSlice"]
    draws.free_devices = {
        found["spec"]["nodeName"]: [device["name"] for device in found["spec"]["devices"]] for found in slices
    }
    if "old" in theme.features:
        for _ in range(draws.some(2, 3) if draws.tight else 1):
            objects += draws.running([node[0] for node in nodes])
    objects += draws.shared_claim()
    for _ in range(draws.some(1, 3)):
        objects += draws.workload()
    scenario = Scenario(name, text, objects)
    play = Play(scenario)
    play.cycle([])
    count = 3 if "refusals" in theme.features else draws.pick(1, 2, 2)
    for number in range(count):
        chapter = [happening(draws, play) for _ in range(draws.pick(0, 1, 1, 2, 3))]
        if "refusals" in theme.features:
            chapter = list(_refusals(draws, play, number))
        scenario.chapters.append(chapter)
        play.cycle(chapter)
    return scenario


def _refusals(draws: Workloads, play: Play, chapter: int) -> Iterator[Happening]:
    """Yield how pods are refused after they had a node, and then find another cluster than before."""
    groups = [key for key in play.cluster.objects if key.startswith("NativePodGroup/")]
    if chapter == 0:
        yield from ({"refuse": {"verb": "bind", "message": "denied", "retry": 0.5}} for _ in range(draws.some(1, 2)))
        yield {"refuse": {"verb": "start", "message": "Pod was rejected: Node didn't have enough resource: cpu"}}
        yield {"put": draws.workload() + draws.workload()}
        yield from (_rename_queue(key, draws.pick(*draws.queue_names)) for key in groups)
    elif chapter == 1:
        for key in [key for key in play.cluster.objects if key.startswith("Node/")]:
            fewer = {"allocatable": {CORE: "100", MEMORY: "1024"}}
            yield {"patch": [key, draws.pick({"spec": {"unschedulable": True}}, {"status": fewer})]}
    else:
        yield from (_rename_queue(key, "q1") for key in groups)
        yield from ({"finish": [key, "Succeeded"]} for key in play.cluster.objects if key.startswith("Pod/"))
        yield {"wait": 10}


def _rename_queue(key: str, queue: str) -> Happening:
    return {"patch": [key, {"metadata": {"annotations": {QUEUE: queue}}}]}


# -- what happens between cycles --------------------------------------------------------------------------------------


def happening(draws: Workloads, play: Play) -> Happening:
    """Return something that happens to the cluster as it is now; a wait where it has not what that is about."""
    verb = draws.rng.choices(list(_HAPPENINGS), [weight for weight, _ in _HAPPENINGS.values()])[0]
    return _HAPPENINGS[verb][1](draws, play) or {"wait": draws.pick(1, 10, 100, 700)}


def _any(draws: Workloads, play: Play, kind: str, which: Callable[[Manifest], bool] = lambda found: True) -> str:
    """Return the key of an object of a kind, empty when there is none."""
    keys = [key for key, found in play.cluster.objects.items() if key.split("/")[0] == kind and which(found)]
    return draws.rng.choice(keys) if keys else ""


def _runs(pod: Manifest) -> bool:
    return "nodeName" in pod["spec"] and pod["status"].get("phase") == "Running"


def _finish(draws: Workloads, play: Play) -> Happening | None:
    about = _any(draws, play, "Pod", _runs)
    return {"finish": [about, draws.pick("Succeeded", "Succeeded", "Failed")]} if about else None


def _delete_pod(draws: Workloads, play: Play) -> Happening | None:
    about = _any(draws, play, "Pod", _runs if draws.rng.random() < 0.7 else lambda pod: True)
    return {"delete": about} if about else None


def _delete(kind: str) -> Callable[[Workloads, Play], Happening | None]:
    def drawn(draws: Workloads, play: Play) -> Happening | None:
        about = _any(draws, play, kind)
        return {"delete": about} if about else None

    return drawn


def _workload(draws: Workloads, play: Play) -> Happening:
    return {"put": draws.workload()}


def _member(draws: Workloads, play: Play) -> Happening | None:
    """Let a gang have one more pod."""
    about = _any(draws, play, "PodGroup")
    if not about:
        return None
    group = play.cluster.objects[about]["metadata"]
    return {"put": draws.pods(group["name"], 1, group["namespace"])}


def _node(draws: Workloads, play: Play) -> Happening:
    return {"put": draws.node()}


def _change_node(draws: Workloads, play: Play) -> Happening | None:
    about = _any(draws, play, "Node")
    if not about:
        return None
    name = about.split("/")[1]
    other = draws.node(name)[0]
    patch = draws.pick(
        {"status": other["status"]},
        {"spec": other["spec"]},
        {"metadata": {"labels": {**other["metadata"]["labels"], HOST: name}}},
    )
    cordon = {"spec": {"unschedulable": True}}
    return {"patch": [about, draws.pick(patch, patch, cordon)]}


def _change_queue(draws: Workloads, play: Play) -> Happening | None:
    about = _any(draws, play, "Queue", lambda queue: queue["metadata"]["name"] in ("q1", "q2", "q3"))
    if not about:
        return None
    queue = play.cluster.objects[about]
    changed = draws.queue(queue["metadata"]["name"], queue["spec"].get("parent", ""))
    return {"put": [changed]}


def _patch_pod(draws: Workloads, play: Play) -> Happening | None:
    """Let somebody lift all gates of a pod that waits, or change its labels."""
    gated = _any(draws, play, "Pod", lambda pod: bool(pod["spec"].get("schedulingGates")))
    if gated:
        return {"patch": [gated, {"spec": {"schedulingGates": None}}]}
    shared = _any(draws, play, "Pod", lambda pod: _runs(pod) and CARD in pod["metadata"]["annotations"])
    if shared:
        return {"patch": [shared, {"metadata": {"annotations": {CARD: draws.pick("1", "7")}}}]}
    about = _any(draws, play, "Pod")
    return {"patch": [about, {"metadata": {"labels": {"app": draws.pick("x", "y")}}}]} if about else None


def _move_group(draws: Workloads, play: Play) -> Happening | None:
    """Let a PodGroup name another queue."""
    about = _any(draws, play, "PodGroup")
    return {"patch": [about, {"spec": {"queue": draws.pick(*draws.queue_names)}}]} if about else None


def _refuse(draws: Workloads, play: Play) -> Happening:
    if draws.rng.random() < 0.2:
        return {"refuse": {"verb": "evict", "message": "the API server is shutting down"}}
    retry = {} if draws.rng.random() < 0.4 else {"retry": 1.5}
    return {"refuse": {"verb": "bind", "message": "denied by a policy", **retry}}


def _budget(draws: Workloads, play: Play) -> Happening | None:
    about = _any(draws, play, "PodDisruptionBudget")
    return {"patch": [about, {"status": {"disruptionsAllowed": draws.some(0, 2)}}]} if about else None


_HAPPENINGS: dict[str, tuple[int, Callable[[Workloads, Play], Happening | None]]] = {
    "finish": (9, _finish),
    "delete pod": (4, _delete_pod),
    "workload": (10, _workload),
    "member": (3, _member),
    "node": (4, _node),
    "change node": (4, _change_node),
    "delete node": (2, _delete("Node")),
    "change queue": (4, _change_queue),
    "delete queue": (1, _delete("Queue")),
    "patch pod": (3, _patch_pod),
    "move group": (2, _move_group),
    "delete group": (1, _delete("PodGroup")),
    "delete claim": (1, _delete("ResourceClaim")),
    "refuse": (3, _refuse),
    "budget": (1, _budget),
    "wait": (3, lambda draws, play: None),
}
