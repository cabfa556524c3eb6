"""Every dashboard and every alert rule, in a real Prometheus that scrapes a real run.

A story makes everything happen that is shown: gangs are placed, pods wait for many reasons, pods are evicted, the
configuration is broken and repaired, the API server lets the scheduler down. Each query must have had data some time.
Whoever adds a dashboard to `manifests/grafana` adds a step to `STORY` that fills it; a step may `configure` another set
of plugins for what comes after it.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import (
    CONFIGMAP,
    GROUPS,
    MANIFESTS,
    SYSTEM,
    Installed,
    SchedulerProcess,
    VolschedProcess,
    eventually,
)
from tests.cluster.signals import ready
from tests.cluster.test_eviction import CONFIGURATION, QUEUES, Town
from tests.docs.metrics import PAGE as METRICS_PAGE
from tests.docs.metrics import documented, series_of
from tests.docs.pages import blocks
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.monitoring.queries import DASHBOARDS, RULES, Query, has_data, of_dashboard, of_rules, operands
from tools.controlplane import ApiServerError, a_pod
from tools.controlplane.faults import FaultProxy, ResetWatch, Respond, server_error, too_many_requests
from tools.controlplane.objects import a_binding
from tools.controlplane.stages import RUN_FOR
from tools.prometheus import Prometheus, PrometheusError, find_programs
from volsched.kube.watch.config_source import text_hash
from volsched.model.held_nodes import EXPECTED_DURATION
from volsched.registry import PLUGINS, load_profile

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

SCHEDULER: Final = "volsched-scheduler"
CONTROLLERS: Final = "volsched-controllers"
CRD: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podgroups.scheduling.volcano.sh"
HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
KEY: Final = "volsched.conf"
CARD: Final = "nvidia.com/gpu"
DEVICES: Final = "/apis/resource.k8s.io/v1"
DEVICE_CLASS: Final = "gpu.monitored.example.com"
MODEL: Final = "NVIDIA-A100"
MODEL_LABELS: Final = {f"{CARD}.product": MODEL, f"{CARD}.count": "4", f"{CARD}.memory": "81920"}

QUOTA_BY_CARD: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: capacity-card
    arguments: {cardUnlimitedCpuMemory: true, usage.halfLife: 1h}
- plugins:
  - name: predicates
  - name: fragmentation
"""
"""The plugin minds queues, as does proportion, and does not run beside it."""

SHARED_CARDS: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: mgpu
    arguments: {predicate.MGPUEnable: true}
"""

HELD_NODES: Final = """
actions: "reserve, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
configurations:
- name: reserve
  arguments: {reserve.after: 0s, reserve.minNodes: 0.5}
"""

CPU_PODS_ON_GPU_NODES: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: crossquota
    arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: "1"}
"""


def shares(core: int, memory: int) -> dict[str, Any]:
    """Percent of cards and MiB, of a pod or of a node."""
    return {"vke.volcengine.com/mgpu-core": core, "vke.volcengine.com/mgpu-memory": memory}


