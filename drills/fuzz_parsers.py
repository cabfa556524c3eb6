"""Everything that reads what users write, in one table, with what makes inputs for it and the errors that it declares.

Who writes a function that reads texts or objects of users adds a line to `PARSERS`. An input is made apart from being
read, so that what is measured is the reading, and what broke it can be kept.
"""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import HTTPException
from multidict import CIMultiDict, MultiDict

from drills.fuzz_decisions import decide_as_they_change
from drills.fuzz_inputs import Maker, copied
from drills.fuzz_words import (
    ANNOTATIONS,
    BLOCKS,
    CLAIMS,
    LABELS,
    LISTS_OF_CARDS,
    NAMESPACES,
    QUANTITIES,
    RESOURCES,
    TEXTS,
)
from plugins.capacity_card.quotas import quota
from plugins.capacity_card.requests import requests as card_requests
from plugins.capacity_dra import quota as device_quota
from plugins.crossquota import quota as node_quota
from plugins.mgpu import devices as shared_cards
from plugins.mgpu import requests as shared_requests
from plugins.mgpu import results as shared_results
from volsched import registry
from volsched.controllers import commands, grouping, job_plugins, policies
from volsched.controllers.job_controller import JobSurroundings, reconcile
from volsched.controllers.job_plugins import PLAYED
from volsched.controllers.lifecycle import JobPod
from volsched.controllers.objects import Command, RawJob
from volsched.controllers.pod_index import JobPodIndex
from volsched.controllers.store import Store
from volsched.diagnose import snapshot
from volsched.diagnose.records import API_VERSION
from volsched.framework.config import arguments, loading
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.dra import reads, selectors
from volsched.framework.resource_patterns import DeviceNames
from volsched.framework.validation import Surroundings
from volsched.kube.errors import ApiError
from volsched.kube.lead import leases
from volsched.kube.serve.connections import ConnectionLimits, networks, peer_of
from volsched.kube.watch.decoding import KindReader, Unread
from volsched.kube.watch.resources import VOLCANO, Resource, watched
from volsched.mirror import reading
from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.mirror.memory_bound import MemoryUse
from volsched.mirror.native import reading as native_reading
from volsched.mirror.settings import MirrorSettings
from volsched.model import api
from volsched.model.annotations import UndeclaredAnnotationError
from volsched.model.api import native_groups as native
from volsched.model.cards import amounts, node_cards
from volsched.model.changes import Put
from volsched.model.dra import announced, observed
from volsched.model.dra import api as dra
from volsched.model.dra import binding as device_binding
from volsched.model.dra import reading as device_reading
from volsched.model.dra.device import Device, DeviceId
from volsched.model.errors import ConfigError, FieldError, ObjectError, QuantityError, VolschedError
from volsched.model.pods import limits as pod_limits
from volsched.model.pods import owners, requests, template, workload
from volsched.model.pods.placement_rules import ContainerAmounts
from volsched.model.queues import allowed_namespaces
from volsched.model.queues.queue import QueueInfo
from volsched.model.selectors import LabelSelector, NodeSelector
from volsched.model.values import duration, json_text, quantity
from volsched.operator.reading import job_view
from volsched.operator.webhooks.webhook_server import read_review
from volsched.replay import trace
from volsched.replay.jobs import ReplayJob
from volsched.replay.result import result_of
from volsched.replay.runner import Replay, ReplaySettings
from volsched.simulation import at_max
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import Inventory, completed, read_inventory
from volsched.ui.access import WHOLE
from volsched.ui.pages import VIEWS, Pages
from volsched.ui.picture import Picture
from volsched.ui.redaction import VisiblePicture
from volsched.ui.secret import LinkSecret
from volsched.ui.what_if_page import numbers_in
from volsched.validation.admission import CREATE, DELETE, UPDATE, AdmissionContext, AdmissionRequest, judge

Json = dict[str, Any]


class Parser(NamedTuple):
    """Something that reads what users write. Of a round of inputs it gets `share`; `declared` are its own errors.

    `seconds` of CPU is what one input may take.
    """

    name: str
    share: int
    make: Callable[[Maker], Any]
    read: Callable[[Any], Any]
    declared: tuple[type[Exception], ...] = ()
    seconds: float = 1.0


# --- texts ----------------------------------------------------------------------------------------------------------


def _text(words: Iterable[str]) -> Callable[[Maker], str]:
    """Return what makes a text that is like one of these."""
    listed = tuple(words)

    def make(maker: Maker) -> str:
        draw = maker.random.random()
        if draw < 0.01:
            return maker.long(maker.one_of(listed))
        return (
            maker.one_of(listed) if draw < 0.15 else maker.text() if draw < 0.2 else maker.changed(maker.one_of(listed))
        )

    return make


def _values(key: str) -> Callable[[Maker], str]:
    return _text(next(values for name, values in ANNOTATIONS if name == key))


def _amount(maker: Maker) -> tuple[str, Any]:
    return maker.one_of(RESOURCES), maker.quantity()


def _read_amount(given: tuple[str, Any]) -> None:
    resource, text = given
    quantity.parse(text)
    found = quantity.amount_of(resource, text)
    shown = quantity.format_amount(resource, found)
    if quantity.amount_of(resource, shown) != found:
        raise AssertionError(f"{found} of {resource} is shown as {shown}, which is another amount")


