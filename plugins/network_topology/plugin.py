"""network-topology-aware: volsched knows no HyperNodes, and reports that on jobs that depend on them.

The name stands in Volcano's own configurations, which run as they are. A PodGroup whose `spec.networkTopology` is hard
would be placed regardless of it, so it is not placed; a soft one is a preference, and has no effect.
"""

from __future__ import annotations

from typing import ClassVar, Final

from plugins.network_topology.arguments import ARGUMENTS
from volsched.framework.config.arguments import Argument
from volsched.framework.registration import Registrar
from volsched.framework.rules import JobValid
from volsched.model.job import JobInfo
from volsched.model.verdict import Scope, Step, Verdict

HARD: Final = "hard"


class NetworkTopologyPlugin:
    """Refuses jobs that must be placed by a topology."""

    name: ClassVar[str] = "network-topology-aware"
    ARGUMENTS: ClassVar[tuple[Argument, ...]] = ARGUMENTS

    def on_session_open(self, registrar: Registrar) -> None:
        """Register the refusal."""
        registrar.register(JobValid(_refusal))


def _refusal(job: JobInfo) -> Verdict | None:
    if job.topology != HARD:
        return None
    message = (
        f'PodGroup "{job.key}" has spec.networkTopology.mode {HARD}, and volsched knows no HyperNodes; '
        "leave the field out, or make it soft, which has no effect"
    )
    return Verdict(Step.INVALID, "network-topology-aware", Scope.JOB, "NetworkTopologyUnknown", message)