@dataclass
class Run:
    """Two schedulers, of which one leads, and controllers, and the Prometheus that scrapes all of them."""

    installed: Installed
    town: Town
    proxy: FaultProxy
    leader: SchedulerProcess
    follower: SchedulerProcess
    controllers: VolschedProcess
    prometheus: Prometheus
    authority: trustme.CA
    """Signed the certificate of the controllers' webhooks."""
    nodes: Sequence[str]
    begun: float = field(default_factory=time.time)
    plugins: set[str] = field(default_factory=set)
    seen: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    """Labels of every metric that was on a page, by its name."""

    def configure(self, text: str) -> None:
        """Have both schedulers use this configuration.

        What plugins count ends with the configuration; a rate needs two samples of it before that.
        """
        self._wait_scraped_twice()
        self.installed.configure(text, KEY)
        self.plugins |= {option.name for tier in load_profile(text)[0].plugins for option, _ in tier}
        self.wait_shown(f'count(volsched_config_info{{hash="{text_hash(text)}"}}) == 2')

    def _wait_scraped_twice(self) -> None:
        since = time.monotonic()
        eventually(lambda: self.shows(f"min(count_over_time(up[{time.monotonic() - since + 1:.0f}s])) >= 3"))

    def shows(self, expr: str) -> bool:
        """Whether an expression has data now."""
        return has_data(self.prometheus.query(expr))

    def has_shown(self, expr: str) -> bool:
        """Whether an expression has had data some time in this run."""
        return has_data(self.prometheus.query_since(expr, self.begun))

    def wait_shown(self, expr: str) -> None:
        eventually(lambda: self.shows(expr), what=expr)

    def wait_phase(self, group: str, phase: str) -> None:
        path = f"{GROUPS}/namespaces/{self.town.namespace}/podgroups/{group}"
        eventually(lambda: self.installed.api.get(path).get("status", {}).get("phase") == phase, what=group)

    def look_at_pages(self) -> None:
        """Remember what is on the pages now."""
        pages = [process.page("/metrics")[1] for process in self.processes]
        for family in (family for page in pages for family in text_string_to_metric_families(page)):
            for sample in family.samples:
                assert not math.isnan(sample.value), sample
                labels = set(sample.labels) - ({"le"} if family.type == "histogram" else set())
                name = f"{family.name}_total" if family.type == "counter" else family.name
                self.seen.setdefault(name, set()).add(tuple(sorted(labels)))

    @property
    def processes(self) -> tuple[VolschedProcess, ...]:
        return self.leader, self.follower, self.controllers


@pytest.fixture
def run(
    installed: Installed,
    namespace: str,
    make_nodes: MakeNodes,
    fault_proxy: FaultProxy,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Run]:
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a download says so
        programs = find_programs()
    nodes = make_nodes(2, cpu="4", labels=MODEL_LABELS, **{CARD: 4}, **shares(200, 32768))
    town = Town(installed, namespace, tmp_path)
    installed.configure(CONFIGURATION, KEY)
    flags = ("--scheduler-configmap", CONFIGMAP)
    leader = installed.start(*flags, proxy=fault_proxy).wait_leading()
    follower = installed.start(*flags)
    ready(follower)
    rights = str(MANIFESTS / "rbac/webhooks")
    installed.control_plane.kubectl("apply", "-k", rights)
    authority = trustme.CA()
    controllers = controllers_of(installed, fault_proxy, *webhook_flags(authority, tmp_path))
    targets = {
        SCHEDULER: [*addresses(leader), *addresses(follower)],
        CONTROLLERS: addresses(controllers),
    }
    with Prometheus(tmp_path / "prometheus", targets, rules=RULES, programs=programs) as prometheus:
        yield Run(installed, town, fault_proxy, leader, follower, controllers, prometheus, authority, nodes)
    controllers.close()
    installed.control_plane.kubectl("delete", "-k", rights)
    town.clean()


def webhook_flags(authority: trustme.CA, folder: Path) -> tuple[str, ...]:
    certificate, key = folder / "tls.crt", folder / "tls.key"
    made = authority.issue_cert("127.0.0.1")
    certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())
    return "--webhook-address=127.0.0.1:0", f"--webhook-certificate={certificate}", f"--webhook-key={key}"


def controllers_of(installed: Installed, proxy: FaultProxy, *flags: str) -> VolschedProcess:
    installed.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/{CONTROLLERS}")
    kubeconfig = proxy.kubeconfig_for(CONTROLLERS, SYSTEM)
    process = VolschedProcess(
        *(installed.folder / "controllers.log", "controllers", "--kubeconfig", str(kubeconfig)),
        *("--listen-address", "127.0.0.1:0", "--healthz-address", "", "--leader-elect-resource-namespace", SYSTEM),
        *("--scheduler-name", installed.name, "--log-format", "json", "--log-level", "debug", *flags),
    )
    process.wait_for("at work")
    return process


