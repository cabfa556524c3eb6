"""Leaders are struck at random moments while work comes and goes; another takes over, and nothing is done twice.

Five blows: SIGKILL, SIGSTOP (and SIGCONT once the other has long led), a partition between the leader and the API
server, a Lease that somebody steals (another name is written into it and kept fresh for a while, or it is deleted), and
a late renewal: SIGSTOP until the leader may write no more and nobody else may lead yet, and then a renewal that takes a
second. What it has to write in that second it may not, and that must not be forgotten.

They hit the leader of the scheduler and that of the controllers in turn. A leader that ended is started again, as its
Deployment would do, and waits as a follower before the next blow falls.

Who writes is known from the proxies, of which each replica has its own. A write is *stray* when the replica that sends
it was not the last one that got the Lease. A robbed leader is no rule's victim: nobody may take a Lease that has not
ended. It notices when it next renews, and how long it wrote on until then has a bar of its own.

Overruns, gangs in part and pods bound twice are the auditor's, which reads the API server at every event.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from drills.audit import Auditor
from drills.load import Load, furnish
from drills.report import Report
from drills.world import Replica, World, world
from tests.cluster.controlling import LEASE as CONTROLLERS_LEASE
from tests.cluster.scheduling import LEASE as SCHEDULERS_LEASE
from tools.controlplane.faults import Latency
from tools.controlplane.request_counts import NO_ANSWER, Write

LATE: Final = "late renewal"
ROBBED: Final = "stolen Lease"
BLOWS: Final = ("SIGKILL", "SIGSTOP", "partition", ROBBED, LATE)
PATIENCE_SECONDS: Final = 180.0
WRITES_ON_SECONDS: Final = 4.0
"""For how long a robbed leader may write on: a retry period of 2 s, what its renewal takes, and what is under way."""

RENEWAL_SECONDS: Final = 1.0
"""What the renewal takes that is late."""

ANSWER_SECONDS: Final = 10.0
"""A Lease whose answer was not seen after that long got none."""

NOTED_SECONDS: Final = 1.0
"""How long it takes at most until a write that was sent on stands in a journal."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried."""

    each: int = 100
    kinds: tuple[str, ...] = BLOWS
    per_minute: int = 300
    stop_seconds: float = 60.0
    partition_seconds: float = 30.0
    theft_seconds: float = 8.0
    late_seconds: float = 10.5
    """A leader is stopped for so long that renews late: past the renew deadline, and not past the end of its Lease."""
    takeover_seconds: float = 22.0
    pause_seconds: float = 5.0
    """Between two blows passes a second, and at random up to so many more."""
    drain_seconds: float = 180.0
    seed: int = 1
    flags: tuple[str, ...] = ()
    """Flags of the replicas beside what they ship with."""


