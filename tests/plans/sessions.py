"""The only module here that knows the product's classes: manifests go in, decisions in users' terms come out.

A redesign changes this module and no record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import msgspec

from volsched.framework.accounts.admissions import Admissions
from volsched.framework.boundary import Bounds
from volsched.framework.config.configuration import PluginOption
from volsched.framework.registration import Registrar
from volsched.framework.rules import SessionClose
from volsched.framework.session import Session
from volsched.mirror.apply import Mirror
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.api import native_groups as native
from volsched.model.changes import BindFailed, Change, Deleted, EvictFailed, KindServed, Put
from volsched.model.dra import api as dra
from volsched.model.job import COMPLETED, RUNNING, JobInfo, PodGroupCondition
from volsched.model.plan import (
    Bind,
    ClaimWrite,
    Evict,
    LiftGate,
    PlanStep,
    RecordEvent,
    ReleaseClaim,
    StepRecorder,
    VolumeWrite,
    WriteGroupStatus,
    WriteNativeStatus,
    WritePodCondition,
    WriteQueueStatus,
)
from volsched.model.pods.task import TaskInfo
from volsched.model.status import TaskStatus
from volsched.model.verdict import Verdict
from volsched.registry import load_profile
from volsched.scheduler import Profile, Scheduler
from volsched.simulation.manifests import completed
from volsched.simulation.result import waiting_refusal
from volsched.testing.builders import SteadyClock

Json: TypeAlias = dict[str, Any]
_WAITING = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)
_ADMISSION_TIMEOUT = 600.0
"""Seconds for which an admitted PodGroup may lack pods, as ``volsched run`` has it."""
_LONG = 600.0
"""Seconds in which a claim or a volume has to be ready, where nothing else is configured."""


@cache
def _profile_of(configuration: str) -> Profile:
    """Return the profile of a configuration: plugins keep nothing but their arguments, so one does for all."""
    return load_profile(configuration)[0]


def read(manifest: Mapping[str, Any]) -> api.ApiObject:
    """Return the struct of a manifest, read from JSON text as watches are read."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    struct = dra.KINDS.get(kind) or native.KINDS.get((version, kind)) or api.KINDS[version, kind]
    return completed(api.decode_text(struct, msgspec.json.encode(manifest)))


class Sessions:
    """A scheduler with an in-memory cluster: it is shown objects, and decides cycle by cycle."""

    def __init__(self, configuration: str) -> None:
        given = _profile_of(configuration)
        tiers = (*given.plugins, ((PluginOption(_Witness.name), _Witness(self)),))
        self.profile = Profile(given.configuration, given.actions, tiers)
        self.mirror = Mirror(MirrorSettings(plain_pods=False))
        self.session: Session | None = None
        self.promised: Json = {}
        self._clock, self._recorder = SteadyClock(), StepRecorder()
        bounds = Bounds(admissions=Admissions(_ADMISSION_TIMEOUT))
        self._scheduler = Scheduler(self.mirror, self.profile, self._recorder, self._clock, bounds=bounds)
        self._changes: list[Change] = [KindServed(native.KIND, next(iter(native.VERSIONS)))]

    def show(self, manifest: Mapping[str, Any]) -> None:
        """Let an object be there, as given."""
        self._changes.append(Put(read(manifest)))

    def show_gone(self, manifest: Mapping[str, Any]) -> None:
        """Let an object be there no longer."""
        found = read(manifest)
        meta = found.metadata
        self._changes.append(Deleted(native.kind_of(found), meta.namespace, meta.name, meta.uid))

    def show_refused_binding(self, pod: Mapping[str, Any], node: str, message: str, retry_at: float | None) -> None:
        """Let the API server have refused to bind a pod to a node."""
        self._changes.append(BindFailed(pod["metadata"]["uid"], node, message, retry_at))

    def show_refused_eviction(self, pod: Mapping[str, Any], message: str) -> None:
        """Let the API server have refused to delete a pod."""
        self._changes.append(EvictFailed(pod["metadata"]["uid"], message))

    def decide(self, now: float) -> Json:
        """Run a cycle at a time (seconds since the epoch) and return what it decided."""
        changes, self._changes = self._changes, []
        self.mirror.apply(changes)
        self._clock.time = now
        self._scheduler.cycle()
        decided = _Decided()
        for step in self._recorder.take():
            decided.add(step)
        found = {**decided.found, "promised": self.promised, "waiting": dict(self._waiting())}
        return {key: value for key, value in found.items() if value}

    def _waiting(self) -> Iterator[tuple[str, list[str | None]]]:
        """Yield why each pod of ours waits that has no node, and why each PodGroup does that has no pods."""
        cluster = self.mirror.cluster
        for task in sorted(cluster.tasks.values(), key=lambda task: task.key):
            if task.spec.is_managed and task.status in _WAITING:
                yield f"Pod/{task.key}", self._why(task)
        for job in sorted(cluster.jobs.values(), key=lambda job: job.key):
            if job.spec.has_group and not job.tasks and job.phase not in (RUNNING, COMPLETED):
                yield f"PodGroup/{job.key}", self._why(job)

    def _why(self, of: TaskInfo | JobInfo) -> list[str | None]:
        verdict: Verdict = waiting_refusal(self, of)
        return [verdict.step.value, verdict.plugin or None, verdict.reason, verdict.message]