def addresses(process: VolschedProcess) -> list[str]:
    found: list[str] = process.wait_for("serving")["addresses"]
    return found


# --- the story -------------------------------------------------------------------------------------------------------


def queues_have_limits(run: Run) -> None:
    run.configure(CONFIGURATION)
    amounts = {"cpu": "8", "memory": "64Gi", CARD: "8"}
    spec = {
        "capability": amounts,
        "deserved": {**amounts, "cpu": "4"},
        "guarantee": {"resource": {"cpu": "1", "memory": "1Gi", CARD: "1"}},
    }
    run.installed.api.patch(f"{QUEUES}/a-{run.town.suffix}", {"spec": spec})


def gangs_are_placed(run: Run) -> None:
    run.town.gang("first", 2, "low", cpu="500m", memory="1Gi", **{CARD: 1})
    run.town.wait_running("first", 2)
    run.wait_shown("volsched_pod_wait_seconds_count > 0")
    run.wait_shown("volsched_api_request_duration_seconds_count{resource='pods/binding'} > 0")
    run.town.gang("second", 6, "low", minimum=1, cpu="1", stop="500ms")
    run.town.wait_running("second", 6)


def pods_wait_for_many_reasons(run: Run) -> None:
    town, installed = run.town, run.installed
    town.gang("huge", 2, "low", queue="b", cpu="100")
    town.gang("over", 1, "low", cpu="7")
    installed.make_pods(town.namespace, [installed.pod("lonely", group="nobody-makes-it", cpu="1")])
    town.gang("lost", 1, "low", queue="nowhere", cpu="1")
    town.gang("picky", 0, "low", queue="b", minimum=1)
    elsewhere = {"nodeSelector": {"example.com/is": "nowhere"}}
    installed.make_pods(town.namespace, [installed.pod("picky-0", group="picky", cpu="100m", spec=elsewhere)])
    gate = {"schedulingGates": [{"name": "example.com/wait"}]}
    installed.make_pods(town.namespace, [installed.pod("gated", group="first", cpu="1", spec=gate)])
    for step in ("allocatable", "predicate", "no-podgroup", "no-queue", "gated"):
        run.wait_shown(f'volsched_pending_pods{{step="{step}"}}')


def controllers_make_groups(run: Run) -> None:
    run.proxy.inject(server_error(), method="POST", path="/podgroups$", times=1)
    for name in ("plain-1", "plain-2"):
        run.installed.make_pods(run.town.namespace, [run.installed.pod(name, memory="1Mi")])
        run.town.wait_running(name, 1)
        run.wait_shown("volsched_controllers_group_lag_seconds_count > 0")
    run.wait_shown("sum(volsched_controllers_reconcile_errors_total) > 0")


