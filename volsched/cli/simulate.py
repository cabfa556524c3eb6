"""``volsched simulate``: the scheduler on an in-memory cluster of manifests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import click

from volsched.cli.inputs.configuration import profile_of
from volsched.cli.inputs.flags import files_flag, kept_bytes_flag, output_flag, strict_flag
from volsched.cli.inputs.known import Progress, snapshot_in
from volsched.cli.inputs.sources import read_manifests
from volsched.cli.output import is_for_people, print_page, print_result, report
from volsched.cli.printing import say
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.model.pods.limits import KEPT_BYTES
from volsched.ports import CycleReport
from volsched.simulation import result as results
from volsched.simulation import table
from volsched.simulation.job_gangs import with_job_gangs
from volsched.simulation.manifests import Inventory, completed
from volsched.simulation.runner import SCHEDULER_NAMES, SimulationSettings
from volsched.simulation.runner import simulate as run

EXIT_PENDING: Final = 1


@click.command()
@files_flag()
@click.option(
    "--config",
    metavar="FILE",
    help="The scheduler configuration: a bare file or a ConfigMap. Otherwise a ConfigMap among the manifests counts "
    "if it is accepted, else the built-in default.",
)
@click.option("--cycles", type=click.IntRange(1), default=10, show_default=True, help="How many cycles at most.")
@output_flag("table", "A page for people, or the whole result for programs.")
@click.option("--scores", is_flag=True, help="Add what each plugin gave each feasible node (json and yaml).")
@click.option("--fail-on-pending", is_flag=True, help="Exit with 1 when a pod is left without a node.")
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    show_default="volsched, volcano; of a snapshot those of its scheduler",
    help="The schedulerName of the pods that are placed. May be repeated.",
)
@click.option(
    "--at-max",
    is_flag=True,
    help="Simulate the most that may come: one run of each CronJob, and workloads with the maxReplicas of their "
    "HorizontalPodAutoscalers.",
)
@click.option(
    "--workload-with-job",
    is_flag=True,
    help="Play the Job controller as the gate WorkloadWithJob has it: an Indexed Job all of whose pods run at a time "
    "gets a PodGroup of scheduling.k8s.io.",
)
@kept_bytes_flag(KEPT_BYTES, "objects")
@strict_flag
def simulate(  # noqa: PLR0913 - a parameter for each flag
    *,
    paths: tuple[str, ...],
    config: str | None,
    cycles: int,
    output: str,
    scores: bool,
    fail_on_pending: bool,
    scheduler_names: tuple[str, ...],
    at_max: bool,
    workload_with_job: bool,
    kept_bytes: int,
    strict: bool,
) -> None:
    """Schedule the pods of manifests on the nodes of manifests, as a cluster would, and show where they go and why
    the rest waits. Nothing outside is touched.

    The manifests are ordinary ones: Nodes with status.allocatable, Queues, PodGroups, Pods, Deployments, Volcano Jobs
    and so on; what is running already is a Pod with spec.nodeName. Between cycles the world moves: bound pods run,
    evicted ones are gone, controllers make what is missing. What has no part in scheduling (Secrets, Ingresses, Roles
    and so on) is left out, which one line says; a field that no such object has is warned of.

    \b
    Examples:
      volsched simulate -f manifests/examples
      volsched simulate -f cluster.yaml -f new-queue.yaml --config scheduler.conf
      kubectl get nodes,pods,queues,podgroups -A -o yaml | volsched simulate -f - -o json --scores
      volsched simulate -f cluster.snapshot
      volsched simulate -f team-a/ --fail-on-pending && kubectl apply -f team-a/
      volsched simulate -f cluster.yaml -f team-a/ --at-max --strict

    \b
    Exit status: 0 the run was made; 1 --fail-on-pending and something waits; 2 the input or the configuration is
    invalid.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    progress = Progress("cycle")
    replayed = snapshot_in(paths)
    if replayed is not None:
        inventory = Inventory(
            objects=list(replayed.objects), configuration=replayed.configuration, configuration_source=replayed.origin
        )
    else:
        inventory = read_manifests(paths, strict=strict, at_max=at_max)
    if workload_with_job:
        inventory.objects = [completed(found) for found in with_job_gangs(inventory.objects)]
    progress.show(f"{len(inventory.objects)} objects read")
    profile = profile_of(config, inventory)
    settings = SimulationSettings(
        cycles=cycles,
        scheduler_names=tuple(dict.fromkeys(scheduler_names)) or _names_of(replayed),
        default_queue=replayed.default_queue if replayed is not None else "default",
        scores=scores,
        kept_bytes=kept_bytes,
    )
    simulation = run(inventory, profile, settings, _with_hints(progress))
    result = results.result_of(simulation)
    for note in result.get("notes", ()):
        report(note, "note")
    if is_for_people(output):
        print_page(table.render(simulation, result), output)
    else:
        print_result(result, output)
    sys.exit(EXIT_PENDING if fail_on_pending and result["pending"] else 0)


def _names_of(replayed: ClusterSnapshot | None) -> tuple[str, ...]:
    return replayed.scheduler_names if replayed is not None else SCHEDULER_NAMES


def _with_hints(progress: Progress) -> Callable[[int, CycleReport], None]:
    """Return what shows each cycle, with the first one the hints to authors of plugins."""

    def cycle(number: int, report: CycleReport) -> None:
        if number == 1:
            for hint in dict.fromkeys(report.hints):
                say(f"hint: {hint}", err=True)
        progress.cycle(number, report)

    return cycle