def _read_annotation_texts(text: str) -> None:
    reading.truth_in(text)
    reading.task_priority_in(text)
    reading.seconds(text)
    grouping.min_member_in(text)
    duration.seconds_of(text)
    owners.group_of(text)
    workload.workload_of({workload.LABEL: text}, text)
    announced.announced_by({announced.ANNOTATION: text}).of_role("worker")


def _json_text(maker: Maker) -> bytes:
    return maker.json(maker.anything())


_KINDS: Final = {**{kind: known for (_, kind), known in api.KINDS.items()}, **dra.KINDS}
_SPECS: Final[dict[type[Any], type[Any]]] = {
    dra.ResourceClaim: dra.ResourceClaimSpec,
    dra.ResourceSlice: dra.ResourceSliceSpec,
    dra.DeviceClass: dra.DeviceClassSpec,
    dra.DeviceTaintRule: dra.DeviceTaintRuleSpec,
}
_WRITTEN: Final = ({struct: f"{version} {kind}" for (version, kind), struct in api.KINDS.items()} |
                   {struct: f"{dra.GROUP_VERSION} {kind}" for kind, struct in dra.KINDS.items()})  # fmt: skip
_COMMON: Final = ("Pod", "Pod", "Pod", "PodGroup", "Queue", "Job", "Node", "ResourceClaim", "ResourceSlice")


def _raw(kind: type[api.ApiObject], maker: Maker) -> Any:
    """Return an object of a kind as JSON has it."""
    tree = maker.object(kind)
    if not isinstance(tree, dict):
        return tree
    if kind in _SPECS and not maker.chance(0.05):
        tree["spec"] = maker.object(_SPECS[kind])
    if kind is dra.ResourceClaimTemplate and not maker.chance(0.05):
        tree["spec"] = {"metadata": maker.object(api.ObjectMeta), "spec": maker.object(dra.ResourceClaimSpec)}
    if kind is api.Queue and maker.chance(0.3) and isinstance(tree.get("spec"), dict):
        tree["spec"]["dra"] = _blocks(maker)
    return tree


def _blocks(maker: Maker) -> Any:
    if maker.chance(0.15):
        return maker.anything()
    found = {}
    for name in ("capability", "deserved", "guarantee", "odd"):
        if maker.chance(0.5):
            block = msgspec.json.decode(maker.one_of(BLOCKS))
            found[name] = maker.spoilt(block) if maker.chance(0.5) else block
    return found


def _named(maker: Maker, kinds: tuple[str, ...] = _COMMON) -> Any:
    """Return an object with its kind, mostly of those that are read most."""
    kind = maker.one_of(kinds) if maker.chance(0.8) else maker.one_of(tuple(_KINDS))
    struct = _KINDS[kind]
    tree = _raw(struct, maker)
    if isinstance(tree, dict) and not maker.chance(0.02):
        version, _, name = _WRITTEN[struct].partition(" ")
        tree |= {"apiVersion": version, "kind": name}
    return tree


def _tree_of(kind: type[api.ApiObject]) -> Callable[[Maker], Any]:
    return partial(_raw, kind)


def _decoded(kind: type[api.ApiObject], maker: Maker) -> Any:
    """Return an object that could be decoded, as code behind the decoding gets it; None when it could not."""
    try:
        return api.decode_as(kind, _raw(kind, maker))
    except ObjectError:
        return None


def _read(kind: type[api.ApiObject]) -> Callable[[Maker], Any]:
    return partial(_decoded, kind)


