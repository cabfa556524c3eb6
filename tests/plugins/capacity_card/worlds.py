"""Random worlds of card nodes, queues with quotas and pods with lists of cards, and stories of what happens in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from tests.properties.stories import ACTIONS, EVICTING, THEMES, Draws, Manifest, Story, World, happening

GPU, MPS, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"
A, H, T = "A100", "H100", "T4"
A_MPS, A_MIG = f"{A}/mps-80g*1/4", f"{A}/mig-1g.5gb-mixed"
QUOTA, NAME, REQUEST = "volcano.sh/card.quota", "volcano.sh/card.name", "volcano.sh/card.request"
DESERVED, GUARANTEE = "volsched.io/card.deserved", "volsched.io/card.guarantee"
GOOD = (A, A, H, f"{A}|{H}", f"{A}|{H}", f"{H}|{A}", f"{A}|{H}|{T}")
ODD = (f" {H} | {T}|", f"Nobody|{A}", "Nobody", f"{A}|{A_MPS}", T)


@dataclass
class CardDraws(Draws):
    """As the draws of other stories, with cards; queues of ``elastic`` ones may say what they deserve."""

    elastic: bool = False

    def node(self, name: str | None = None) -> Manifest:
        dice, node = self.dice, super().node(name)
        product = dice.choice([A, A, A, A, H, H, H, T, ""])
        labels, amounts = node["metadata"]["labels"], node["status"]["allocatable"]
        amounts["cpu"], amounts["pods"] = str(dice.randint(4, 12)), "110"
        if product:
            labels |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "4"}
            if dice.randint(0, 9):
                labels["nvidia.com/gpu.memory"] = "81920"
            amounts[GPU] = str(dice.choice([4, 4, 3, 2, 0]))
        if product == A and dice.randint(0, 2) == 0:
            labels["nvidia.com/gpu.replicas"] = "4"
            amounts |= {MPS: "4", MIG: "2"}
        return node

    def queue(self, name: str) -> Manifest:
        dice, queue = self.dice, super().queue(name)
        cards = {card: dice.randint(0, 4) for card in (A, H, T, A_MPS, A_MIG) if dice.randint(0, 5)}
        text = json.dumps(cards) if dice.randint(0, 11) else dice.choice(["", "{", '{"A100": -1, "H100": 2}'])
        queue["metadata"]["annotations"] = {QUOTA: text}
        for key, most, one_in in ((DESERVED, 4, 3), (GUARANTEE, 1, 9)):
            if self.elastic and dice.randint(1, one_in) == one_in:
                said = {card: dice.randint(0, most) for card in (A, H, A_MPS)}
                queue["metadata"]["annotations"][key] = json.dumps(said)
        queue["spec"]["capability"] = {"cpu": str(dice.choice([40, 40, 40, 6, 0])), "memory": "64Gi"}
        queue["spec"]["parent"] = dice.choice(["root", "root", "root", "root", "q1", "default"])
        return queue

    def card_list(self) -> str:
        """Cards in the order in which they are wanted; one in nine is odd."""
        return self.dice.choice(GOOD if self.dice.randint(0, 8) else ODD)

    def job(self) -> list[Manifest]:
        group, *pods = super().job()
        if self.dice.choice((False, True)):
            wants = {self.card_list(): self.dice.randint(0, 5) for _ in range(self.dice.randint(1, 2))}
            group["metadata"]["annotations"] = {REQUEST: json.dumps(wants)}
        named = self.card_list()
        for pod in pods if self.dice.choice((False, True)) else []:
            if GPU in pod["spec"]["containers"][0]["resources"]["requests"]:
                pod["metadata"]["annotations"][NAME] = named
        return [group, *pods]

    def pod(self, name: str, group: str, spec: Manifest | None = None, app: str = "") -> Manifest:
        pod = super().pod(name, group, spec, app)
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        names = {MPS: A_MPS, MIG: A_MIG}
        resource = next((resource for resource in (*names, GPU) if resource in requests), None)
        if resource is None and self.dice.randint(0, 9) == 0:
            resource = GPU
        if resource is not None and self.dice.randint(0, 9):
            pod["metadata"]["annotations"][NAME] = names.get(resource) or self.card_list()
        return pod

    def pod_spec(self) -> Manifest:
        dice, spec = self.dice, super().pod_spec()
        if dice.randint(0, 4):
            resource = dice.choice([GPU, GPU, GPU, GPU, GPU, MPS, MIG])
            requests = spec["containers"][0]["resources"]["requests"]
            requests[resource] = str(dice.choice([1, 1, 2]))
        return spec


def a_configuration(dice: Random, evicting: bool = False) -> str:
    """capacity-card with some arguments, among other plugins in some order."""
    lines = [f'actions: "{dice.choice(EVICTING if evicting else ACTIONS)}"', "tiers:"]
    others = ("priority", "gang", "conformance", "overcommit", "predicates", "nodeorder", "binpack", "drf")
    plugins = [*others[: dice.randint(2, len(others))], "capacity-card"]
    for number, name in enumerate(dice.sample(plugins, len(plugins))):
        if number == 0 or dice.randint(0, 3) == 0:
            lines.append("- plugins:")
        lines.append(f"  - name: {name}")
        if name == "capacity-card":
            switches = {key: dice.randint(0, 3) == 0 for key in ("cardUnlimitedCpuMemory", "strictCardName")}
            switches["checkAncestors"] = dice.randint(0, 3) == 0
            lines.append(f"    arguments: {json.dumps(switches)}")
    return "\n".join(lines)


def card_worlds(evicting: bool = False) -> st.SearchStrategy[World]:
    """Small worlds of cards and a few cycles in each."""
    return st.integers(0, 1 << 30).map(lambda seed: World(a_story(Random(seed), evicting)))  # noqa: S311 - a game


def a_story(dice: Random, evicting: bool = False, cycles: int = 4) -> Story:
    """Roll a small world of cards and a few cycles in it."""
    features = dice.choice(THEMES) if dice.choice((False, True)) else frozenset()
    drawn = CardDraws(dice, features | {"classes"} if evicting else features, elastic=evicting)
    nodes = [drawn.node() for _ in range(dice.randint(2, 4))]
    names = [node["metadata"]["name"] for node in nodes]
    objects = [*nodes, drawn.queue("q1"), drawn.queue("q2"), drawn.queue("default")]
    objects += [drawn.old_group(evicting), *drawn.placed(names, evicting)]
    for _ in range(dice.randint(2, 5)):
        objects += drawn.job()
    told = [[happening(drawn) for _ in range(dice.randint(1, 4))] for _ in range(cycles - 1)]
    chapters = [[happens for _, happens in chapter] for chapter in told]
    words = [[word for word, _ in chapter] for chapter in told]
    return Story(a_configuration(dice, evicting), objects, chapters, words)
