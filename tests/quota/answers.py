"""All that the plugins with quotas answer in random worlds, as text: to compare two commits.

    python -m tests.quota.answers capacity 0 10000 > old    in a clone of one commit
    python -m tests.quota.answers capacity 0 10000 > new    in a clone of another one
    diff old new                                             which worlds differ
    python -m tests.quota.answers capacity 4711              all answers in one world

A world is decided by its number alone. It lives through a few sessions. In each, when it opens and when it closes,
every queue, job and pod is asked about: order, votes, headrooms, refusals, victims, usage, consumers, suggestions and
metrics. The steps of each session are noted as well.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

from tests.plugins.capacity_card.worlds import DESERVED, GPU, GUARANTEE, QUOTA, CardDraws
from tests.properties.lives import FAST, Reader
from tests.properties.stories import THEMES, Manifest, Story, World, happening
from volsched.cli.inputs.look import Look
from volsched.cli.views.queues import described
from volsched.framework.config.configuration import PluginOption
from volsched.framework.registration import Registrar
from volsched.framework.rules import SessionClose
from volsched.framework.session import Session
from volsched.model.job import JobInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.status import IS_CHOSEN, TaskStatus
from volsched.model.verdict import Verdict
from volsched.scheduler import Profile, Scheduler

PLUGINS: Final = ("capacity", "proportion", "capacity-dra", "capacity-card", "drf")
CLASS: Final = "deviceclass/gpu"
HIERARCHY, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
NAMES: Final = ("q1", "q2", "near", "far", "default")
_BESIDE: Final = ("priority", "gang", "conformance", "predicates", "nodeorder")
_ACTIONS: Final = ("enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill", "allocate, reclaim")
_ARGUMENTS: Final[Mapping[str, tuple[tuple[str, tuple[Any, ...]], ...]]] = {
    "capacity": (("ancestorReclaimLevel", (0, 1, 2)),),
    "proportion": (("reclaimLeavesDeserved", (False, True)), ("usage.halfLife", ("0s", "0s", "60s"))),
    "capacity-dra": (
        ("draConsumableCapacityEnable", (True, True, False)),
        ("draStrictCapacity", (False, False, True)),
        ("capacity-dra.unlistedClasses", ("allow", "allow", "deny")),
    ),
    "capacity-card": (
        ("cardUnlimitedCpuMemory", (False, True)),
        ("strictCardName", (False, False, True)),
        ("usage.halfLife", ("0s", "0s", "60s")),
    ),
    "drf": (("usage.halfLife", ("0s", "0s", "60s")),),
}


class QuotaDraws(CardDraws):
    """Worlds of queues in a tree that state limits, what they deserve and guarantees, of all that plugins count."""

    def queue(self, name: str) -> Manifest:
        dice, queue = self.dice, super().queue(name)
        spec, notes = queue["spec"], queue["metadata"]["annotations"]
        spec["parent"] = dice.choice(("root", "root", "near", "far", "", "nowhere" if dice.random() < 0.2 else "near"))
        spec["weight"] = dice.choice((0, 1, 1, 2, 5))
        spec["reclaimable"] = dice.random() < 0.9
        spec.update(self._amounts())
        spec["dra"] = self._devices()
        if dice.random() < 0.3:
            for key in (QUOTA, DESERVED, GUARANTEE):
                notes.pop(key, None)
        if dice.random() < 0.5:
            way = dice.choice(("root/near", "root/sci/dev", f"root/{name}", "far", "sci//", "root/sci/near/x"))
            notes[HIERARCHY] = way
            if dice.random() < 0.6:
                notes[WEIGHTS] = "/".join(dice.choice(("1", "2", "0.5", "10", "x")) for _ in way.split("/"))
        return queue

    def _amounts(self) -> Manifest:
        dice, found = self.dice, dict[str, Any]()
        for field, chance, most in (("capability", 0.5, 12), ("deserved", 0.6, 6), ("guarantee", 0.3, 3)):
            if dice.random() < chance:
                listed: Manifest = {}
                for name, unit in (("cpu", ""), ("memory", "Gi"), (GPU, ""), ("pods", ""), (CLASS, "")):
                    if dice.random() < (0.7 if name in ("cpu", "memory") else 0.25):
                        listed[name] = f"{dice.randint(0, most)}{unit}"
                found[field] = {"resource": listed} if field == "guarantee" else listed
            else:
                found[field] = {}
        return found

    def _devices(self) -> Manifest | None:
        if self.dice.random() < 0.4:
            return None
        parts = (("capability", 3), ("deserved", 2), ("guarantee", 1))
        return {part: {"gpu": {"count": self.dice.randint(0, n)}} for part, n in parts if self.dice.random() < 0.6}

    def job(self) -> list[Manifest]:
        group, *pods = super().job()
        group["spec"]["queue"] = self.dice.choice(NAMES)
        return [group, *pods]


def a_configuration(dice: Random, plugin: str) -> str:
    """The plugin in some tier, with some arguments and switches, after others."""
    arguments = {name: dice.choice(values) for name, values in _ARGUMENTS[plugin]}
    switches: dict[str, Any] = {"enableHierarchy": True} if dice.random() < 0.6 else {}
    own = json.dumps({"name": plugin, "arguments": arguments, **switches})
    beside = dice.sample(_BESIDE, dice.randint(3, len(_BESIDE)))
    lines = [f'actions: "{dice.choice(_ACTIONS)}"', "tiers:", "- plugins:"]
    lines += [f"  - name: {name}" for name in beside]
    lines += ["- plugins:"] * (dice.random() < 0.7)
    lines += [f"  - {own}"]
    if plugin == "capacity" and dice.random() < 0.2:
        lines += ["  - name: drf"]
    return "\n".join(lines)


def a_story(number: int, plugin: str, cycles: int = 2) -> Story:
    """Roll a world and a few cycles in it."""
    dice = Random(f"{plugin}-{number}")  # noqa: S311 - a game
    features = frozenset(dice.choice(THEMES)) if dice.random() < 0.3 else frozenset[str]()
    features |= {"classes"} | ({"gates"} if dice.random() < 0.3 else frozenset())
    if plugin == "capacity-dra" or dice.random() < 0.2:
        features |= {"devices"}
    drawn = QuotaDraws(dice, features, elastic=True)
    nodes = [drawn.node() for _ in range(dice.randint(2, 5))]
    objects = [*nodes, *map(drawn.queue, NAMES)]
    for name, value in (("low", 1), ("high", 10)):
        meta = {"name": name, "uid": name}
        version = "scheduling.k8s.io/v1"
        objects.append({"apiVersion": version, "kind": "PriorityClass", "metadata": meta, "value": value})
    objects += [drawn.old_group(evicting=True)]
    objects += drawn.placed([node["metadata"]["name"] for node in nodes], evicting=True)
    for _ in range(dice.randint(2, 4)):
        objects += drawn.job()
    told = [[happening(drawn) for _ in range(dice.randint(1, 4))] for _ in range(cycles - 1)]
    chapters = [[happens for _, happens in chapter] for chapter in told]
    words = [[word for word, _ in chapter] for chapter in told]
    return Story(a_configuration(dice, plugin), objects, chapters, words)


class Witness:
    """A plugin that registers last, and asks everything when a session opens and when it closes."""

    name = "witness"

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def on_session_open(self, registrar: Registrar) -> None:
        session = registrar.session
        self.answers.append(dict(_asked(session)))
        registrar.register(SessionClose(lambda: self.answers.append(dict(_asked(session)))))


def _asked(session: Session) -> Iterator[tuple[str, Any]]:
    cluster, rules = session.cluster, session.rules
    queues = [cluster.queues[name] for name in sorted(cluster.queues)]
    tasks = sorted(cluster.tasks.values(), key=lambda task: task.key)
    waiting = [task for task in tasks if task.job is not None and task.status is TaskStatus.PENDING]
    alike = list({task.template.id: task for task in reversed(waiting)}.values())
    takers = list({(task.queue, task.template.id): task for task in reversed(waiting)}.values())[:4]
    ranks = sorted(queues, key=rules.queue_key)
    yield "order", [queue.name for queue in ranks]
    yield "overused", {queue.name: _verdict(rules.overused(queue)) for queue in queues}
    yield (
        "headroom",
        {
            f"{queue.name} {task.name}": [_room(headroom(queue, task.template)) for headroom in rules.headrooms]
            for queue in queues
            for task in alike
        },
    )
    yield (
        "may preempt",
        {
            f"{queue.name} {task.name}": [
                session.may_preempt(queue, [task]),
                session.may_preempt(queue, [task, *alike]),
            ]
            for queue in queues
            for task in alike[:3]
        },
    )
    yield (
        "refusal",
        {
            task.name: _verdict(session.allocatable_refusal(cluster.queues[task.queue], task))
            for task in waiting
            if task.queue in cluster.queues
        },
    )
    jobs = sorted(cluster.jobs.values(), key=lambda job: job.key)
    yield "vote", {job.key: _verdict(rules.enqueue_refusal(job)) for job in jobs if job.queue in cluster.queues}
    yield "victims", {task.name: _victims(session, task, tasks) for task in takers if task.queue in cluster.queues}
    yield "devices", {task.name: _plain(rules.device_limits(task)) for task in takers if task.queue in cluster.queues}
    yield "metrics", {series.name: _plain(numbers) for series, numbers in session.series()}
    yield "queue -o json", _queue_json(session)
    yield (
        "amounts",
        [
            [queue.name, _plain(found.allocated), _plain(found.inqueue), _plain(found.capability), found.beside]
            for amounts in session.reported(lambda report: report.amounts)
            for queue in queues
            for found in [amounts(queue)]
        ],
    )
    yield "consumers", {job.key: sorted(_consumers(session, job)) for job in jobs}
    yield (
        "suggestions",
        {
            job.key: [
                [
                    found.sort,
                    found.text(3, [key for _, key in found.objects]),
                    found.most,
                    found.is_each,
                    found.is_alternative,
                ]
                for of in session.reported(lambda report: report.suggestions)
                for found in of(job)
            ]
            for job in jobs
            if job.queue in cluster.queues
        },
    )


def _consumers(session: Session, job: JobInfo) -> Iterator[list[str]]:
    why = _why(session, job)
    for consumers in session.reported(lambda report: report.consumers) if why is not None else ():
        yield from ([*map(str, found)] for found in consumers(job, why))


def _why(session: Session, job: JobInfo) -> Verdict | None:
    """Why the job, or else one of its pods, is refused now; not a refusal of a queue that the job has left since."""
    queue = session.cluster.queues.get(job.queue)
    if queue is None:
        return None
    found = (session.allocatable_refusal(queue, task) for task in job.waiting.values())
    return session.rules.enqueue_refusal(job) or next((verdict for verdict in found if verdict is not None), None)


def _victims(session: Session, task: TaskInfo, tasks: list[TaskInfo]) -> Any:
    rules, queue = session.rules, session.cluster.queues[task.queue]
    placed = [each for each in tasks if each.job is not None and IS_CHOSEN[each.status]]
    others = [each for each in placed if each.queue != task.queue and each.queue in session.cluster.queues]
    own = [each for each in placed if each.queue == task.queue]
    return [
        [victim.name for victim in rules.reclaimable(task, others)],
        [victim.name for victim in rules.reclaimable(task, others[::-1])],
        [victim.name for victim in rules.reclaimable_by_share(task, others)],
        [victim.name for victim in rules.preemptable(task, own)],
        [victim.name for victim in rules.in_order_of_victims(task, others)],
        rules.is_within_deserved(queue, task),
    ]


def _queue_json(session: Session) -> Any:
    usages = [usage() for usage in session.reported(lambda report: report.usage)]
    tables = [table() for table in session.reported(lambda report: report.table)]
    if not usages:
        return [_plain([table.objects() for table in tables])]
    usage = usages[0]
    seen = Look(usage, usage.cards, tables, is_limited=True, objects=(), jobs=session.cluster.jobs)
    return described(seen, _About(), {name: [] for name in usage.queues})


class _About:
    origin = ""
    arguments: Mapping[str, Any] = {}


def _room(found: Any) -> Any:
    return [found.count, found.at_once, _verdict(found.refusal)]


def _verdict(found: Verdict | None) -> Any:
    return None if found is None else str(found)


def _plain(found: Any) -> Any:
    """Amounts by any keys, as text in a fixed order."""
    return sorted(map(str, found.items())) if isinstance(found, Mapping) else found


def answers(number: int, plugin: str) -> list[Any]:
    """Live through a world, and return what was asked and decided."""
    world = World(a_story(number, plugin))
    reader, witness = Reader(world, FAST), Witness()
    tiers = (*reader.profile.plugins, ((PluginOption(witness.name), witness),))
    profile = Profile(reader.profile.configuration, reader.profile.actions, tiers)
    reader.scheduler = Scheduler(reader.mirror, profile, reader.recorder, reader.clock, reader.kind.engine)
    found: list[Any] = []
    for _ in range(world.sessions):
        steps = reader.cycle(world.changes())
        found.append([*witness.answers, [str(step) for step in steps]])
        witness.answers.clear()
        world.carry_out(reader)
        reader.clock.time += 17.0
    return found


def main() -> None:
    plugin, first, *count = sys.argv[1:]
    if not count:
        sys.stdout.write(a_story(int(first), plugin).configuration + "\n")
        sys.stdout.write(json.dumps(answers(int(first), plugin), indent=1, default=str) + "\n")
        return
    for number in range(int(first), int(first) + int(count[0])):
        try:
            text = json.dumps(answers(number, plugin), default=str)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
        sys.stdout.write(f"{number} {len(text)} {hashlib.sha256(text.encode()).hexdigest()[:16]}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