def some_work_is_online(run: Run) -> None:
    """What a ReplicaSet runs, as seed 001 (2.4.1) wants it shown beside the offline rest."""
    api, path = run.installed.api, f"/apis/apps/v1/namespaces/{run.town.namespace}/replicasets"
    pod = run.installed.pod("serves", group="first", cpu="100m")
    labels = {"app": "serves"}
    template = {"metadata": {"labels": labels, "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    api.create(path, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "serves"}, "spec": spec})
    part = f'volsched_queue_workload_allocated{{queue="a-{run.town.suffix}", resource="cpu"'
    run.wait_shown(f'{part}, workload="online"}} == 0.1')
    run.wait_shown(f'{part}, workload="offline"}} > 0')
    run.wait_shown('volsched_cluster_workload_used{resource="cpu", workload="online"} >= 0.1')
    api.delete(f"{path}/serves")
    run.wait_shown(f'{part}, workload="online"}} == 0')


def pods_are_evicted(run: Run) -> None:
    run.town.gang("urgent", 2, "high", cpu="1")
    run.town.wait_running("urgent", 2)
    run.wait_shown("volsched_evictions_sent_total > 0")


def the_configuration_is_broken_and_repaired(run: Run) -> None:
    run.installed.configure(CONFIGURATION.replace("allocate", "alocate"), KEY)
    run.wait_shown('volsched_config_newest_info{verdict="refused"}')
    run.wait_shown('ALERTS{alertname="VolschedConfigurationRefused"}')
    run.configure(CONFIGURATION)
    run.wait_shown("min(volsched_config_valid) == 1")


def the_api_server_lets_the_scheduler_down(run: Run) -> None:
    forbidden = Respond(403, json.dumps({"kind": "Status", "reason": "Forbidden", "message": "not today", "code": 403}))
    for fault in (server_error(), too_many_requests()):
        run.proxy.inject(fault, method="POST", path="/binding$", times=1)
    run.proxy.inject(forbidden, method="POST", path="/events$", times=1)
    run.town.gang("later", 2, "high", memory="1Mi")
    run.town.wait_running("later", 2)
    run.proxy.inject(ResetWatch(), watch=True, path="/podgroups$", times=1)
    for code in ("500", "429", "403"):
        run.wait_shown(f'volsched_api_requests_total{{code="{code}"}}')
    run.wait_shown('volsched_watch_restarts_total{reason!="ended"}')


def an_object_cannot_be_read(run: Run) -> None:
    """As with a CRD that says less of its fields than volsched's own."""
    api, path = run.installed.api, f"{GROUPS}/namespaces/{run.town.namespace}/podgroups"
    versions = api.get(CRD)["spec"]["versions"]
    loose = copy.deepcopy(versions)
    for version in loose:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        spec["properties"]["minTaskMember"] = {"x-kubernetes-preserve-unknown-fields": True}
    api.patch(CRD, {"spec": {"versions": loose}})
    odd = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "odd"},
        "spec": {"minMember": 1, "minTaskMember": "many"},
    }
    try:
        eventually(lambda: is_valid(run, path, odd), what="the CRD says less")
        api.create(path, odd)
        run.wait_shown('volsched_quarantined_objects{kind="PodGroup", where="decoding"} == 1')
        run.look_at_pages()
        api.delete(f"{path}/odd")
        run.wait_shown("absent(volsched_quarantined_objects > 0)")
    finally:
        api.patch(CRD, {"spec": {"versions": versions}})
        eventually(lambda: not is_valid(run, path, odd), what="the CRD says as much as before")


def is_valid(run: Run, path: str, body: dict[str, Any]) -> bool:
    """Whether the API server would take an object."""
    try:
        run.installed.api.create(f"{path}?dryRun=All", body)
    except ApiServerError:
        return False
    return True


def quotas_by_card_are_used_up(run: Run) -> None:
    run.configure(QUOTA_BY_CARD)
    town, api = run.town, run.installed.api
    kinds = {"volcano.sh/card.quota": 4, "volsched.io/card.deserved": 1, "volsched.io/card.guarantee": 1}
    said = {key: json.dumps({MODEL: amount}) for key, amount in kinds.items()}
    api.patch(f"{QUEUES}/a-{town.suffix}", {"metadata": {"annotations": said}})
    town.gang("reserves", 0, "low", minimum=1)
    wanted = {"metadata": {"annotations": {"volcano.sh/card.request": json.dumps({MODEL: 1})}}}
    api.patch(f"{GROUPS}/namespaces/{town.namespace}/podgroups/reserves", wanted)
    for group, size in (("fits", 2), ("exceeds", 3)):
        town.gang(group, 0, "high", minimum=size)
        # with its pods there, the larger one would be refused before it is let in
        run.wait_phase(group, "Inqueue")
        make_cards(run, group, range(size))
    run.wait_shown("max(volcano_queue_card_allocated) == 2")
    run.wait_shown(f'volsched_queue_workload_cards{{card="{MODEL}", workload="offline"}} == 2')
    run.wait_shown(f'volsched_cluster_workload_cards{{card="{MODEL}", workload="online"}} == 0')
    run.wait_shown("max(volsched_queue_card_reclaimable) == 1")
    run.wait_shown("sum(volsched_queue_card_refusals_total) > 0")
    run.wait_shown("max(volsched_queue_mean_use) > 0")


