"""Random worlds of card nodes, queues with quotas and pods with lists of cards, and stories of what happens in them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.properties.stories import ACTIONS, EVICTING, THEMES, Draws, Manifest, Story, World, happening

GPU, MPS, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
A, H, T = "A100", "H100", "T4"
A_MPS, A_MIG = f"{A}/mps-80g*1/4", f"{A}/mig-1g.5gb-mixed"
QUOTA, NAME, REQUEST = "volcano.sh/card.quota", "volcano.sh/card.name", "volcano.sh/card.request"
DESERVED, GUARANTEE = "volsched.io/card.deserved", "volsched.io/card.guarantee"
GOOD = (A, A, H, f"{A}|{H}", f"{A}|{H}", f"{H}|{A}", f"{A}|{H}|{T}")
ODD = (f" {H} | {T}|", f"Nobody|{A}", "Nobody", f"{A}|{A_MPS}", T)
LISTS = st.integers(0, 5).flatmap(lambda n: st.sampled_from(GOOD if n else ODD))


@dataclass
class CardDraws(Draws):
    """As the draws of other stories, with cards; queues of ``elastic`` ones may say what they deserve."""

    elastic: bool = False

    def node(self, name: str | None = None) -> Manifest:
        draw, node = self.draw, super().node(name)
        product = draw(st.sampled_from([A, A, A, A, H, H, H, T, ""]))
        labels, amounts = node["metadata"]["labels"], node["status"]["allocatable"]
        amounts["cpu"], amounts["pods"] = str(draw(st.integers(4, 12))), "110"
        if product:
            labels |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "4"}
            if draw(st.integers(0, 9)):
                labels["nvidia.com/gpu.memory"] = "81920"
            amounts[GPU] = str(draw(st.sampled_from([4, 4, 3, 2, 0])))
        if product == A and draw(st.integers(0, 2)) == 0:
            labels["nvidia.com/gpu.replicas"] = "4"
            amounts |= {MPS: "4", MIG: "2"}
        return node

    def queue(self, name: str) -> Manifest:
        draw, queue = self.draw, super().queue(name)
        cards = {card: draw(st.integers(0, 4)) for card in (A, H, T, A_MPS, A_MIG) if draw(st.integers(0, 3))}
        text = (
            json.dumps(cards)
            if draw(st.integers(0, 7))
            else draw(st.sampled_from(["", "{", '{"A100": -1, "H100": 2}']))
        )
        queue["metadata"]["annotations"] = {QUOTA: text}
        for key, most, one_in in ((DESERVED, 4, 3), (GUARANTEE, 1, 9)):
            if self.elastic and draw(st.integers(1, one_in)) == one_in:
                said = {card: draw(st.integers(0, most)) for card in (A, H, A_MPS)}
                queue["metadata"]["annotations"][key] = json.dumps(said)
        queue["spec"]["capability"] = {"cpu": str(draw(st.sampled_from([40, 40, 40, 6, 0]))), "memory": "64Gi"}
        queue["spec"]["parent"] = draw(st.sampled_from(["root", "q1", "default"]))
        return queue

    def job(self) -> list[Manifest]:
        group, *pods = super().job()
        if self.draw(st.booleans()):
            wants = {self.draw(LISTS): self.draw(st.integers(0, 5)) for _ in range(self.draw(st.integers(1, 2)))}
            group["metadata"]["annotations"] = {REQUEST: json.dumps(wants)}
        named = self.draw(LISTS)
        for pod in pods if self.draw(st.booleans()) else []:
            if GPU in pod["spec"]["containers"][0]["resources"]["requests"]:
                pod["metadata"]["annotations"][NAME] = named
        return [group, *pods]

    def pod(self, name: str, group: str, spec: Manifest | None = None, app: str = "") -> Manifest:
        pod = super().pod(name, group, spec, app)
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        names = {MPS: st.just(A_MPS), MIG: st.just(A_MIG), GPU: LISTS}
        resource = next((resource for resource in names if resource in requests), None)
        if resource is None and self.draw(st.integers(0, 9)) == 0:
            resource = GPU
        if resource is not None and self.draw(st.integers(0, 9)):
            pod["metadata"]["annotations"][NAME] = self.draw(names[resource])
        return pod

    def pod_spec(self) -> Manifest:
        draw, spec = self.draw, super().pod_spec()
        if draw(st.integers(0, 4)):
            resource = draw(st.sampled_from([GPU, GPU, GPU, GPU, GPU, MPS, MIG]))
            requests = spec["containers"][0]["resources"]["requests"]
            requests[resource] = str(draw(st.sampled_from([1, 1, 2])))
        return spec


@st.composite
def configurations(draw: st.DrawFn, evicting: bool = False) -> str:
    """capacity-card with some arguments, among other plugins in some order."""
    lines = [f'actions: "{draw(st.sampled_from(EVICTING if evicting else ACTIONS))}"', "tiers:"]
    others = ("priority", "gang", "conformance", "overcommit", "predicates", "nodeorder", "binpack", "drf")
    for number, name in enumerate(
        draw(st.permutations([*others[: draw(st.integers(2, len(others)))], "capacity-card"]))
    ):
        if number == 0 or draw(st.integers(0, 3)) == 0:
            lines.append("- plugins:")
        lines.append(f"  - name: {name}")
        if name == "capacity-card":
            switches = {key: draw(st.integers(0, 3)) == 0 for key in ("cardUnlimitedCpuMemory", "strictCardName")}
            switches["checkAncestors"] = draw(st.integers(0, 3)) == 0
            lines.append(f"    arguments: {json.dumps(switches)}")
    return "\n".join(lines)


@st.composite
def card_worlds(draw: st.DrawFn, evicting: bool = False, cycles: int = 4) -> World:
    """A small world of cards and a few cycles in it."""
    drawn = CardDraws(draw, draw(st.sampled_from(THEMES)) if draw(st.booleans()) else frozenset())
    drawn.elastic = evicting
    nodes = [drawn.node() for _ in range(draw(st.integers(1, 4)))]
    names = [node["metadata"]["name"] for node in nodes]
    objects = [*nodes, drawn.queue("q1"), drawn.queue("q2"), drawn.queue("default")]
    objects += drawn.job()[:1]
    objects[-1]["metadata"] |= {"name": "old", "uid": "pg-old"}
    objects += [drawn.placed(names) for _ in range(draw(st.integers(0, 4)))]
    for _ in range(draw(st.integers(1, 5))):
        objects += drawn.job()
    told = [[happening(drawn) for _ in range(draw(st.integers(0, 3)))] for _ in range(cycles - 1)]
    chapters = [[happens for _, happens in chapter] for chapter in told]
    words = [[word for word, _ in chapter] for chapter in told]
    return World(Story(draw(configurations(evicting)), objects, chapters, words))
