"""Kubernetes' and Volcano's controllers in the in-memory cluster: they make pods, PodGroups and claims.

A controller makes missing objects and no more: pods of the input that belong to a workload of the input count, so a
dump of a whole cluster stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol, TypeGuard, TypeVar

import msgspec

from volsched.controllers import grouping, jobs, lifecycle
from volsched.controllers.owners import as_owner, is_owner, owner_reference
from volsched.controllers.waiting import NO_WAIT, Wait, about_refusal, about_wait, refused, wait_of
from volsched.mirror.reading import GROUP_NAME, generated_group_name, role_of, seconds
from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.errors import FieldError
from volsched.model.plan import RecordEvent
from volsched.model.pods.owners import Owner, controller_of
from volsched.model.pods.placement_rules import Toleration
from volsched.model.selectors import NodeSelector
from volsched.simulation import claims, workloads
from volsched.simulation.kubelets import Kubelets
from volsched.simulation.manifests import Inventory, completed, states_uid
from volsched.simulation.workloads import PodIdentity
from volsched.validation.jobs import job_problem

T = TypeVar("T", bound=api.ApiObject)
Workload = api.ReplicaSet | api.StatefulSet | api.DaemonSet | api.BatchJob | api.Job

FINISHED: Final = ("Succeeded", "Failed")
_MAKES_PODS: Final = lifecycle.WORKING | {lifecycle.Phase.RESTARTING}
"""Phases of a Volcano Job in which missing pods are made, or soon will be."""

_DAEMON_TOLERATIONS: Final = tuple(
    api.Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect=effect)
    for key, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)

_HOST_NETWORK_TOLERATION: Final = api.Toleration(
    key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule"
)


class Objects(Protocol):
    """The cluster as controllers see it."""

    cycle: int
    kubelets: Kubelets
    pods: dict[str, api.Pod]
    groups: dict[str, api.PodGroup]
    resource_claims: dict[str, dra.ResourceClaim]

    @property
    def now(self) -> datetime:
        """Return the time."""

    def put_group(self, group: api.PodGroup) -> None:
        """Write a PodGroup."""

    def add_claims(self, claims: Iterator[api.PersistentVolumeClaim] | list[api.PersistentVolumeClaim]) -> None:
        """Make claims, those left out that are there already."""

    def put_resource_claim(self, claim: dra.ResourceClaim) -> None:
        """Write a ResourceClaim."""

    def remove_pod(self, pod: api.Pod) -> None:
        """Delete a pod."""

    def release_claims_of(self, pod: api.Pod) -> None:
        """Let a pod that is over use no ResourceClaim any more."""

    def record_event(self, event: RecordEvent) -> None:
        """Record an Event. An equal one is not repeated."""


class Controllers:
    """Every controller of the cluster."""

    def __init__(self, objects: Objects, inventory: Inventory, scheduler_names: tuple[str, ...]) -> None:
        self._objects = objects
        self._inventory = inventory
        self._schedulers = scheduler_names
        self._default_scheduler = "volcano" if "volcano" in scheduler_names else scheduler_names[0]
        self._namespaces = {found.metadata.name: found.metadata for found in inventory.of(api.Namespace)}
        classes = inventory.of(api.PriorityClass)
        self._classes = {found.metadata.name: found.value for found in classes}
        self._policies = {found.metadata.name: found.preemption_policy for found in classes if found.preemption_policy}
        self._default_class = next((found.metadata.name for found in classes if found.global_default), "")
        self._nodes = inventory.of(api.Node)
        self._claim_templates = {found.key: found for found in inventory.of(dra.ResourceClaimTemplate)}
        self._owners = {as_owner(found): found for found in inventory.objects if is_owner(found)}
        self._workloads: dict[Owner, Workload] = {}
        self._refused: dict[Owner, Wait] = {}
        self._pods: dict[Owner, dict[str, api.Pod]] = {}
        self._group_of: dict[Owner, str] = {}
        self._numbers: dict[Owner, int] = {}
        self._fixed_names: set[str] = set()
        self._born = 0

    # -- turns --------------------------------------------------------------------------------------------------------

    def begin(self) -> list[api.Pod]:
        """Take in the input and return its pods. Their PodGroups are written in its order."""
        known = with_owners(self._inventory.objects, self._owners)
        self._owners.update((as_owner(found), found) for found in known if is_owner(found))
        self._take_on(known)
        for found in known:
            if isinstance(found, api.PodGroup):
                self._objects.groups[found.key] = found
                owner = controller_of(found.metadata)
                if owner is not None:
                    self._group_of.setdefault(owner, found.metadata.name)
            elif isinstance(found, api.Pod):
                self._objects.pods[found.key] = found
                self._objects.kubelets.on_change(_with_defaults(found))
                self.on_change(found)
        daemons = [found for found in known if isinstance(found, api.DaemonSet)]
        running = {as_owner(found): self._missing_pods(found) for found in daemons}
        return [
            pod
            for found in known
            for pod in (running[as_owner(found)] if isinstance(found, api.DaemonSet) else self._first_pods(found))
        ]

    def act(self) -> list[api.Pod]:
        """Return the pods that controllers make now, and tell on Volcano Jobs why they wait."""
        for workload in self._workloads.values():
            if isinstance(workload, api.Job):
                self._report_wait(workload)
        for job, refusal in self.jobs_not_run():
            self._objects.record_event(about_refusal(job, refusal))
        return [pod for workload in self._workloads.values() for pod in self._missing_pods(workload)]

    def of_others(self) -> Iterator[tuple[api.ApiObject, str]]:
        """Yield each workload, or pod without one, with pods for another scheduler, and that scheduler."""
        for pod in self._objects.pods.values():
            waits = not pod.spec.node_name and pod.status.phase not in FINISHED
            if waits and pod.spec.scheduler_name not in self._schedulers:
                yield self._topmost(pod), pod.spec.scheduler_name
        for workload in self._workloads.values():
            if self._is_left_alone(workload):
                yield workload, workload.spec.scheduler_name

    def owners_of(self, found: api.ApiObject) -> Iterator[api.ApiObject]:
        """Yield the workloads to which an object belongs, its own first."""
        seen: set[Owner] = set()
        owner = controller_of(found.metadata)
        while owner is not None and owner in self._owners and owner not in seen:
            seen.add(owner)
            known = self._owners[owner]
            yield known
            owner = controller_of(known.metadata)

    def _topmost(self, found: api.ApiObject) -> api.ApiObject:
        """Return the workload of an object, over its owners; the object itself without one."""
        *_, top = (found, *self.owners_of(found))
        return top

    def _is_left_alone(self, workload: Workload) -> TypeGuard[api.Job]:
        """True if a workload is a Volcano Job of another scheduler: the Job controller ignores it."""
        return isinstance(workload, api.Job) and workload.spec.scheduler_name not in self._schedulers

    def wanted_of(self, pods: Sequence[api.Pod]) -> int:
        """Return how many pods the workloads of these want: a pod without one is none, one of no such number is one."""
        wanted, counted = 0, set()
        for pod in pods:
            top = self._topmost(pod)
            if isinstance(top, api.Deployment | api.ReplicaSet | api.StatefulSet):
                wanted += workloads.replicas_of(top) if as_owner(top) not in counted else 0
                counted.add(as_owner(top))
            else:
                wanted += controller_of(pod.metadata) is not None
        return wanted

    def jobs_not_run(self) -> Iterator[tuple[api.Job, Wait]]:
        """Yield the Volcano Jobs that wait for good, and why the Job controller refuses them."""
        for owner, refusal in self._refused.items():
            job = self._workloads[owner]
            if isinstance(job, api.Job) and self._is_not_run(job):
                yield job, refusal

    def _is_not_run(self, job: api.Job) -> bool:
        """True if the pods of a Job are never made: Volcano's own controllers run a Job that has a PodGroup."""
        waits = lifecycle.phase_of(job) in _MAKES_PODS and as_owner(job) not in self._group_of
        return waits and not self._is_left_alone(job) and as_owner(job) in self._refused

    def on_change(self, pod: api.Pod) -> None:
        """Note a pod as it is now."""
        owner = controller_of(pod.metadata)
        if owner is not None:
            self._pods.setdefault(owner, {})[pod.key] = pod

    def lost(self, pod: api.Pod) -> None:
        """Note a pod that is gone."""
        owner = controller_of(pod.metadata)
        if owner is not None:
            self._pods.get(owner, {}).pop(pod.key, None)

    def _take_on(self, known: Sequence[api.ApiObject]) -> None:
        """Take on every workload as the object that it comes from."""
        with_replica_set = {controller_of(found.metadata) for found in known if isinstance(found, api.ReplicaSet)}
        for found in known:
            if isinstance(found, api.Deployment) and as_owner(found) not in with_replica_set:
                self._workloads[as_owner(found)] = made = workloads.replica_set_of(found)
                self._owners[as_owner(made)] = made
            elif isinstance(found, api.ReplicaSet | api.StatefulSet | api.DaemonSet | api.BatchJob):
                self._workloads[as_owner(found)] = found
            elif isinstance(found, api.Job):
                self._take_on_job(jobs.with_defaults(found, self._default_scheduler))
        self._fixed_names = {name for workload in self._workloads.values() for name in _fixed_names(workload)}

    def _take_on_job(self, job: api.Job) -> None:
        """Take on a Volcano Job; the scheduler reports faults of its pods alone on each pod."""
        refusal = refused(job, job_problem(job, with_templates=False))
        self._workloads[as_owner(job)] = job
        if refusal != NO_WAIT:
            self._refused[as_owner(job)] = refusal

    def _first_pods(self, found: api.ApiObject) -> list[api.Pod]:
        if isinstance(found, api.Pod):
            if found.status.phase in FINISHED:
                self._objects.release_claims_of(found)
            return [self._grouped(_with_defaults(found))]
        if isinstance(found, api.PodGroup):
            self._objects.put_group(self._admitted(self._objects.groups[found.key]))
            return []
        workload = self._workloads.get(as_owner(found)) if is_owner(found) else None
        return self._missing_pods(workload) if workload is not None else []

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _missing_pods(self, workload: Workload) -> list[api.Pod]:
        if isinstance(workload, api.Job):
            made = self._job_pods(workload)
        elif isinstance(workload, api.StatefulSet):
            made = self._stateful_pods(workload)
        elif isinstance(workload, api.DaemonSet):
            made = self._daemon_pods(workload)
        else:
            made = self._counted_pods(workload)
        return [self._grouped(pod) for pod in made]

    def _counted_pods(self, workload: api.ReplicaSet | api.BatchJob) -> Iterator[api.Pod]:
        """Yield the missing pods. Finished and terminating ones do not count."""
        pods = self._pods_of(workload)
        active = sum(1 for pod in pods if pod.status.phase not in FINISHED and not pod.metadata.deletion_timestamp)
        if isinstance(workload, api.BatchJob):
            wanted = workloads.wanted_of(workload, Counter(pod.status.phase for pod in pods))
        else:
            wanted = workloads.replicas_of(workload)
        for _ in range(wanted - active):
            identity = self._identity(workload, self._next_pod_name(workload))
            yield workloads.pod_of(workload, workload.spec.template, identity)

    def _stateful_pods(self, workload: api.StatefulSet) -> Iterator[api.Pod]:
        self._remove_failed(workload)
        for name in workloads.stateful_names(workload):
            if not self._exists(workload, name):
                pod, claims = workloads.stateful_pod(workload, self._identity(workload, name))
                self._objects.add_claims(claims)
                yield pod

    def _daemon_pods(self, workload: api.DaemonSet) -> Iterator[api.Pod]:
        """Yield a pod for each node without one: before the first cycle it runs there, if the node has room."""
        spec = workload.spec.template.spec
        self._remove_failed(workload)
        served = {_daemon_node(pod.spec) for pod in self._pods_of(workload)}
        tolerations = _daemon_tolerations(spec)
        for node in self._nodes:
            name = f"{workload.metadata.name}-{node.metadata.name}"
            if self._exists(workload, name) or node.metadata.name in served or not _daemon_runs_on(spec, node):
                continue
            pinned = _pinned(spec.affinity, node)
            identity = self._identity(workload, name)
            pod = workloads.pod_of(workload, workload.spec.template, identity, affinity=pinned, tolerations=tolerations)
            yield self._started(pod, node.metadata.name)

    def _remove_failed(self, workload: api.StatefulSet | api.DaemonSet) -> None:
        """Delete the pods that failed since the first cycle, as their controllers do before they make new ones."""
        if self._objects.cycle:
            for pod in [pod for pod in self._pods_of(workload) if pod.status.phase == "Failed"]:
                self._objects.remove_pod(pod)

    def _started(self, pod: api.Pod, node: str) -> api.Pod:
        """Run a pod on a node, if it is early enough and there is room; or bind it there, to be refused."""
        kubelets = self._objects.kubelets
        if self._objects.cycle or not kubelets.has_room(node, pod):
            return pod
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        if kubelets.refusal(node, pod) is not None:
            return bound
        started = _with_defaults(msgspec.structs.replace(bound, status=api.PodStatus()))
        kubelets.on_change(started)
        return started

    def _job_pods(self, job: api.Job) -> Iterator[api.Pod]:
        """Yield the pods of a Volcano Job: none before its PodGroup is admitted, or once it is stopped or over.

        Those of a task that depends on others come when the others are as far as the Job's controller demands.
        """
        if lifecycle.phase_of(job) not in _MAKES_PODS or self._is_left_alone(job) or self._is_not_run(job):
            return
        group = self._group_of_job(job)
        if group.status.phase in ("", "Pending"):
            return
        self._objects.add_claims(workloads.job_claims(job))
        counted = self._counted(job)
        startable = lifecycle.startable(job, counted)
        for member in jobs.members(job):
            if member.task.name in startable and not self._exists(job, member.name):
                yield workloads.job_pod(job, member, group.metadata.name, self._identity(job, member.name))

    def _report_wait(self, job: api.Job) -> None:
        """Tell on a Job why its PodGroup waits, as the Job's controller does."""
        name = self._group_of.get(as_owner(job), "")
        wait = wait_of(self._objects.groups.get(f"{job.metadata.namespace}/{name}"))
        if wait != NO_WAIT and lifecycle.phase_of(job) in lifecycle.WORKING:
            self._objects.record_event(about_wait(job, wait))

    def _counted(self, job: api.Job) -> lifecycle.Tally:
        """Count the pods of tasks that others depend on, by state."""
        first = {name for task in job.spec.tasks if task.depends_on is not None for name in task.depends_on.name}
        pods = self._pods_of(job) if first else ()
        stands = {name: Counter(p.status.phase for p in pods if role_of(p) == name) for name in sorted(first)}
        return lifecycle.Tally(by_task=tuple((name, tuple(counts.items())) for name, counts in stands.items()))

    def _pods_of(self, workload: Workload) -> Collection[api.Pod]:
        return self._pods.get(as_owner(workload), {}).values()

    def _exists(self, workload: api.ApiObject, name: str) -> bool:
        return f"{workload.metadata.namespace}/{name}" in self._objects.pods

    def _next_pod_name(self, workload: api.ApiObject) -> str:
        """Return an unused name for the next pod of a workload."""
        owner, meta = as_owner(workload), workload.metadata
        while True:
            number = self._numbers.get(owner, 0)
            self._numbers[owner] = number + 1
            name = f"{meta.name}-{number}"
            if not self._exists(workload, name) and f"{meta.namespace}/{name}" not in self._fixed_names:
                return name

    def _identity(self, owner: api.ApiObject, name: str) -> PodIdentity:
        """Return the identity of a new pod. Its owner's age counts for the first ones, the time for later ones."""
        created = owner.metadata.creation_timestamp
        if created is not None and self._objects.cycle:
            created = self._objects.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self._born += 1
        return PodIdentity(name, created, self._born)

    # -- PodGroups and claims of pods ---------------------------------------------------------------------------------

    def _grouped(self, pod: api.Pod) -> api.Pod:
        """Give a pod of ours the PodGroup and the claims that controllers would make for it."""
        pod = self._with_policy(pod)
        if pod.spec.scheduler_name in self._schedulers and pod.status.phase not in FINISHED:
            if GROUP_NAME not in pod.metadata.annotations and pod.spec.scheduling_group is None:
                pod = workloads.annotated(pod, {GROUP_NAME: self._plain_group(pod)})
            self._objects.add_claims(workloads.ephemeral_claims(pod))
            pod, made = claims.with_claims(pod, self._claim_templates, self._objects.resource_claims)
            for claim in made:
                self._objects.put_resource_claim(claim)
        self._objects.pods[pod.key] = pod
        self.on_change(pod)
        return pod

    def _with_policy(self, pod: api.Pod) -> api.Pod:
        """Give a pod the preemption policy of its PriorityClass, as the API server does."""
        policy = self._policies.get(pod.spec.priority_class_name or self._default_class, "")
        if not policy or pod.spec.preemption_policy:
            return pod
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, preemption_policy=policy))

    def _plain_group(self, pod: api.Pod) -> str:
        name = generated_group_name(pod)
        if f"{pod.metadata.namespace}/{name}" not in self._objects.groups:
            owner = controller_of(pod.metadata)
            known = self._owners.get(owner) if owner is not None else None
            self._objects.put_group(self._admitted(workloads.plain_group(self._deciding(pod, name), known)))
        return name

    def _deciding(self, first: api.Pod, group: str) -> api.Pod:
        """Return the pod by which a PodGroup is made: the newest of its owner's that has no node, or the first one."""
        owner = controller_of(first.metadata)
        pods = self._pods.get(owner, {}).values() if owner is not None else ()
        waiting = [pod for pod in pods if self._waits_in(pod, group)]
        return max(reversed(waiting), key=lambda pod: seconds(pod.metadata.creation_timestamp) or 0.0, default=first)

    def _waits_in(self, pod: api.Pod, group: str) -> bool:
        """True if a pod of ours that names no other PodGroup is to get a node."""
        is_ours = pod.spec.scheduler_name in self._schedulers and pod.spec.scheduling_group is None
        is_alive = pod.status.phase not in FINISHED and pod.metadata.deletion_timestamp is None
        return (
            is_ours and is_alive and not pod.spec.node_name and pod.metadata.annotations.get(GROUP_NAME, group) == group
        )

    def _group_of_job(self, job: api.Job) -> api.PodGroup:
        """Return the Job's PodGroup: one that it controls already, else a new one."""
        owner, namespace = as_owner(job), job.metadata.namespace
        if owner not in self._group_of:
            made = completed(jobs.job_group(job, self._classes, job.spec.queue))
            self._group_of[owner] = made.metadata.name
            if made.key not in self._objects.groups:
                self._objects.put_group(self._admitted(made))
        return self._objects.groups[f"{namespace}/{self._group_of[owner]}"]

    def _admitted(self, group: api.PodGroup) -> api.PodGroup:
        """Put a PodGroup of the default queue into the queue that its namespace names."""
        namespace = self._namespaces.get(group.metadata.namespace)
        named = namespace.annotations.get(grouping.QUEUE_NAME, "") if namespace is not None else ""
        queue = grouping.admitted_queue(group.spec.queue, named)
        if queue == group.spec.queue:
            return group
        return msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, queue=queue))