class _Witness:
    """A plugin that sees which pods are promised room when a session closes."""

    name = "recorded-plans"

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def on_session_open(self, registrar: Registrar) -> None:
        self._sessions.session = registrar.session
        registrar.register(SessionClose(self._note))

    def _note(self) -> None:
        tasks = self._sessions.mirror.cluster.tasks.values()
        promised = [(t.key, t.node.name) for t in tasks if t.status is TaskStatus.PIPELINED and t.node is not None]
        self._sessions.promised = dict(sorted(promised))


class _Decided:
    """The steps of one cycle by what they are about. Bindings and evictions keep their order."""

    def __init__(self) -> None:
        self.found: Json = {}

    def add(self, step: PlanStep) -> None:
        """Take a step in."""
        _TOLD[type(step)](self, step)

    def bind(self, step: Bind) -> None:
        told: Json = {"pod": _key(step), "node": step.node}
        if step.annotations:
            told["annotations"] = dict(sorted(step.annotations.items()))
        if step.claims:
            told["claims"] = [_claim(write) for write in step.claims]
        if step.volumes:
            told["volumes"] = [_volume(write) for write in step.volumes]
        self.found.setdefault("binds", []).append(told)

    def evict(self, step: Evict) -> None:
        told = {"pod": _key(step), "action": step.action, "for": step.preemptor, "message": step.message}
        self.found.setdefault("evictions", []).append(told)

    def release(self, step: ReleaseClaim) -> None:
        self._put("released", _key(step), {"pod": step.pod.name, **({"deleted": True} if step.delete else {})})

    def lift(self, step: LiftGate) -> None:
        self._put("lifted", _key(step), step.gate)

    def group(self, step: WriteGroupStatus) -> None:
        told: Json = {"phase": step.phase, "conditions": _conditions(step.conditions)}
        counts = {"running": step.running, "succeeded": step.succeeded, "failed": step.failed}
        self._put("podGroups", _key(step), {**told, **{name: count for name, count in counts.items() if count}})

    def native_group(self, step: WriteNativeStatus) -> None:
        self._put("nativePodGroups", _key(step), _conditions(step.conditions))

    def queue(self, step: WriteQueueStatus) -> None:
        told: Json = {"allocated": dict(sorted(step.allocated.items()))}
        if step.past is not None:
            told["usage"] = {"at": step.past.at, "used": dict(sorted(step.past.used.items()))}
        self._put("queues", step.name, told)

    def condition(self, step: WritePodCondition) -> None:
        nominated = {"nominated": step.nominated} if step.nominated else {}
        self._put("conditions", _key(step), {"reason": step.reason, "message": step.message, **nominated})

    def event(self, step: RecordEvent) -> None:
        about = "/".join(part for part in (step.kind, step.namespace, step.name) if part)
        told = self.found.setdefault("events", {}).setdefault(about, [])
        told.append([step.type, step.reason, step.message])

    def _put(self, what: str, about: str, told: Any) -> None:
        """Take in what may be said once in a cycle."""
        table = self.found.setdefault(what, {})
        if about in table:
            raise ValueError(f"a cycle writes {what} of {about} twice: {table[about]} and {told}")
        table[about] = told


_TOLD: Mapping[type[PlanStep], Callable[[_Decided, Any], None]] = {
    Bind: _Decided.bind,
    Evict: _Decided.evict,
    ReleaseClaim: _Decided.release,
    LiftGate: _Decided.lift,
    WriteGroupStatus: _Decided.group,
    WriteNativeStatus: _Decided.native_group,
    WriteQueueStatus: _Decided.queue,
    WritePodCondition: _Decided.condition,
    RecordEvent: _Decided.event,
}


def _key(
    step: Bind | Evict | ReleaseClaim | LiftGate | WriteGroupStatus | WriteNativeStatus | WritePodCondition,
) -> str:
    return f"{step.namespace}/{step.name}"


def _conditions(given: tuple[PodGroupCondition, ...]) -> list[list[str]]:
    return [[c.type, c.status, c.reason, c.message] for c in given]


def _claim(write: ClaimWrite) -> Json:
    """Return what is written about a ResourceClaim, as the API has it."""
    told: Json = {"claim": write.claim}
    if write.allocation is not None:
        told["allocation"] = msgspec.to_builtins(write.allocation)
    if write.made is not None:
        requests = msgspec.to_builtins(write.made.requests)
        mappings = [list(mapping) for mapping in write.made.mappings]
        told["made"] = {"name": write.made.name, "requests": requests, "mappings": mappings}
    if write.reserved_for is not None:
        told["reservedFor"] = f"{write.reserved_for.resource}/{write.reserved_for.name}"
    return told if write.within == _LONG else {**told, "within": write.within}


def _volume(write: VolumeWrite) -> Json:
    told: Json = {"kind": write.kind, "claim": write.claim, "volume": write.volume, "node": write.node}
    return told if write.within == _LONG else {**told, "within": write.within}