def a_job_is_scaled_beyond_its_quota_and_back(run: Run) -> None:
    town = run.town
    make_cards(run, "fits", range(2, 5))
    run.wait_shown("max(volcano_queue_card_allocated) == 4")
    eventually(lambda: refused(run, "fits") == 1, what="two of the three are placed, and the last is told why not")
    # that one, and one to three of the gang that exceeds the quota anyhow: as many as there was no card for when it
    # was tried, which is not done again while there is no more room than then
    run.wait_shown('sum(volsched_pending_pods{step="allocatable", reason="InsufficientScalarQuota"}) >= 2')
    for index in range(2, 5):
        run.installed.api.delete(f"/api/v1/namespaces/{town.namespace}/pods/fits-{index}", grace_seconds=0)
    run.wait_shown("max(volcano_queue_card_allocated) == 2")


def refused(run: Run, group: str) -> int:
    """How many pods of a PodGroup wait because their queue has no more cards."""
    pods = [pod for name, pod in run.town.pods().items() if name.startswith(f"{group}-")]
    said = [
        c.get("message", "") for pod in pods for c in pod["status"].get("conditions") or () if c["status"] == "False"
    ]
    return sum(f"insufficient <{MODEL}> quota" in message for message in said)


def make_cards(run: Run, group: str, numbers: range) -> None:
    """Make pods of a PodGroup that want one card each."""
    pods = [run.installed.pod(f"{group}-{index}", group=group, memory="1Mi", **{CARD: 1}) for index in numbers]
    for pod in pods:
        pod["metadata"]["annotations"]["volcano.sh/card.name"] = MODEL
    run.installed.make_pods(run.town.namespace, pods)


def queues_have_what_their_spec_says(run: Run) -> None:
    run.configure(CONFIGURATION.replace("name: proportion", "name: capacity"))
    run.wait_shown(f'volsched_queue_limit{{queue="a-{run.town.suffix}"}} > 0')


def devices_are_given_out(run: Run) -> None:
    """The plugin capacity brings the quotas of devices along; one gang holds a device, another waits for its port.

    What the one holds is deserved by the other queue.
    """
    town, api = run.town, run.installed.api
    for queue, kinds in (("a", ("capability",)), ("b", ("capability", "deserved", "guarantee"))):
        amounts = {kind: {DEVICE_CLASS: {"count": 2 if kind == "capability" else 1}} for kind in kinds}
        api.patch(f"{QUEUES}/{queue}-{town.suffix}", {"spec": {"dra": amounts}})
    node = sorted(run.nodes)[0]
    made = {
        f"{DEVICES}/deviceclasses": device_class(DEVICE_CLASS, driver=DEVICE_CLASS),
        f"{DEVICES}/resourceslices": part(
            f"{node}-devices", [device("d0"), device("d1")], node=node, pool=node, driver=DEVICE_CLASS
        ),
    }
    for path, body in made.items():
        api.create(path, body)
    for group in ("holds", "waits"):
        wanted = {"metadata": {"name": group}, "spec": claim(group, exactly(cls=DEVICE_CLASS))["spec"]}
        api.create(f"{DEVICES}/namespaces/{town.namespace}/resourceclaims", wanted)
        town.gang(group, 0, "low", minimum=1)
        uses = {"resourceClaims": [{"name": "gpu", "resourceClaimName": group}]}
        pod = run.installed.pod(f"{group}-0", group=group, memory="1Mi", spec=uses)
        pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8099}]
        run.installed.make_pods(town.namespace, [pod])
        if group == "holds":
            town.wait_running(group, 1)
    run.wait_shown("max(volcano_queue_dra_allocated) == 1")
    run.wait_shown("max(volcano_queue_dra_inqueue) == 1")
    run.wait_shown("max(volsched_queue_dra_reclaimable) == 1")
    run.look_at_pages()
    for path, body in made.items():
        api.delete(f"{path}/{body['metadata']['name']}")


