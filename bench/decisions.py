"""How many placements a second the engine decides.

One session places a backlog of gangs of 16 on empty nodes of eight cards each: four card models, 20 queues, every node
considered for every pod. Nodes and queues are known from an idle session before it; a start is measured in `sessions`.
Counted are pods that got a node, and beside it (decided) those too that were refused and told why, over the CPU time of
the whole session (enqueue, allocate, backfill, closing, statuses and Events made; nothing is sent).

  base      the base plugins (priority, gang, overcommit, predicates, nodeorder, binpack), 60 different pod templates
  own       as base, but every job has its own request, so nothing is shared between jobs
  plain     gang, and a site's own plugin of three predicates and three scores, written plainly, nothing declared
  scalar    as base, but every callback is an ordinary function of (task, node): no scopes, no vector twins
  default   as base, with the configuration that volsched has without any other
  cpu       as base, for pods that ask for no cards
  crossquota  as cpu, with quotas for such pods on each of the nodes, and the scores that come with them
  card      as base, with capacity-card: pods name their cards, half of them two models, and four of 20 queues run dry
  packed    as base, with fragmentation in the place of binpack
  packed-own  as own, with fragmentation in the place of binpack
  mgpu      as base, with mgpu: pods of one card have a part of one instead, eight shared cards a node
  naive     the small engine that asks everything about every node, on a small size, for comparison; same placements

These run when `--variants` names them, since they take minutes on large clusters:

  affinity  as base; pods of a gang have to share a zone, or have to go to different nodes
  spreading  as base; pods of a gang have to spread over zones, and should spread over nodes
  devices   as base, but each pod has a ResourceClaim for devices instead of a request for cards
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import msgspec

from bench import cards, devices, neighbours, shares, worlds
from bench.common import Report, Stopwatch, garbage_as_in_run, parser
from bench.plain import PlainPlugin
from volsched.framework.columns.views import node_view, template_view
from volsched.framework.config.configuration import PluginOption
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.engine.fast import Engine, FastEngine
from volsched.framework.rules import NodeCallbacks, NodeOrder, Predicate
from volsched.framework.signature import Signature
from volsched.model.cluster import Cluster
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import Bind, StepRecorder
from volsched.model.pods.template import PodTemplate
from volsched.registry import load_profile
from volsched.scheduler import Profile, Scheduler
from volsched.testing.naive import NaiveEngine

PODS = {100: 320, 200: 640, 500: 1_600, 1_000: 3_200, 5_000: 16_000, 10_000: 32_000, 50_000: 64_000}
GANG = 16
GANG_ALONE = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
"""
PACKED = worlds.BASE.replace("- name: binpack", "- name: fragmentation")
Callback = TypeVar("Callback", Predicate, NodeOrder)
COMMON = ("base", "own", "plain", "scalar", "default", "card", "cpu", "crossquota", "packed", "packed-own", "mgpu")
VARIANTS = (*COMMON, "affinity", "spreading", "devices")
WITHOUT_CARDS = ("cpu", "crossquota")
KNOWN = ("Node", "Queue", "DeviceClass", "ResourceSlice")
"""Kinds of the objects that are there before the backlog comes."""


class ScalarEngine(FastEngine):
    """The fast engine, told nothing about the callbacks: whatever they declare is taken away."""

    def open(self, callbacks: NodeCallbacks) -> None:
        """Use these callbacks as if they had been registered without any word."""
        super().open(
            NodeCallbacks(
                [plain(predicate) for predicate in callbacks.predicates],
                [plain(order) for order in callbacks.node_orders],
                callbacks.batch_orders,
                callbacks.best_nodes,
            )
        )


def plain(callback: Callback) -> Callback:
    """Take every word away that makes it faster, but for the template: a function of what all of a node is shown.

    No pod here has a constraint between pods, which would need its key.
    """
    view = callback.signature.pod

    def of_all(template: PodTemplate, node: NodeInfo) -> Any:
        return callback.fn(template_view(template, view), node_view(callback.signature.node, node))

    if view == "task":
        return callback
    rule = msgspec.structs.replace(callback, fn=of_all, vector=None)
    return rule.reading(Signature("template", "node", is_typed=True))


def waiting(
    nodes: int, variant: str, engine: Callable[[Cluster], Engine] = FastEngine
) -> tuple[Scheduler, StepRecorder]:
    """Return a scheduler that knows the nodes and gets a backlog now, and what takes its steps."""
    listed = backlog(nodes, variant)
    known = [item for item in listed if item["kind"] in KNOWN]
    scheduler, recorder = worlds.a_scheduler(known, profile_of(variant), engine)
    scheduler.cycle()
    scheduler.mirror.apply(worlds.puts(item for item in listed if item["kind"] not in KNOWN))
    return scheduler, recorder