def with_owners(objects: Sequence[api.ApiObject], owners: Mapping[Owner, api.ApiObject]) -> list[api.ApiObject]:
    """Return the objects with complete references to their controllers."""
    named = _without_uids(owners)
    return [_with_owner(found, owners, named) for found in objects]


def settled(objects: Iterable[api.ApiObject]) -> list[api.ApiObject]:
    """Return the objects with references by uid: owners, and Deployments with their ReplicaSets."""
    given = list(objects)
    known = with_owners(given, {as_owner(found): found for found in given if is_owner(found)})
    served = {controller_of(found.metadata) for found in known if isinstance(found, api.ReplicaSet)}
    return [each for found in known for each in _with_replica_set(found, served)]


def _with_replica_set(found: api.ApiObject, served: Collection[Owner | None]) -> Iterator[api.ApiObject]:
    yield found
    if isinstance(found, api.Deployment) and as_owner(found) not in served:
        yield workloads.replica_set_of(found)


def _fixed_names(workload: Workload) -> Iterator[str]:
    """Yield the names that pods of the workload must have, so that no other pod takes one of them."""
    namespace = workload.metadata.namespace
    if isinstance(workload, api.StatefulSet):
        yield from (f"{namespace}/{name}" for name in workloads.stateful_names(workload))
    elif isinstance(workload, api.Job):
        yield from (f"{namespace}/{member.name}" for member in jobs.members(workload))


