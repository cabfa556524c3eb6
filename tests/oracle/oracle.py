"""Kubernetes' own scheduler plugins as an oracle: which nodes fit a pod, why the others do not, and the scores.

The program is in ``program/``; it is built once into the cache of the control plane's programs, and asked through a
pipe.
A world is a dictionary of plain API objects:

``pod``
    the pending pod, the only key that is needed
``nodes``, ``pods``
    the cluster; a pod counts when its ``spec.nodeName`` is one of the nodes and its phase is not Succeeded or Failed
``namespaces``, ``pvs``, ``pvcs``, ``storageClasses``, ``csiNodes``, ``csiDrivers``, ``csiStorageCapacities``
    what pod affinity and volumes look up
``services``, ``replicationControllers``, ``replicaSets``, ``statefulSets``
    what the default spread of a pod without constraints looks up

Objects may be as a user wrote them: the program fills in what the API server would have (defaults, the namespace
``default``, matchLabelKeys merged into the selectors). It asks the default profile of kube-scheduler less
DynamicResources, NodeVolumeLimits, DefaultPreemption and NodeDeclaredFeatures. Scheduling gates are no matter of nodes
and not looked at.

Two other questions have worlds of their own: ``serve`` asks the allocator of k8s.io/dynamic-resource-allocation which
devices claims get on each node (``nodes``, ``slices``, ``classes``, ``claims``, and ``taken``, claims that have some),
``select`` its CEL environment which expressions mean a device.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypedDict

from tools.controlplane.binaries import (
    KUBERNETES_VERSION,
    GoModule,
    Report,
    build_program,
    cache_root,
    go_arch,
    print_progress,
)

SOURCES = Path(__file__).with_name("program")

MODULE = GoModule(
    name="oracle",
    requirement="k8s.io/kubernetes",
    version=KUBERNETES_VERSION,
    commands={},
    stamps={},
    staged=True,
)


class OracleError(RuntimeError):
    """The oracle could not judge a world, or has died."""


class Refusal(TypedDict):
    """Why a node, or every node, cannot have the pod."""

    plugin: str
    code: str
    """``Unschedulable``, or ``UnschedulableAndUnresolvable`` when evicting pods would not help."""
    reasons: list[str]


class Score(TypedDict):
    """What a plugin gives a node; the total is the sum of ``normalized * weight``."""

    raw: int
    normalized: int
    """From 0 to 100."""
    weight: int


class Judgement(TypedDict):
    """The answer to a world."""

    feasible: list[str]
    """Sorted names."""
    refused: dict[str, Refusal]
    """By node: the first plugin that refused it."""
    prefilter: Refusal | None
    """Why no node was asked at all; then the others are empty."""
    scores: dict[str, dict[str, Score]]
    """By feasible node and plugin; plugins with nothing to say about the pod are absent."""


def build_oracle(report: Report = print_progress) -> Path:
    """Return the program's path, building it first when this version of its source has not been built."""
    sources = sorted(SOURCES.glob("*.go"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = cache_root() / f"oracle-k8s-{KUBERNETES_VERSION}-{digest}-{go_arch()}"
    what = f"the scheduler oracle {KUBERNETES_VERSION}"
    return build_program(MODULE, ".", folder / "oracle", what, report, sources=sources)


class Oracle:
    """The running program; a context manager. Several threads may ask it, one after the other."""

    def __init__(self, program: Path | None = None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the program
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [program or build_oracle()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def judge(self, world: Mapping[str, Any]) -> Judgement:
        """Return what the plugins say about one world; raises OracleError when it cannot be judged."""
        return self.judge_many([world])[0]

    def serve(self, worlds: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return for each world and each node ``allocations``, one for each claim or none, or an ``error``."""
        answers: list[Any] = self.judge_many([{"devices": world} for world in worlds])
        return [answer["served"] for answer in answers]

    def select(self, driver: str, device: Mapping[str, Any], expressions: Sequence[str]) -> list[str]:
        """Return for each expression ``true``, ``false``, or ``error: `` and why."""
        asked = {"driver": driver, "device": device, "expressions": list(expressions)}
        answers: list[Any] = self.judge_many([{"selectors": asked}])
        found: list[str] = answers[0]["selectors"]
        return found

    def judge_many(self, worlds: Sequence[Mapping[str, Any]]) -> list[Judgement]:
        """Return the judgements of many worlds, in their order: some thousand a second.

        Raises OracleError, which tells the place in the list, when one cannot be judged.
        """
        with self._lock:
            writer = threading.Thread(target=self._write, args=(worlds,))
            writer.start()
            try:
                answers = [self._read() for _ in worlds]
            finally:
                writer.join()
        return [_judgement_of(index, answer) for index, answer in enumerate(answers)]

    def _write(self, worlds: Sequence[Mapping[str, Any]]) -> None:
        pipe = self._pipe(self._process.stdin)
        try:
            for world in worlds:
                pipe.write(json.dumps(world, separators=(",", ":")).encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            return  # the reader finds out, and knows why

    def _read(self) -> Any:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            self._errors.seek(0)
            raise OracleError(f"the oracle has died: {self._errors.read()[-4000:].decode(errors='replace')}")
        return json.loads(line)

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        if pipe is None:
            raise OracleError("the oracle has no pipe")
        return pipe


def _judgement_of(index: int, answer: Any) -> Judgement:
    if "error" in answer:
        raise OracleError(f"world {index}: {answer['error']}")
    judgement: Judgement = answer
    return judgement