def cards_are_shared(run: Run) -> None:
    run.configure(SHARED_CARDS)
    town, api = run.town, run.installed.api
    town.gang("shares", 3, "high", **shares(30, 4096))
    town.wait_running("shares", 3)
    run.wait_shown("max(volsched_mgpu_card_instances) >= 2")
    run.installed.make_pods(town.namespace, [a_pod("foreign", scheduler="nobody", **shares(30, 4096))])
    path = f"/api/v1/namespaces/{town.namespace}/pods"
    node = api.get(f"{path}/shares-0")["spec"]["nodeName"]
    api.create(f"{path}/foreign/binding", a_binding(api.get(f"{path}/foreign"), node))
    run.wait_shown("sum(max by (node) (volsched_mgpu_card_state_unknown)) == 1")
    results = [key for key in api.get(f"{path}/shares-0")["metadata"]["annotations"] if "gpu-index-container" in key]
    api.patch(f"{path}/shares-0", {"metadata": {"annotations": dict.fromkeys(results, "x")}})
    run.wait_shown("sum(volsched_mgpu_changed_results) == 1")


def cpu_pods_use_up_their_quota(run: Run) -> None:
    run.configure(CPU_PODS_ON_GPU_NODES)
    run.wait_shown('max(volsched_crossquota_quota{resource="cpu"}) == 1')
    run.town.gang("etl", 1, "high", cpu="1100m")
    run.wait_shown('sum(volsched_crossquota_refusals_total{resource="cpu"}) > 0')


def nodes_are_held_for_a_gang(run: Run) -> None:
    """Pods are on both nodes, and one ran for longer than it declared."""
    run.configure(HELD_NODES)
    town, installed = run.town, run.installed
    brief = installed.pod("brief", memory="1Mi")
    brief["metadata"]["annotations"] = {RUN_FOR: "3s", EXPECTED_DURATION: "1s"}
    installed.make_pods(town.namespace, [brief])
    run.wait_shown("max(volsched_outlived_durations) == 1")
    town.gang("whole", 2, "high", cpu="4")
    run.wait_shown("max(volsched_reservations) == 1")
    run.wait_shown('max(volsched_reserved_idle{resource="memory"}) > 1e9')
    run.wait_shown("max(volsched_reservation_late_seconds) == 0")