def _without_uids(owners: Mapping[Owner, api.ApiObject]) -> dict[Owner, api.ApiObject]:
    """Return owners by the parts of a reference without the uid, and maybe without the group."""
    named: dict[Owner, api.ApiObject] = {}
    for owner, found in owners.items():
        named.setdefault(owner._replace(uid=""), found)
        named.setdefault(owner._replace(uid="", group=""), found)
    return named


def _with_owner(found: T, owners: Collection[Owner], named: Mapping[Owner, api.ApiObject]) -> T:
    """Return the object with a complete reference to its controller, if one of the two has no uid."""
    meta, owner = found.metadata, controller_of(found.metadata)
    known = named.get(owner._replace(uid="")) if owner is not None and owner not in owners else None
    if known is None or (owner is not None and owner.uid and states_uid(known)):
        return found
    references = tuple(
        owner_reference(known) if reference is meta.controller else reference for reference in meta.owner_references
    )
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(meta, owner_references=references))


def _with_defaults(pod: api.Pod) -> api.Pod:
    """Give a pod the phase that it does not state: Running on a node, Pending without one."""
    if pod.status.phase:
        return pod
    phase = "Running" if pod.spec.node_name else "Pending"
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase=phase))


def _pinned(affinity: api.Affinity | None, node: api.Node) -> api.Affinity:
    """Return the affinity of a DaemonSet's pod: its own, and this node."""
    name = api.LabelSelectorRequirement("metadata.name", "In", (node.metadata.name,))
    affinity = affinity or api.Affinity()
    nodes = affinity.node_affinity or api.NodeAffinity()
    terms = nodes.required.node_selector_terms if nodes.required is not None else (api.NodeSelectorTerm(),)
    required = api.NodeSelector(tuple(msgspec.structs.replace(t, match_fields=(*t.match_fields, name)) for t in terms))
    return msgspec.structs.replace(affinity, node_affinity=msgspec.structs.replace(nodes, required=required))