def _if_there(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda found: None if found is None else read(found)


# --- decoding -------------------------------------------------------------------------------------------------------

_WATCHED: Final = {resource.kind: resource for resource in watched(need_groups=True)} | {
    "Command": Resource("Command", "bus.volcano.sh/v1alpha1", "commands", Command),
    "Job": Resource("Job", "batch.volcano.sh/v1alpha1", "jobs", RawJob),
    "ConfigMap": Resource("ConfigMap", "v1", "configmaps", api.ConfigMap),
    "Lease": Resource("PodGroup", VOLCANO, "podgroups", api.PodGroup),
}


@cache
def _reader(kind: str) -> KindReader:
    return KindReader(_WATCHED[kind])


def _line(maker: Maker) -> tuple[str, bytes]:
    kind = maker.one_of(tuple(_WATCHED)) if maker.chance(0.5) else maker.one_of(("Pod", "PodGroup", "Queue", "Job"))
    found = [_raw(_WATCHED[kind].struct, maker) for _ in range(1 + maker.count(2))]
    events = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", 5, None)
    lines = [maker.json({"type": maker.one_of(events), "object": one}).replace(b"\n", b" ") for one in found]
    return kind, b"\n".join(lines) + b"\n"


def _read_lines(given: tuple[str, bytes]) -> None:
    kind, lines = given
    for event in _reader(kind).events(lines):
        _check_read(event.object)


def _page(maker: Maker) -> tuple[str, bytes]:
    kind = maker.one_of(tuple(_WATCHED))
    items: Any = [_raw(_WATCHED[kind].struct, maker) for _ in range(maker.count(3))]
    page = {"metadata": {"resourceVersion": "7", "continue": maker.text()}, "items": items}
    return kind, maker.json(maker.spoilt(page) if maker.chance(0.05) else page)


def _read_page(given: tuple[str, bytes]) -> None:
    kind, answer = given
    for found in _reader(kind).page(answer).items or ():
        _check_read(found)


def _check_read(found: api.ApiObject) -> None:
    if isinstance(found, Unread) and not found.message:
        raise AssertionError("an object cannot be read, and nobody says why")


def _decode_text(given: tuple[str, bytes]) -> None:
    api.decode_text(_KINDS[given[0]], given[1])


def _object_text(maker: Maker) -> tuple[str, bytes]:
    kind = maker.one_of(tuple(_KINDS))
    return kind, maker.json(_raw(_KINDS[kind], maker))


# --- pods -----------------------------------------------------------------------------------------------------------


def _read_rules(pod: api.Pod) -> None:
    table = template.TemplateTable(lambda key: "volcano" in key, ("volcano.sh/card.name",))
    table.intern(pod)
    pod_limits.exceeded(pod.spec, pod_limits.DEFAULT)


def _read_requests(pod: api.Pod) -> None:
    requests.is_resizing(pod)
    requests.of_pod(pod)
    requests.of_placed_pod(pod)


def _read_pod(pod: api.Pod) -> None:
    reading.task_priority(pod, {"high": 5})
    reading.is_preemptable(pod)
    reading.pod_status(pod)
    reading.container_names(pod)
    owners.controller_of(pod.metadata)
    grouping.group_template_of(pod)
    reading.generated_group_name(pod)
    grouping.group_owner(pod)
    grouping.quantities(grouping.request_of(pod.spec))
    grouping.inherited(pod.metadata.annotations)
    grouping.min_member_of(pod.metadata.annotations)
    announced.announcement([("worker", pod.spec)])


_NODE_LABELS: Final = {"team": "vision", "topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "node-1"}


def _read_label_selector(found: api.LabelSelector) -> None:
    selector = LabelSelector.parse(found)
    selector.matches(_NODE_LABELS)
    selector.with_label_keys(_NODE_LABELS, ("team", "app"), ("team",))


def _read_node_selector(found: api.NodeSelector) -> None:
    NodeSelector.parse(found, {"team": "vision"}).matches("node-1", _NODE_LABELS)


def _struct(kind: Any) -> Callable[[Maker], Any]:
    """Return what makes a part of an object that could be decoded; None when it could not."""

    def make(maker: Maker) -> Any:
        try:
            return api.convert(api.as_json(maker.object(kind)), kind)
        except FieldError:
            return None

    return make


# --- gangs of Kubernetes -------------------------------------------------------------------------------------------

_POLICIES: Final[tuple[Any, ...]] = (
    {"gang": {"minCount": 2}}, {"basic": {}}, {"gang": {"minCount": 0}}, {"gang": {"minCount": 2**31}}, {},
    {"gang": {"minCount": 1}, "basic": {}}, {"gang": {}}, {"gang": None, "basic": {}},
)  # fmt: skip
_MODES: Final[tuple[Any, ...]] = (
    "Pod",
    "PodGroup",
    "",
    "Other",
    {"single": {}},
    {"all": {}},
    {"all": {}, "single": {}},
    {},
    None,
    5,
)
_REFERENCES: Final[tuple[Any, ...]] = (
    {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
    {"workloadName": "w"},
    {},
    None,
)


def _native_group(maker: Maker) -> Any:
    """Return a PodGroup of scheduling.k8s.io, of any version, as it was decoded; None when it could not be."""
    struct = maker.one_of(tuple(native.VERSIONS.values()))
    tree = maker.object(struct)
    if not isinstance(tree, dict):
        return None
    spec: Json = {"schedulingPolicy": copied(maker.one_of(_POLICIES))}
    given = {
        "disruptionMode": maker.one_of(_MODES),
        "schedulingConstraints": {"topology": [{"key": maker.text("key")} for _ in range(maker.count(3))]},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": maker.text("name")}] * maker.count(2),
        "priorityClassName": maker.text("priorityClassName"),
        "priority": maker.whole(),
        "preemptionPolicy": maker.one_of(("Never", "PreemptLowerPriority", "", "x")),
        maker.one_of(("podGroupTemplateRef", "workloadRef")): maker.one_of(_REFERENCES),
    }
    spec |= {name: copied(value) for name, value in given.items() if maker.chance(0.3)}
    tree["spec"] = maker.spoilt(spec) if maker.chance(0.2) else spec
    try:
        return api.decode_as(struct, tree)
    except ObjectError:
        return None


# --- devices --------------------------------------------------------------------------------------------------------


def _selector(maker: Maker) -> str:
    return maker.long(maker.selector()) if maker.chance(0.005) else maker.selector()


_DEVICE: Final = Device(
    DeviceId("gpu.example.com", "pool", "gpu-0"), {"gpu.example.com/model": "A100", "gpu.example.com/index": 1}
)


def _read_selector(expression: str) -> None:
    reads.reads_of(expression)
    selectors.with_any_domain(expression)
    selectors.compiled(expression).select(_DEVICE)


def _read_selector_text(expression: str) -> None:
    reads.reads_of(expression)
    selectors.with_any_domain(expression)


def _claim(maker: Maker) -> Any:
    return maker.anything() if maker.chance(0.05) else maker.object(dra.ResourceClaimSpec)


# --- cards ----------------------------------------------------------------------------------------------------------


def _annotations(maker: Maker) -> dict[str, str]:
    return maker.texts(ANNOTATIONS)


def _read_cards(annotations: dict[str, str]) -> None:
    quota.quota_of(annotations)
    card_requests.job_request_of(annotations)
    names = card_requests.card_names_of(annotations)
    amounts.joined(names)
    if names:
        card_requests.card_request_of(names, {"nvidia.com/gpu": 1000}, {names[0]: "nvidia.com/gpu"})


def _node_of_cards(maker: Maker) -> tuple[dict[str, str], dict[str, str], dict[str, int]]:
    offered = {maker.one_of(RESOURCES): maker.one_of((0, 1, 1000, 8000, 2**62)) for _ in range(maker.count(5))}
    return maker.texts(LABELS), maker.texts(ANNOTATIONS), offered


def _read_node_cards(given: tuple[dict[str, str], dict[str, str], dict[str, int]]) -> None:
    labels, annotations, offered = given
    node_cards.cards_of(labels, offered)
    core, memory = (offered.get(name, 0) for name in (shared_cards.CORE, shared_cards.MEMORY))
    shared_cards.cards_of(labels, annotations, core, memory)


_SHARED: Final = shared_cards.Cards(2, 16384)


def _shared_request(maker: Maker) -> tuple[Any, dict[str, str]]:
    given = []
    for place in range(1 + maker.count(3)):
        kind = maker.one_of(("containers", "containers", "initContainers"))
        named = [
            (name, maker.one_of((0, -1, 1, 1000, 50_000, 100_000, 2**62)))
            for name in _SHARED_NAMES
            if maker.chance(0.6)
        ]
        given.append(ContainerAmounts(kind, place, tuple(named), tuple(n for n, _ in named if maker.chance(0.1))))
    return tuple(given), maker.texts(ANNOTATIONS)


_SHARED_NAMES: Final = (shared_cards.CORE, shared_cards.MEMORY, "nvidia.com/gpu")


def _read_shared(given: tuple[Any, dict[str, str]]) -> None:
    containers, annotations = given
    names = tuple(f"c{place}" for place in range(len(containers)))
    wanted = shared_requests.read(containers, annotations)
    shared_requests.long_names(containers, ["main" * 30] * len(containers))
    shared_results.lists_of(wanted.asks, ("main", *names), annotations, _SHARED)


def _read_node_quota(text: str) -> None:
    node_quota.read_part(text)
    found = node_quota.read_amount("memory", text)
    if found is not None:
        node_quota.doubt_about("memory", found)
        node_quota.doubt_about("hugepages-" + text, found)


def _read_patterns(text: str) -> None:
    DeviceNames((text,)).include("nvidia.com/gpu")


def _read_device_quota(queue: api.Queue) -> None:
    device_quota.read_quota(QueueInfo(reading.queue_spec(queue, lambda _path, _what: None)))


# --- configuration --------------------------------------------------------------------------------------------------

_YAML_SECONDS: Final = 5.0
"""YAML with lines is read in Python: a text of the longest that is read takes two seconds on a machine of its own. Only
administrators write configurations, and manifests are read on the command line."""

_CONFIGURATIONS: Final = (
    loading.DEFAULT_CONFIGURATION,
    loading.IN_KUBE_SCHEDULERS_PLACE,
    "actions: allocate\ntiers:\n- plugins:\n  - {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}\n",
    "actions: allocate\ntiers:\n- plugins:\n  - {name: mgpu, arguments: {predicate.MGPUEnable: true}}\nmetrics: {}\n",
    'kind: ConfigMap\ndata:\n  volcano-scheduler.conf: |\n    actions: "allocate"\n    tiers: []\n',
    "a: &a [*a]\ntiers: *a\nactions: !!python/object:os.system ls\n? [1]\n: 2\n<<: {a: 1}\n",
)


def _read_configuration(text: str) -> None:
    loading.is_bare_configuration(text)
    registry.load_profile(text)


def _read_data(data: dict[str, str]) -> None:
    loading.find_in_data(data)


def _data(maker: Maker) -> dict[str, str]:
    texts = (*_CONFIGURATIONS, "actions", "tiers: []", "")
    return {maker.text("name"): maker.changed(maker.one_of(texts)) for _ in range(maker.count(3))}


def _given_arguments(maker: Maker) -> tuple[bool, str, Json]:
    is_plugin = maker.chance(0.7)
    catalogue = registry.PLUGINS if is_plugin else registry.ACTIONS
    name = maker.one_of(tuple(catalogue.names()))
    keys = tuple(argument.key for argument in catalogue.schema(name) or ()) or ("x",)
    given = {}
    for _ in range(maker.count(5)):
        key = maker.one_of(keys)
        draw = maker.random.random()
        key = key.replace("*", maker.one_of(RESOURCES)) if draw < 0.9 else maker.changed(key)
        given[key] = maker.quantity() if maker.chance(0.6) else maker.anything()
    return is_plugin, name, given


def _read_arguments(given: tuple[bool, str, Json]) -> None:
    is_plugin, name, values = given
    catalogue = registry.PLUGINS if is_plugin else registry.ACTIONS
    arguments.check(f"plugin {name}", catalogue.schema(name) or (), values, catalogue.check(name))


def _build_plugin(given: tuple[bool, str, Json]) -> None:
    """Make a plugin, or an action, of arguments that were found right."""
    is_plugin, name, values = given
    catalogue = registry.PLUGINS if is_plugin else registry.ACTIONS
    checked = arguments.check(f"plugin {name}", catalogue.schema(name) or (), values, catalogue.check(name))
    if not any(problem.severity == "error" for problem in checked.problems):
        catalogue.build(name, checked.values)


# --- manifests ------------------------------------------------------------------------------------------------------


def _manifest(maker: Maker) -> str:
    found = [_named(maker) for _ in range(1 + maker.count(2))]
    if maker.chance(0.3):
        found = [{"apiVersion": "v1", "kind": maker.one_of(("List", "PodList", "QueueList")), "items": found}]
    texts = [maker.json(one).decode(errors="replace") for one in found]
    if maker.chance(0.05):
        texts = [maker.changed(maker.one_of(_CONFIGURATIONS))]
    return "\n---\n".join(texts)


def _read_manifest(text: str) -> None:
    read_inventory(documents_in("a file", text), at_max=True)


def _snapshot(maker: Maker) -> bytes:
    """Return a file like those of `volsched snapshot`, whole or spoilt before or after it was compressed."""
    rows = [{"kind": kind, "items": [_raw(_KINDS[kind], maker)]} for kind in _COMMON if maker.chance(0.3)]
    names = [maker.text("schedulerName") for _ in range(maker.count(2))]
    tree: Json = {"apiVersion": API_VERSION, "kind": snapshot.KIND, "configuration": "", "origin": maker.text()}
    tree |= {"schedulerNames": names, "defaultQueue": "default", "objects": rows}
    body = maker.json(maker.spoilt(tree) if maker.chance(0.2) else tree)
    packed = gzip.compress(body, 1, mtime=0)
    if maker.chance(0.8):
        return packed
    at = maker.random.randrange(len(packed))
    return packed[:at] + bytes([maker.random.randrange(256)]) + packed[at + maker.count(3) :]


def _read_snapshot(data: bytes) -> None:
    snapshot.read(data, "a file").stage(cycles=1).run()


def _trace(maker: Maker) -> str:
    """Return jobs as CSV, nearly."""
    header = [name for name in trace.COLUMNS if name in trace.REQUIRED or maker.chance(0.5)]
    header += [maker.one_of(RESOURCES) for _ in range(maker.count(2))]
    lines = [",".join(header)]
    for number in range(1 + maker.count(4)):
        values = [str(maker.quantity()) if maker.chance(0.5) else str(maker.count(9)) for _ in header]
        lines.append(",".join([f"job-{number}", *values[1:]]))
    text = "\n".join(lines)
    return maker.changed(text) if maker.chance(0.5) else text


def _read_trace(text: str) -> None:
    """Read jobs, and play them where they are few."""
    inventory = read_inventory(documents_in("nodes", _NODES))
    jobs, classes = trace.parse_trace(text, "a file", "volsched", inventory)
    inventory.objects += classes
    if sum(job.pods for job in jobs) <= _MOST_PLAYED:
        result_of(_played(inventory, jobs))


def _played(inventory: Inventory, jobs: list[ReplayJob]) -> Replay:
    replay = Replay(inventory, registry.load_profile(DEFAULT_CONFIGURATION)[0], jobs, ReplaySettings(("volsched",)))
    replay.run()
    return replay


_MOST_PLAYED: Final = 50
_NODES: Final = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 16Gi, pods: "110", nvidia.com/gpu: "8"}}
"""


def _address(maker: Maker) -> str:
    """Return the part of an address of the page that says what is looked at."""
    names = ("page", "queue", "namespace", "search", "filter", "nodes:n1", "quota:capability:cpu", maker.text())
    return urlencode([(maker.one_of(names), str(maker.anything())) for _ in range(maker.count(4))], errors="replace")


def _read_address(query: str) -> None:
    """Show each view as it says, and read the numbers of a form."""
    asked = MultiDict(parse_qsl(query, keep_blank_values=True))
    for name in VIEWS:
        _pages().view(name, asked).show(VisiblePicture(WHOLE, Picture()), lambda _queue, _resource: ())
    numbers_in(asked, "nodes:")
    numbers_in(asked, "quota:")


@cache
def _pages() -> Pages:
    return Pages()


def _cron_job(maker: Maker) -> Any:
    return maker.object(maker.one_of((at_max.CronJob, at_max.VolcanoCronJob)))


def _read_cron_job(raw: Any) -> None:
    for kind in (at_max.CronJob, at_max.VolcanoCronJob):
        at_max.at_most([completed(api.decode_as(kind, raw))])


# --- admission ------------------------------------------------------------------------------------------------------


@cache
def _world() -> AdmissionContext:
    queues = [
        {"metadata": {"name": "team"}, "spec": {"parent": "root", "capability": {"cpu": "10"}}},
        {
            "metadata": {"name": "child", "annotations": {"volsched.io/allowed-namespaces": "team=a"}},
            "spec": {"parent": "team"},
        },
    ]
    node = {
        "metadata": {"name": "node-1", "labels": {"nvidia.com/gpu.product": "A", "nvidia.com/gpu.memory": "81920"}},
        "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "8"}},
    }
    beside = Surroundings((*(api.decode_as(api.Queue, raw) for raw in queues), api.decode_as(api.Node, node)))
    return AdmissionContext(beside, lambda _: 1)


def _lease(maker: Maker) -> api.Lease:
    """Return a Lease as somebody may write it who wants to be taken for a scheduler."""
    names = (leases.NAMES, leases.QUEUE, leases.CONFIGURATION, leases.HASH)
    sources = (
        "ConfigMap a/b",
        "ConfigMap /",
        "ConfigMap a/b/c",
        "ConfigMap ",
        "built-in default",
        "/etc/volsched.conf",
    )
    annotations = {name: maker.changed(maker.one_of((*sources, "a,b,,", ""))) for name in names if maker.chance(0.8)}
    raw = {"metadata": {"name": "l", "namespace": "n", "annotations": annotations}}
    return api.decode_as(api.Lease, {**raw, "spec": {"renewTime": maker.text("creationTimestamp")}})


def _read_lease(lease: api.Lease) -> None:
    found = leases.read(lease)
    if found.config_map is not None and len(found.config_map) != 2:
        raise AssertionError("a ConfigMap has a namespace and a name")


_ADDRESSES: Final = ("10.0.0.0/8", "10.1.2.3", "fd00::/64", "::ffff:10.0.0.1", "fe80::1%eth0", "1.2.3.4/33", "::/", "a")


def _addresses(maker: Maker) -> str:
    return ",".join(maker.changed(maker.one_of(_ADDRESSES)) for _ in range(maker.count(3)))


def _read_peer(text: str) -> None:
    ConnectionLimits(unlimited=networks("10.0.0.0/8,fd00::/64")).has_no_limit(peer_of((text, 80)))


def _visit(maker: Maker) -> dict[str, str]:
    """Return headers of a request to the page."""
    hosts = ("localhost:8088", "127.0.0.1", "[::1]:80", "[::1", "evil.example", ":", "localhost:8088:1", "")
    origins = ("http://localhost:8088", "http://[::1", "null", "http://", "\u202e")
    found = {
        "Host": maker.changed(maker.one_of(hosts)),
        "Origin": maker.changed(maker.one_of(origins)),
        "Sec-Fetch-Site": maker.one_of(("cross-site", "same-origin", "", "x")),
        "Authorization": maker.changed(maker.one_of(("Bearer x", "Bearer \u202e", "Basic", ""))),
        "Cookie": maker.changed(maker.one_of(("volsched-ui-8088=x", "a=b", "=;;", ""))),
    }
    return {name: text.encode(errors="ignore").decode() for name, text in found.items()}


def _read_visit(headers: dict[str, str]) -> None:
    LinkSecret().check(make_mocked_request("GET", "/queues", CIMultiDict(headers)))
    raise AssertionError("a visitor without the secret is let in")


def _request(maker: Maker) -> AdmissionRequest:
    operation = maker.one_of((CREATE, CREATE, UPDATE, DELETE))
    new, old = _named(maker), _named(maker) if operation != CREATE else None
    new, old = (found if isinstance(found, dict) else {} for found in (new, old))
    return AdmissionRequest(operation, new, old if operation != CREATE else None)


def _judge(request: AdmissionRequest) -> None:
    judged = judge(request, _world())
    if len(judged.message) > 60_000:
        raise AssertionError(f"an answer of {len(judged.message)} letters")


def _review(maker: Maker) -> bytes:
    tree = {"kind": "AdmissionReview", "request": {"uid": "u", "operation": "CREATE", "object": _named(maker)}}
    return maker.json(maker.spoilt(copied(tree)) if maker.chance(0.1) and _is_plain(tree) else tree)


def _is_plain(tree: Any) -> bool:
    try:
        msgspec.json.encode(tree)
    except (OverflowError, UnicodeError, RecursionError):
        return False
    return True


def _read_review(body: bytes) -> None:
    _, request = read_review(body)
    if isinstance(request.new, dict) and isinstance(request.old, dict | None):
        _judge(request)


_NO_REVIEW: Final = (ValueError, KeyError, TypeError, AttributeError, msgspec.DecodeError)
"""What the webhook server answers 400 for."""


# --- controllers ----------------------------------------------------------------------------------------------------

_CLOCK: Final = itertools.count(1)
_JOB_META: Final = {"name": "train", "namespace": "ns", "uid": "uid-train", "resourceVersion": "7"}


def _job(maker: Maker) -> Json:
    """Return a Volcano Job as the informer hands it over."""
    tree = _raw(api.Job, maker)
    found = tree if isinstance(tree, dict) else {"spec": tree}
    spec = found.get("spec")
    if isinstance(spec, dict) and maker.chance(0.5):
        spec["plugins"] = {maker.one_of(_PLUGINS): [maker.text("plugins") for _ in range(maker.count(3))]}
        spec.setdefault("minAvailable", 1)
    meta = found.get("metadata")
    return {**found, "metadata": {**(meta if isinstance(meta, dict) else {}), **_JOB_META}}


_PLUGINS: Final = (*PLAYED, "ray", "")


def _read_job(raw: Json) -> None:
    view = job_view(raw, ("volsched", "volcano"), "default")
    members = [_MEMBER, _MEMBER._replace(uid="m-1", name="train-worker-1", number=1, phase="Failed", exit_code=1)]
    for pods in ((), members):
        outcome = reconcile(view, JobSurroundings(JobPodIndex.of("train", pods), None, {"high": 5}, "default"), 1e9)
        msgspec.json.encode([getattr(write, "body", None) for write in outcome.writes])


_MEMBER: Final = JobPod(
    uid="m-0", namespace="ns", name="train-worker-0", task="worker", number=0, version=0, phase="Running",
    terminating=False, killed=False, exit_code=0, restarts=0, created=1e9, since=1e9,
)  # fmt: skip


def _decide_policies(job: api.Job) -> None:
    policies.decide(job, [_MEMBER], (), "Unknown", 2e9)
    for _ in job_plugins.faults(job):
        pass


def _command(maker: Maker) -> Any:
    tree = maker.object(Command)
    if isinstance(tree, dict) and maker.chance(0.7):
        tree["target"] = {
            "kind": maker.one_of(("Job", "Queue", "Pod")),
            "name": maker.text("name"),
            "apiVersion": maker.text("apiVersion"),
        }
    return tree


def _read_command(raw: Any) -> None:
    command = api.decode_as(Command, raw)
    commands.refused(command, commands.why_not(command, Store(lambda _: None, lambda: 0.0), ("volsched-system",)))


# --- the mirror -----------------------------------------------------------------------------------------------------

_MIRRORED: Final[tuple[type[api.ApiObject], ...]] = (
    *(api.Pod, api.PodGroup, api.Queue, api.Node),
    *(dra.ResourceClaim, dra.ResourceSlice, dra.DeviceTaintRule, dra.DeviceClass, dra.ResourceClaimTemplate),
    *(api.PersistentVolumeClaim, api.PersistentVolume, api.StorageClass, api.CSINode),
    *(api.PodDisruptionBudget, api.Namespace, api.PriorityClass),
)


def _several(maker: Maker) -> list[Any]:
    """Return objects as an informer hands them over."""
    kinds = [maker.one_of(_MIRRORED[:4] if maker.chance(0.6) else _MIRRORED) for _ in range(1 + maker.count(3))]
    found = [_decoded(kind, maker) for kind in kinds]
    if maker.chance(0.2):
        found += [_native_group(maker), _decoded(native.Workload, maker)]
    return [completed(one) for one in found if one is not None]


def _take_in(found: list[Any]) -> None:
    mirror = Mirror(MirrorSettings(("volsched",), plain_pods=True))
    mirror.apply([Put(one) for one in (*found, *found)])
    for aside in mirror.quarantine.take_errors():
        raise aside.error or AssertionError(aside.message)


# --- what is kept ---------------------------------------------------------------------------------------------------

_UNREAD: Final = "this text is read by nobody"
_BULKY: Final[tuple[type[api.ApiObject], ...]] = (
    *(dra.ResourceClaim, dra.ResourceClaimTemplate),
    *(api.Pod, api.PodGroup, api.Queue, api.Node, api.PersistentVolumeClaim, api.Namespace),
)
_KEPT_OF: Final = kept_annotations(registry.installed_annotations())
_PARAMETERS: Final[tuple[Any, ...]] = ({"a": _UNREAD}, [_UNREAD], _UNREAD, {"a": [[_UNREAD]] * 40}, {_UNREAD: {}})


def _bulky(maker: Maker) -> tuple[type[api.ApiObject], Any]:
    """Return an object with texts in places that nobody reads."""
    kind = maker.one_of(_BULKY)
    tree = _raw(kind, maker)
    if isinstance(tree, dict):
        given = tree.get("metadata")
        meta = given if isinstance(given, dict) else {}
        notes = {f"example.com/{maker.count(9)}": _UNREAD, "volcano.sh/card.names": _UNREAD}
        tree["metadata"] = {**meta, "name": "a", "namespace": "ns", "uid": "u", "annotations": notes}
        tree["unread"] = maker.one_of(_PARAMETERS)
        spec = tree.get("spec")
        spec = spec.get("spec") if kind is dra.ResourceClaimTemplate and isinstance(spec, dict) else spec
        devices = spec.get("devices") if isinstance(spec, dict) else None
        if isinstance(devices, dict):
            opaque = {"driver": "d", "parameters": maker.one_of(_PARAMETERS)}
            devices["config"] = [{"opaque": opaque}] * (1 + maker.count(4))
    return kind, tree


def _read_bulky(given: tuple[type[api.ApiObject], Any]) -> None:
    """Read an object as an informer does, and look for what nobody reads in what is kept of it."""
    kind, tree = given
    found = api.decode_as(observed.KINDS.get(kind.__name__, kind), tree)
    _KEPT_OF.trim(kind.__name__, found)
    if _UNREAD.encode() in msgspec.json.encode(found):
        raise AssertionError(f"{kind.__name__} keeps what nobody reads: {msgspec.json.encode(found)[:500]!r}")
    memory_use, mirror = MemoryUse(1), Mirror(MirrorSettings(("volsched",), annotations=_KEPT_OF))
    for taken in ([Put(found)], memory_use.of([Put(found)])):
        mirror.apply(taken)
    for aside in mirror.quarantine.take_errors():
        raise aside.error or AssertionError(aside.message)
    _ask_for_what_is_kept(found)


def _ask_for_what_is_kept(found: api.ApiObject) -> None:
    keys = _KEPT_OF.of_kind(type(found).__name__)
    shown = keys.of(found.metadata.annotations)
    for key in (*shown, "example.com/unread"):
        try:
            shown.get(key)
        except UndeclaredAnnotationError:
            if keys.covers(key):
                raise


PARSERS: Final = (
    Parser("quantities", 12, _amount, _read_amount, (QuantityError,)),
    Parser(
        "texts of annotations", 10, _text(v for _, vs in (*ANNOTATIONS, *LABELS) for v in vs), _read_annotation_texts
    ),
    Parser("durations and times", 5, _text((*TEXTS["timeout"], *TEXTS["creationTimestamp"])), _read_annotation_texts),
    Parser("announced claims", 4, _text(CLAIMS), _read_annotation_texts),
    Parser("allowed namespaces", 5, _text(NAMESPACES), allowed_namespaces.parse, (FieldError,)),
    Parser("JSON", 4, _json_text, json_text.decode, (msgspec.DecodeError, UnicodeError)),
    Parser("Leases of schedulers", 3, _lease, _read_lease),
    Parser("networks", 2, _addresses, networks, (ValueError,)),
    Parser("addresses of peers", 2, _addresses, _read_peer),
    Parser("visits of the page", 3, _visit, _read_visit, (web.HTTPForbidden,)),
    Parser("lines of a watch", 5, _line, _read_lines, (ApiError,)),
    Parser("pages of a list", 3, _page, _read_page, (ApiError,)),
    Parser("texts of objects", 4, _object_text, _decode_text, (ObjectError,)),
    Parser("trees of objects", 4, _named, api.decode_object, (ObjectError,)),
    Parser("requests of pods", 4, _read(api.Pod), _if_there(_read_requests), (FieldError,)),
    Parser("rules of pods", 6, _read(api.Pod), _if_there(_read_rules)),
    Parser("pods", 3, _read(api.Pod), _if_there(_read_pod)),
    Parser("selectors of labels", 3, _struct(api.LabelSelector), _if_there(_read_label_selector), (FieldError,)),
    Parser("selectors of nodes", 3, _struct(api.NodeSelector), _if_there(_read_node_selector), (FieldError,)),
    Parser("selectors of devices", 2, _selector, _read_selector),
    Parser("what selectors read", 3, _selector, _read_selector_text),
    Parser("PodGroups of Kubernetes", 4, _native_group, _if_there(native_reading.group_of)),
    Parser("claims", 4, _claim, device_reading.claim_spec),
    Parser("slices", 3, _read(dra.ResourceSlice), _if_there(device_reading.slice_of)),
    Parser("classes of devices", 2, _read(dra.DeviceClass), _if_there(device_reading.class_of)),
    Parser("taint rules", 2, _read(dra.DeviceTaintRule), _if_there(device_reading.taint_rule_of)),
    Parser("statuses of claims", 2, _struct(dra.ResourceClaimStatus), _if_there(device_binding.readiness_of)),
    Parser("capacity-card", 8, _annotations, _read_cards, (FieldError,)),
    Parser("capacity-card amounts", 4, _text(LISTS_OF_CARDS), partial(amounts.entries, "p")),
    Parser("cards of nodes", 4, _node_of_cards, _read_node_cards),
    Parser("mgpu", 6, _shared_request, _read_shared, (FieldError,)),
    Parser("crossquota", 4, _text(QUANTITIES), _read_node_quota, (ValueError,)),
    Parser(
        "crossquota patterns",
        2,
        _text(("nvidia\\.com/.*", "(a|b)+$", "[", "(?i)gpu", "a{1000}", "\\p{L}")),
        _read_patterns,
    ),
    Parser("capacity-dra", 4, _read(api.Queue), _if_there(_read_device_quota)),
    Parser("capacity-dra keys", 2, _text(RESOURCES), device_quota.amount_of_key),
    Parser("configurations", 2, _text(_CONFIGURATIONS), _read_configuration, (ConfigError,), _YAML_SECONDS),
    Parser("ConfigMaps", 1, _data, _read_data, (ConfigError,), _YAML_SECONDS),
    Parser("arguments", 5, _given_arguments, _read_arguments),
    Parser("plugins made of arguments", 1, _given_arguments, _build_plugin, (ConfigError,)),
    Parser("manifests", 2, _manifest, _read_manifest, (VolschedError,), _YAML_SECONDS),
    Parser("snapshots", 2, _snapshot, _read_snapshot, (snapshot.SnapshotError, ConfigError)),
    Parser("jobs of replay", 2, _trace, _read_trace, (VolschedError,)),
    Parser("addresses of the page", 2, _address, _read_address, (HTTPException,)),
    Parser("CronJobs", 1, _cron_job, _read_cron_job, (ObjectError,)),
    Parser("admission", 6, _request, _judge),
    Parser("admission reviews", 3, _review, _read_review, _NO_REVIEW),
    Parser("Volcano Jobs", 5, _job, _read_job),
    Parser("policies of Jobs", 2, _read(api.Job), _if_there(_decide_policies)),
    Parser("Commands", 3, _command, _read_command, (ObjectError,)),
    Parser("mirror", 5, _several, _take_in),
    Parser("what is kept", 3, _bulky, _read_bulky, (ObjectError,)),
    Parser("decisions", 1, _several, decide_as_they_change),
)
"""`share` is of a round; what takes long gets little of it."""