def admission_is_asked(run: Run) -> None:
    api, name = run.installed.api, f"asked-{run.town.suffix}"
    (address,) = run.controllers.wait_for("serving webhooks")["addresses"]
    trusted = base64.b64encode(run.authority.cert_pem.bytes()).decode()
    rule = {"apiGroups": ["scheduling.volcano.sh"], "apiVersions": ["v1beta1"], "resources": ["queues"]}
    hook = {
        "name": "queues.story.volsched.io",
        "clientConfig": {"url": f"https://{address}/validate", "caBundle": trusted},
        "rules": [{**rule, "operations": ["CREATE"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
    }
    api.create(HOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        eventually(lambda: was_asked(run, name), what="the API server asks")
    finally:
        api.delete(f"{HOOKS}/{name}")
    run.wait_shown("sum(volsched_admission_reviews_total) > 0")


def was_asked(run: Run, name: str) -> bool:
    """Make a queue, as a new one, and say whether that was reviewed."""
    api = run.installed.api
    api.create(QUEUES, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}})
    api.delete(f"{QUEUES}/{name}")
    return "volsched_admission_reviews_total{" in run.controllers.page("/metrics")[1]


STORY: Final[tuple[Callable[[Run], None], ...]] = (
    queues_have_limits,
    gangs_are_placed,
    controllers_make_groups,
    some_work_is_online,
    pods_are_evicted,
    queues_have_what_their_spec_says,
    devices_are_given_out,
    the_configuration_is_broken_and_repaired,
    the_api_server_lets_the_scheduler_down,
    an_object_cannot_be_read,
    pods_wait_for_many_reasons,
    quotas_by_card_are_used_up,
    a_job_is_scaled_beyond_its_quota_and_back,
    cards_are_shared,
    cpu_pods_use_up_their_quota,
    nodes_are_held_for_a_gang,
    admission_is_asked,
)


# --- what must be there then -----------------------------------------------------------------------------------------


def test_every_query_has_data_after_a_story_in_which_everything_happens(run: Run) -> None:
    for step in STORY:
        step(run)
        run.look_at_pages()
        assert [process.process.poll() for process in run.processes] == [None] * 3, step.__name__
    queries = [query for path in DASHBOARDS for query in of_dashboard(path)]
    for path in RULES:
        rules = of_rules(path)
        queries += [Query(rule.where, operand) for rule in rules for operand in operands(rule.expr)]

    missing = without_data(run, queries)
    if missing:  # the last scrape may be on its way
        eventually(lambda: not without_data(run, missing), what=describe(missing))
    assert [rule["name"] for rule in run.prometheus.rules() if rule["health"] != "ok"] == []
    assert {target["health"] for target in run.prometheus.targets()} == {"up"}
    the_pages_are_the_documented_ones(run)
    the_hash_is_the_one_that_a_user_computes(run)
    series_go_with_their_queue(run)


def without_data(run: Run, queries: list[Query]) -> list[Query]:
    missing = []
    for query in queries:
        try:
            found = run.has_shown(query.expr)
        except PrometheusError as error:
            raise AssertionError(f"{query.where}: {error}") from error
        if not found:
            missing.append(query)
    return missing


def describe(queries: list[Query]) -> str:
    return "these queries have no data:\n" + "\n".join(f"{query.where}\n    {query.expr}" for query in queries)


def the_pages_are_the_documented_ones(run: Run) -> None:
    """Every documented metric had a sample, and its labels are those that docs/metrics.md names."""
    rows = documented()
    idle = [series for name in PLUGINS.names() if name not in run.plugins for series, _ in series_of(name)]
    others = {f"{series.name}{'_total' if series.counts else ''}" for series in idle}

    assert set(rows) - set(run.seen) - others == set()
    assert run.seen == {name: {tuple(sorted(rows[name].labels))} for name in run.seen}


def the_hash_is_the_one_that_a_user_computes(run: Run) -> None:
    """By the very command of docs/metrics.md, with a real kubectl."""
    (command,) = [block.text for block in blocks(METRICS_PAGE) if "sha256sum" in block.text]
    there = run.installed.control_plane
    path = f"{there.binaries['kubectl'].parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-ec", command],
        env={**os.environ, "KUBECONFIG": str(there.kubeconfig), "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.shows(f'volsched_config_info{{hash="{done.stdout.strip()}"}}')


def series_go_with_their_queue(run: Run) -> None:
    """A queue that is deleted leaves no series behind, on no replica."""
    name = f"b-{run.town.suffix}"
    run.wait_shown(f'volcano_queue_weight{{queue_name="{name}"}}')

    for pod in [pod for pod in run.town.pods() if pod.startswith(("huge", "picky"))]:
        run.installed.api.delete(f"/api/v1/namespaces/{run.town.namespace}/pods/{pod}", grace_seconds=0)
    run.installed.api.delete(f"{QUEUES}/{name}")

    with contextlib.suppress(AssertionError):
        eventually(lambda: not lines_of(name, run))
    assert lines_of(name, run) == []


def lines_of(queue: str, run: Run) -> list[str]:
    """What the pages say of a queue."""
    lines = [line for process in run.processes for line in process.page("/metrics")[1].splitlines()]
    return [line for line in lines if f'"{queue}"' in line]