def _daemon_node(spec: api.PodSpec) -> str:
    """Return the node of a DaemonSet's pod: its own, or the one that its affinity names; empty without one."""
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    if spec.node_name or nodes is None or nodes.required is None:
        return spec.node_name
    fields = (field for term in nodes.required.node_selector_terms for field in term.match_fields)
    return next((field.values[0] for field in fields if field.key == "metadata.name" and field.values), "")


def _daemon_tolerations(spec: api.PodSpec) -> tuple[api.Toleration, ...]:
    """Return the tolerations of a DaemonSet's pods: their own, and those that its controller adds."""
    of_network = (_HOST_NETWORK_TOLERATION,) if spec.host_network else ()
    return (*spec.tolerations, *_DAEMON_TOLERATIONS, *of_network)


def _daemon_runs_on(spec: api.PodSpec, node: api.Node) -> bool:
    """True if the DaemonSet controller would make a pod for this node; False if its terms are invalid."""
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    try:
        selector = NodeSelector.parse(nodes.required if nodes is not None else None, spec.node_selector)
    except FieldError:
        return False
    if not selector.matches(node.metadata.name, node.metadata.labels):
        return False
    tolerations = [Toleration(t.key, t.operator or "Equal", t.value, t.effect) for t in _daemon_tolerations(spec)]
    hard = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(any(toleration.tolerates(taint) for toleration in tolerations) for taint in hard)