def backlog(nodes: int, variant: str) -> list[worlds.Json]:
    """Return the objects of a cluster with so many nodes, and gangs that wait."""
    own, with_cards = variant.endswith("own"), variant not in WITHOUT_CARDS
    gangs = worlds.gangs(PODS[nodes] // GANG, GANG, 20, own_requests=own, with_cards=with_cards)
    objects: Iterable[worlds.Json] = [*worlds.nodes(nodes), *gangs]
    dressed = {
        "card": cards.with_quotas,
        "affinity": neighbours.with_affinity,
        "spreading": neighbours.with_spreading,
        "devices": devices.in_place_of_cards,
        "mgpu": shares.in_place_of_cards,
    }
    return list(dressed[variant](objects) if variant in dressed else objects)


def decide(nodes: int, variant: str, engine: Callable[[Cluster], Engine]) -> dict[str, Any]:
    """Place one backlog; what it took."""
    scheduler, recorder = waiting(nodes, variant, engine)
    with garbage_as_in_run():
        watch = Stopwatch()
        scheduler.cycle()
        cpu, wall = watch.cpu(), watch.wall()
    used = scheduler.engine
    placed = {step.name: step.node for step in recorder.steps if isinstance(step, Bind)}
    refused = sum(task.refusal is not None for task in scheduler.mirror.cluster.tasks.values())
    return {
        "placed": placed,
        "decided": len(placed) + refused,
        "cpu": cpu,
        "wall": wall,
        "callbacks": used.nodes.callbacks_asked if isinstance(used, FastEngine) else 0,
        "rows": used.nodes.rows_scored if isinstance(used, FastEngine) else 0,
        "templates": len({task.template.id for task in scheduler.mirror.cluster.tasks.values()}),
    }


def profile_of(variant: str) -> Profile:
    """Return the plugins of a variant, built."""
    if variant == "plain":
        profile = load_profile(GANG_ALONE)[0]
        return replace(profile, plugins=(*profile.plugins, ((PluginOption(PlainPlugin.name), PlainPlugin()),)))
    texts = {
        "default": DEFAULT_CONFIGURATION,
        "card": cards.CONFIGURATION,
        "crossquota": worlds.BASE + worlds.CROSSQUOTA,
        "mgpu": shares.CONFIGURATION,
        "packed": PACKED,
        "packed-own": PACKED,
    }
    return load_profile(texts.get(variant, worlds.BASE))[0]


def best_of(repeats: int, nodes: int, variant: str, engine: Callable[[Cluster], Engine]) -> dict[str, Any]:
    """Return the run that took least CPU time."""
    return min((decide(nodes, variant, engine) for _ in range(repeats)), key=lambda run: run["cpu"])


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--nodes", type=int, nargs="+", choices=PODS, default=[1_000, 5_000, 10_000, 50_000])
    options.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(COMMON))
    options.add_argument("--repeats", type=int, default=3, help="the best counts")
    options.add_argument("--naive", type=int, choices=PODS, default=100, help="nodes of the comparison")
    options.add_argument("--no-naive", action="store_true")
    given = options.parse_args()
    report = Report("decisions", "placements decided per CPU second, gangs of 16, every node considered")
    for variant in given.variants:
        engine = ScalarEngine if variant == "scalar" else FastEngine
        rates = {}
        for nodes in given.nodes:
            run = best_of(given.repeats, nodes, variant, engine)
            rates[nodes] = add_row(report, variant, nodes, run)
        if len(rates) > 1:
            least, most = min(rates), max(rates)
            report.note(f"{variant}: {rates[least] / rates[most]:.1f} times slower at {most:,} nodes than at {least:,}")
    if not given.no_naive:
        fast, naive = (best_of(1, given.naive, "base", engine) for engine in (FastEngine, NaiveEngine))
        if fast["placed"] != naive["placed"]:
            raise SystemExit("the engines disagree")
        ratio = add_row(report, "fast", given.naive, fast) / add_row(report, "naive", given.naive, naive)
        report.note(
            f"same placements; the fast engine is {ratio:.0f} times faster than the naive one at {given.naive} nodes"
        )
    report.note("bars: base 40,000 at 5,000 nodes, at most 3 times slower from 1,000 to 50,000; plain 15,000")
    report.finish()


def add_row(report: Report, variant: str, nodes: int, run: dict[str, Any]) -> float:
    """Add a run's row; its rate."""
    placed = len(run["placed"])
    rate: float = placed / run["cpu"]
    report.add(
        variant=variant,
        nodes=nodes,
        pods=PODS[nodes],
        templates=run["templates"],
        placed=placed,
        per_cpu_s=round(rate),
        decided_per_cpu_s=round(run["decided"] / run["cpu"]),
        us_per_pod=run["cpu"] / placed * 1e6,
        per_s=round(placed / run["wall"]),
        callbacks_per_pod=run["callbacks"] / placed,
        rows_per_pod=run["rows"] / placed,
    )
    return rate


if __name__ == "__main__":
    main()