@dataclass(slots=True)
class Side:
    """Schedulers or controllers: the replicas, their Lease, and what their proxies wrote down."""

    name: str
    lease: str
    replicas: list[Replica]
    world: World
    holder: Replica | None = None
    """Whose proxy last passed on a Lease that was taken or renewed."""
    taken_at: list[tuple[float, Replica]] = field(default_factory=list)
    """When a Lease was taken or renewed since the last blow, and through whose proxy."""
    unjudged: list[tuple[Write, Replica]] = field(default_factory=list)
    writes: int = 0
    strays: list[str] = field(default_factory=list)

    def identity(self, replica: Replica) -> str:
        """The name by which a replica's process is known in the Lease."""
        return str(replica.process.wait_for("waiting for leadership")["identity"])

    def record(self) -> dict[str, Any]:
        """The Lease's spec, empty when there is none."""
        found = self.world.api.find(self.lease)
        return dict(found["spec"]) if found else {}

    def leader(self) -> Replica:
        """The replica that holds the Lease, once one does."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            held_by = self.record().get("holderIdentity")
            for replica in self.replicas:
                if not replica.has_ended and self.identity(replica) == held_by:
                    return replica
            time.sleep(0.1)
        raise TimeoutError(f"nobody leads the {self.name}: {self.record()}")

    def read_journals(self) -> list[tuple[Write, Replica]]:
        """Take what was written since the last time, in order, and note the stray writes.

        What follows a Lease that was not answered yet waits to be judged: whose it is then is not known. So do writes
        that are so young that an earlier one of another replica may be missing here.
        """
        complete_until = time.monotonic() - NOTED_SECONDS
        taken = [(write, replica) for replica in self.replicas for write in replica.proxy.counts.take_journal()]
        taken.sort(key=lambda each: each[0].at)
        self.unjudged = sorted(self.unjudged + taken, key=lambda each: each[0].at)
        while self.unjudged and self.unjudged[0][0].at < complete_until and not _is_open(self.unjudged[0][0]):
            self._judge(*self.unjudged.pop(0))
        return taken

    def settle(self) -> None:
        """Read the journals until everything that was written before is judged."""
        now = time.monotonic()
        self.read_journals()
        while self.unjudged and self.unjudged[0][0].at < now:
            time.sleep(0.1)
            self.read_journals()

    def _judge(self, write: Write, replica: Replica) -> None:
        if is_of_lease(write):
            if write.status in (200, 201):
                self.holder = replica
                self.taken_at.append((write.at, replica))
            return
        self.writes += 1
        if self.holder is not None and replica is not self.holder:
            which = self.replicas.index(replica)
            self.strays.append(f"{self.name} {which}: {write.verb} {write.path} ({write.status}), not leading")


@dataclass(slots=True)
class Blow:
    """One blow, and what came of it."""

    kind: str
    side: str
    at: float = 0.0
    """From when the takeover counts: of a theft, from when the thief let go."""
    takeover: float | None = None
    """None when the same leader went on, as it may when its Lease was deleted."""
    wrote_on: float = 0.0
    """For how long a robbed leader went on writing."""
    faults: list[str] = field(default_factory=list)


def is_of_lease(write: Write) -> bool:
    """Whether a write is that of a Lease."""
    return "/leases" in write.path


def _is_open(write: Write) -> bool:
    """Whether nobody knows yet what came of a Lease: no answer was seen, and there may be one."""
    is_young = time.monotonic() - write.at < ANSWER_SECONDS
    return is_of_lease(write) and write.status == NO_ANSWER and is_young


class Striker:
    """Strikes leaders, sees who takes over, and brings back who ended."""

    def __init__(self, there: World, sides: list[Side], settings: Settings, rng: random.Random) -> None:
        self.blows: list[Blow] = []
        self.unstruck: list[str] = []
        """Who lost its Lease without a blow, as on a machine that is too busy, and was started again."""
        self._world = there
        self._sides = sides
        self._settings = settings
        self._rng = rng
        self._strike: dict[str, Callable[[Side, Replica, Blow], None]] = {
            "SIGKILL": self._kill,
            "SIGSTOP": self._stop,
            "partition": self._cut_off,
            ROBBED: self._rob,
            LATE: self._delay_renewal,
        }

    def strike(self, kind: str, side: Side) -> Blow:
        """Strike the leader of one side, wait until another leads, and until its follower is back."""
        for each in self._sides:
            each.read_journals()
        self.bring_back_others()
        victim = side.leader()
        side.taken_at.clear()
        blow = Blow(kind, side.name, time.monotonic())
        self.blows.append(blow)
        self._strike[kind](side, victim, blow)
        for each in self._sides:
            each.settle()
        if blow.takeover is not None:
            blow.takeover = self._measured(side, victim, blow)
        return blow

    def _measured(self, side: Side, victim: Replica, blow: Blow) -> float:
        """Seconds from the blow to the first Lease of another: of a robbed leader also that of its own successor."""
        may_be_victim = blow.kind == ROBBED
        taken = (at for at, who in side.taken_at if at > blow.at and (may_be_victim or who is not victim))
        return next(taken, float("inf")) - blow.at

    # -- blows ----------------------------------------------------------------------------------------------------

    def _kill(self, side: Side, victim: Replica, blow: Blow) -> None:
        name = side.identity(victim)
        self._world.killed.add(victim.pid)
        victim.process.kill()
        self._see_takeover(side, victim, name, blow)
        self._bring_back(victim)

    def _stop(self, side: Side, victim: Replica, blow: Blow) -> None:
        name = side.identity(victim)
        victim.process.process.send_signal(signal.SIGSTOP)
        self._see_takeover(side, victim, name, blow)
        time.sleep(max(0.0, blow.at + self._settings.stop_seconds - time.monotonic()))
        victim.process.process.send_signal(signal.SIGCONT)
        self._see_end(victim, blow)

    def _cut_off(self, side: Side, victim: Replica, blow: Blow) -> None:
        name = side.identity(victim)
        victim.proxy.partition(True)
        self._see_takeover(side, victim, name, blow)
        time.sleep(max(0.0, blow.at + self._settings.partition_seconds - time.monotonic()))
        victim.proxy.partition(False)
        self._see_end(victim, blow)

    def _rob(self, side: Side, victim: Replica, blow: Blow) -> None:
        if self._rng.random() < 0.5:
            self._delete_lease(side, victim, blow)
            return
        name, robbed_at = side.identity(victim), time.monotonic()
        while time.monotonic() < robbed_at + self._settings.theft_seconds:
            self._write_lease(side, f"thief-{len(self.blows)}")
            blow.at = time.monotonic()
            time.sleep(1.0)
        self._see_end(victim, blow, bring_back=False)
        last = max((w.at for w, who in side.read_journals() if who is victim and not is_of_lease(w)), default=robbed_at)
        blow.wrote_on = max(0.0, last - robbed_at)
        self._bring_back(victim)
        self._see_takeover(side, victim, name, blow)

    def _delay_renewal(self, side: Side, victim: Replica, blow: Blow) -> None:
        """Have it renew late; then it leads on, or ends because it could not write something meanwhile."""
        name = side.identity(victim)
        late = victim.proxy.inject(Latency(RENEWAL_SECONDS), method="PUT", path="/leases/", times=1)
        victim.process.process.send_signal(signal.SIGSTOP)
        time.sleep(self._settings.late_seconds)
        blow.at = time.monotonic()
        victim.process.process.send_signal(signal.SIGCONT)
        deadline = blow.at + PATIENCE_SECONDS
        while not victim.has_ended and not self._leads_on(side, victim, blow):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the leader of the {side.name} neither ends nor renews: {side.record()}")
            time.sleep(0.1)
        late.remove()
        if victim.has_ended:
            self._see_takeover(side, victim, name, blow)
            self._see_end(victim, blow)

    def _leads_on(self, side: Side, victim: Replica, blow: Blow) -> bool:
        """Whether it has renewed twice since: after the first time it may find that it has to end."""
        side.read_journals()
        return sum(who is victim and at > blow.at for at, who in side.taken_at) >= 2

    def _write_lease(self, side: Side, thief: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._world.api.patch(side.lease, {"spec": {"holderIdentity": thief, "renewTime": now}})

    def _delete_lease(self, side: Side, victim: Replica, blow: Blow) -> None:
        """Delete it; whoever is first makes it anew, and if that is a follower the leader ends."""
        name = side.identity(victim)
        self._world.api.delete(side.lease)
        blow.at = time.monotonic()
        now_held_by = self._wait_holder(side, victim, lambda holder: holder in self._names(side))
        if now_held_by != name:
            blow.takeover = time.monotonic() - blow.at
            self._see_end(victim, blow)

    # -- what comes of it -----------------------------------------------------------------------------------------

    def _names(self, side: Side) -> set[str]:
        return {side.identity(replica) for replica in side.replicas if not replica.has_ended}

    def _wait_holder(self, side: Side, victim: Replica, is_right: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            holder = str(side.record().get("holderIdentity") or "")
            if is_right(holder):
                return holder
            self.bring_back_others(victim)
            time.sleep(0.1)
        raise TimeoutError(f"nobody took over the {side.name}: {side.record()}")

    def _see_takeover(self, side: Side, victim: Replica, old: str, blow: Blow) -> None:
        """Wait until another replica has the Lease."""
        self._wait_holder(side, victim, lambda holder: holder in self._names(side) - {old})
        blow.takeover = time.monotonic() - blow.at

    def _see_end(self, victim: Replica, blow: Blow, *, bring_back: bool = True) -> None:
        """A leader that lost its Lease ends by itself: what it knows may be old. It is then started again."""
        self._world.killed.add(victim.pid)
        deadline = time.monotonic() + PATIENCE_SECONDS / 3
        while not victim.has_ended and time.monotonic() < deadline:
            time.sleep(0.05)
        if not victim.has_ended:
            blow.faults.append(f"{blow.kind}: the old leader of the {blow.side} had not ended after a minute")
            victim.process.kill()
        elif victim.process.wait() != 1:
            blow.faults.append(f"{blow.kind}: the old leader ended with {victim.process.wait()}")
        if bring_back:
            self._bring_back(victim)

    def bring_back_others(self, victim: Replica | None = None) -> None:
        """Start replicas again that lost their Lease and ended though nobody struck them, as a Deployment would."""
        for side in self._sides:
            for replica in side.replicas:
                if replica is not victim and replica.has_ended and (told := replica.process.said("lost the lease")):
                    self.unstruck.append(f"{replica.process.log.name}: {told[-1]['event']}")
                    self._bring_back(replica)

    def _bring_back(self, victim: Replica) -> None:
        for side in self._sides:
            side.read_journals()  # what the old process wrote is judged before the new one writes
        self._world.restart(victim)
        victim.process.wait_for("waiting for leadership", PATIENCE_SECONDS)


# -- the drill --------------------------------------------------------------------------------------------------------


def order(settings: Settings, rng: random.Random) -> Iterable[tuple[str, int]]:
    """Yield which blow falls on which side: each as often on both, in random order within a round."""
    for index in range(settings.each):
        kinds = list(enumerate(settings.kinds))
        rng.shuffle(kinds)
        for place, kind in kinds:
            yield kind, (index + place) % 2


def run(report: Report, settings: Settings) -> None:
    """Do all of it on a cluster of its own, and add the lines to the report."""
    rng = random.Random(settings.seed)
    with world() as there:
        furnish(there)
        there.control_plane.create_namespace("load")
        auditor = Auditor(there.api).start()
        there.populate(flags=(*settings.flags, "--log-level", "info"))
        sides = [
            Side("schedulers", SCHEDULERS_LEASE, there.schedulers, there),
            Side("controllers", CONTROLLERS_LEASE, there.managers, there),
        ]
        for side in sides:
            for replica in side.replicas:
                replica.proxy.counts.keep_journal()
                side.identity(replica)
            side.leader()
        load = Load(there, "load", settings.per_minute, random.Random(settings.seed + 1))
        load.start()
        striker = Striker(there, sides, settings, rng)
        for number, (kind, which) in enumerate(order(settings, rng), 1):
            time.sleep(1.0 + rng.uniform(0.0, settings.pause_seconds))
            blow = striker.strike(kind, sides[which])
            taken = "the same goes on" if blow.takeover is None else f"takeover {blow.takeover:.1f} s"
            report.progress(
                f"{number}/{len(settings.kinds) * settings.each} {kind}, {blow.side}: {taken}; {auditor.bound} bound"
            )
        load.stop()
        left = drain(load, striker, settings.drain_seconds)
        for side in sides:
            side.settle()
        auditor.catch_up()
        striker.bring_back_others()
        judge(report, settings, striker, sides, load, left)
        auditor.judge(report)
        exits = there.exits()
        report.must("processes that ended and that no blow ended", len(exits), "==", 0, tuple(exits))
        auditor.stop()


def drain(load: Load, striker: Striker, within: float) -> list[str]:
    """Wait until all work has finished, and return what has not."""
    deadline = time.monotonic() + within
    while (left := load.left()) and time.monotonic() < deadline:
        striker.bring_back_others()
        time.sleep(0.5)
    return left


def judge(report: Report, settings: Settings, striker: Striker, sides: list[Side], load: Load, left: list[str]) -> None:
    """Add the lines that are the drill's own."""
    for kind in settings.kinds:
        report.figure(f"{kind}: leaders struck", sum(blow.kind == kind for blow in striker.blows))
    report.figure("pods made", load.made)
    report.figure("pods made a minute", load.per_minute)
    report.figure("writes of replicas, Leases aside", sum(side.writes for side in sides))
    takeovers = sorted(blow.takeover for blow in striker.blows if blow.takeover is not None)
    slow = [
        f"{b.kind}, {b.side}: {b.takeover:.1f} s"
        for b in striker.blows
        if (b.takeover or 0) > settings.takeover_seconds
    ]
    report.figure("takeovers", len(takeovers))
    report.figure("takeover, median seconds", takeovers[len(takeovers) // 2] if takeovers else 0.0)
    may_lead_on = all(blow.kind in (ROBBED, LATE) for blow in striker.blows)
    longest = takeovers[-1] if takeovers else 0.0 if may_lead_on else float("inf")
    report.must("takeover, longest, seconds", longest, "<=", settings.takeover_seconds, tuple(slow), is_time=True)
    strays = [text for side in sides for text in side.strays]
    report.must("writes by a replica after another had the Lease", len(strays), "==", 0, tuple(strays))
    on = max((blow.wrote_on for blow in striker.blows), default=0.0)
    report.must("a robbed leader writes on for, longest, seconds", on, "<=", WRITES_ON_SECONDS, is_time=True)
    unstruck = tuple(striker.unstruck)
    report.must("Leases lost without a blow", len(unstruck), "==", 0, unstruck, is_time=True)
    faults = [text for blow in striker.blows for text in blow.faults]
    report.must("leaders that lost the Lease and did not end", len(faults), "==", 0, tuple(faults))
    report.must("works that never finished: pods lost", len(left), "==", 0, tuple(left))
    report.must("failures of the load itself", len(load.failures), "==", 0, tuple(load.failures))


def parsed(arguments: list[str] | None = None) -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = Settings()
    parser.add_argument("--each", type=int, default=known.each, help="blows of each kind (%(default)s)")
    parser.add_argument("--kinds", nargs="+", choices=BLOWS, default=BLOWS, help="blows that fall (all)")
    parser.add_argument("--per-minute", type=int, default=known.per_minute, help="pods a minute (%(default)s)")
    parser.add_argument("--stop-seconds", type=float, default=known.stop_seconds, help="SIGSTOP lasts (%(default)s)")
    parser.add_argument(
        "--partition-seconds", type=float, default=known.partition_seconds, help="a partition lasts (%(default)s)"
    )
    parser.add_argument("--theft-seconds", type=float, default=known.theft_seconds, help="a theft lasts (%(default)s)")
    parser.add_argument(
        "--late-seconds", type=float, default=known.late_seconds, help="of the stop before a late renewal (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=known.seed, help="of the random moments (%(default)s)")
    found = vars(parser.parse_args(arguments))
    return Settings(**found | {"kinds": tuple(found["kinds"])})


def main() -> int:
    settings = parsed()
    report = Report(
        "failover", f"{settings.each} of each blow, {settings.per_minute} pods a minute, seed {settings.seed}"
    )
    run(report, settings)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
