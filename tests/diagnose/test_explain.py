"""Explanations and differences of small clusters, as the scheduler itself decides them."""

from __future__ import annotations

import msgspec
import pytest

from volsched.cli.views.explanation import page
from volsched.diagnose.advice import advise
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.diff import diff
from volsched.diagnose.explain import NotFoundError, explain, find
from volsched.diagnose.queries import queue_tree, waiting_jobs
from volsched.diagnose.records import Advice, Explanation, Help, Holder, Subject, WaitingPod
from volsched.diagnose.redaction import redacted
from volsched.simulation.documents import documents_in
from volsched.simulation.manifests import read_inventory
from volsched.text_page import plain

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: proportion
  - name: predicates
  - name: nodeorder
"""


def cluster(*, quota: int = 4, cards: int = 8) -> str:
    """One node, a queue with a quota, a gang of two that runs and one of two that waits for the quota."""
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: n1}}
status: {{allocatable: {{cpu: "64", memory: 512Gi, pods: "110", nvidia.com/gpu: "{cards}"}}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: team}}
spec: {{capability: {{nvidia.com/gpu: "{quota}"}}}}
---
{group("runs")}
---
{pod("runs", 0, "n1")}
---
{pod("runs", 1, "n1")}
---
{group("waits")}
---
{pod("waits", 0)}
---
{pod("waits", 1)}
"""


def group(name: str) -> str:
    """Return a PodGroup of two in the queue."""
    return f"""apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: {name}}}
spec: {{minMember: 2, queue: team}}
status: {{phase: Inqueue}}"""


def pod(of: str, number: int, node: str = "") -> str:
    """Return a pod of a gang that asks for two cards."""
    return f"""apiVersion: v1
kind: Pod
metadata: {{name: {of}-{number}, annotations: {{scheduling.k8s.io/group-name: {of}}}}}
spec:
  schedulerName: volsched
  nodeName: "{node}"
  containers:
  - {{name: main, resources: {{requests: {{cpu: "1", nvidia.com/gpu: "2"}}, limits: {{nvidia.com/gpu: "2"}}}}}}"""


def known(text: str) -> ClusterSnapshot:
    """Return a cluster of manifests."""
    return ClusterSnapshot(tuple(read_inventory(documents_in("test", text)).objects), CONFIGURATION)


def test_a_gang_that_waits_for_its_quota_is_explained() -> None:
    said = explain(known(cluster()).stage().run(), Subject("podgroup", "waits", "default"))
    assert (said.state, said.step, said.queue) == ("waits", "allocatable", "team")
    assert [(s.of, s.resource, s.requested, s.used, s.limit) for s in said.short] == [
        ("queue", "nvidia.com/gpu", "2", "4", "4")
    ]
    assert said.gang is not None
    assert (said.gang.minimum, said.gang.waiting) == (2, 2)
    assert said.place is not None
    assert (said.place.position, said.place.of) == (1, 1)
    assert [(h.name, h.resource, h.amount) for h in said.holders] == [("default/runs", "nvidia.com/gpu", "4")]


def test_what_runs_is_scheduled_and_what_is_not_there_is_not_found() -> None:
    run = known(cluster()).stage().run()
    assert explain(run, Subject("pod", "runs-0", "default")).placed == {"default/runs-0": "n1"}
    with pytest.raises(NotFoundError, match=r"did you mean default/waits-0\?"):
        explain(run, Subject("pod", "wait-0", "default"))


def test_a_job_is_explained_by_its_group_or_by_its_pods() -> None:
    owned = (
        "metadata: {ownerReferences: [{apiVersion: batch/v1, kind: Job, name: %s, uid: u, controller: true}], name: "
    )
    of_group = cluster().replace("metadata: {name: waits}", f"{owned % 'grouped'}waits}}")
    of_pod = of_group.replace("metadata: {name: runs-0,", f"{owned % 'plain'}runs-0,")
    run = known(of_pod).stage().run()
    assert explain(run, Subject("job", "grouped", "default")).state == "waits"
    assert explain(run, Subject("job", "plain", "default")).placed["default/runs-0"] == "n1"
    with pytest.raises(NotFoundError):
        explain(run, Subject("job", "waits", "default"))


def test_who_may_get_one_object_reads_no_name_of_others() -> None:
    elsewhere = cluster().replace("{name: runs", "{namespace: other, name: runs")
    stage = known(elsewhere).stage()
    run, subject = stage.run(), Subject("podgroup", "waits", "default")
    answer = msgspec.structs.replace(explain(run, subject, nodes=True), advice=Advice((Help("pods", "other/runs"),)))
    said = redacted(answer)
    assert [(holder.name, holder.pods) for holder in said.holders] == [("another job", 2)]
    assert b"runs" in msgspec.json.encode(answer)
    assert b"runs" not in msgspec.json.encode(said)
    assert redacted(explain(run, Subject("queue", "team"))).jobs == ()


def test_who_may_not_read_a_namespace_reads_another_job_where_a_message_names_one() -> None:
    words = "0/1 nodes are available: 1 node(s) were reserved for other/hog, 2 Insufficient deviceclass/gpu."
    answer = Explanation(
        Subject("pod", "a", "mine"),
        "waits",
        "pod mine/a waits",
        message=words,
        pods=(WaitingPod("mine/a", "predicate", "Reserved", words),),
        reported='PodGroup "other/hog" is promised nodes; mine/b is not',
        holders=(Holder("other/hog", "q", "cpu", "2", 1), Holder("other/cat", "q", "cpu", "1", 1)),
        advice=Advice(nothing=f"Nothing would: {words}"),
    )
    said, whole = redacted(answer), redacted(answer, lambda _: True)

    masked = words.replace("other/hog", "another job")
    assert (said.message, said.pods[0].message) == (masked, masked)
    assert said.reported == "another job is promised nodes; mine/b is not"
    assert said.advice is not None
    assert said.advice.nothing == f"Nothing would: {masked}"
    assert [(each.name, each.pods) for each in said.holders] == [("2 other jobs", 2)]
    assert b"hog" not in msgspec.json.encode(said)
    assert (whole.message, whole.holders) == (answer.message, answer.holders)


RESERVED = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "10", memory: 64Gi, pods: "110"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {capability: {cpu: "12"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: hog, namespace: other}
spec: {minMember: 1, queue: team, minResources: {cpu: "12"}}
status: {phase: Inqueue}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: waits}
spec: {minMember: 1, queue: team, minResources: {cpu: "4"}}
"""


@pytest.mark.parametrize("plugin", ["overcommit", "capacity", "proportion"])
def test_a_job_that_is_not_admitted_is_told_for_whom_room_is_kept_as_far_as_its_reader_may_know(plugin: str) -> None:
    text = CONFIGURATION.replace("proportion", plugin)
    found = ClusterSnapshot(tuple(read_inventory(documents_in("test", RESERVED)).objects), text).stage().run()
    said = explain(found, Subject("podgroup", "waits", "default"))

    assert (said.step, said.plugin) == ("enqueue", plugin)
    assert said.holders == (Holder("other/hog", "team", "cpu", "12", 0, "12", "PodGroup/hog"),)
    assert "other      PodGroup/hog  team   cpu       12      0     12" in plain(page(said), 100)
    assert redacted(said).holders == (Holder("another job", "team", "cpu", "", 0, ""),)


def test_who_holds_what_two_plugins_lack_is_told_once() -> None:
    text = CONFIGURATION.replace("- name: proportion", "- name: overcommit\n  - name: capacity")
    found = ClusterSnapshot(tuple(read_inventory(documents_in("test", RESERVED)).objects), text).stage().run()
    said = explain(found, Subject("podgroup", "waits", "default"))

    assert said.holders == (Holder("other/hog", "team", "cpu", "12", 0, "12", "PodGroup/hog"),)


def test_nodes_without_room_are_named_with_their_refusal() -> None:
    run = known(cluster(quota=100, cards=5)).stage().run()
    said = explain(run, Subject("pod", "waits-0", "default"), nodes=True)
    assert [(line.count, line.names, line.refusal) for line in said.nodes] == [
        (1, ("n1",), "Insufficient nvidia.com/gpu")
    ]


def test_a_queue_lists_who_waits() -> None:
    run = known(cluster()).stage().run()
    said = explain(run, Subject("queue", "team"))
    assert said.state == "waits"
    assert [(job.name, job.position) for job in waiting_jobs(run)] == [("waits", 1)]
    assert {queue.name: queue.waiting_pods for queue in queue_tree(run)}["team"] == 2


def test_a_larger_quota_starts_the_gang_and_nothing_else_differs() -> None:
    before, after = known(cluster()).stage().run(), known(cluster(quota=8)).stage().run()
    found = diff(before, after)
    assert found.summary == {"starts": 2}
    assert found.queues == {"team": {"starts": 2}}
    assert found.gangs == {"default/waits": {"starts": 2}}
    assert diff(before, before).pods == ()


def gated(*gates: str) -> str:
    """The cluster with a pod of its own that has gates."""
    named = ", ".join(f"{{name: {gate}}}" for gate in gates)
    spec = f"{{schedulerName: volsched, schedulingGates: [{named}], containers: [{{name: main}}]}}"
    return f"{cluster()}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: held, namespace: default}}\nspec: {spec}\n"


@pytest.mark.process
def test_of_a_gated_pod_nobody_holds_anything_and_lifting_its_gates_helps() -> None:
    stage = known(gated("a.example/one", "a.example/two")).stage()
    simulation = stage.run()
    held = Subject("pod", "held", "default")

    said = explain(simulation, held)
    helps = {each.sort: each for each in advise(stage, find(simulation, held), lambda: 60.0).helps}

    assert (said.step, said.holders) == ("gated", ())
    assert "a.example/one, a.example/two" in helps["gate"].sentence
    patch = '[{"op": "remove", "path": "/spec/schedulingGates/1"}, {"op": "remove", "path": "/spec/schedulingGates/0"}]'
    assert helps["gate"].command == f"kubectl patch pod held -n default --type json -p '{patch}'"


def test_a_pod_that_is_being_deleted_is_said_to_be() -> None:
    going = pod("runs", 0, "n1").replace("{name: runs-0,", "{name: runs-0, deletionTimestamp: '2026-01-01T00:00:00Z',")
    text = cluster().replace(pod("runs", 0, "n1"), going)

    answer = explain(known(text).stage().run(), Subject("pod", "runs-0", "default"))

    assert (answer.state, answer.sentence) == ("finished", "pod default/runs-0 is being deleted.")


# --- Jobs without pods ------------------------------------------------------------------------------------------------

JOBS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: done}
spec: {schedulerName: volcano, tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]}
status: {state: {phase: Completed}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: theirs}
spec: {schedulerName: stork, tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c}]}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: paused}
spec: {suspend: true, template: {spec: {schedulerName: volsched, containers: [{name: c}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: plain}
spec: {suspend: true, template: {spec: {containers: [{name: c}]}}}
"""


@pytest.mark.parametrize("name", ["done", "paused"])
def test_a_job_that_has_no_pods_to_place_does_not_wait(name: str) -> None:
    answer = explain(known(JOBS).stage().run(), Subject("job", name, "default"))

    assert (answer.state, answer.sentence) == (
        "idle",
        f"job default/{name} does not wait: it has no pods to place.",
    )


@pytest.mark.parametrize(("name", "scheduler"), [("theirs", "stork"), ("plain", "default-scheduler")])
def test_of_a_job_of_another_scheduler_it_is_said_whose_it_is(name: str, scheduler: str) -> None:
    with pytest.raises(NotFoundError, match=f"job default/{name} is placed by the scheduler '{scheduler}'"):
        explain(known(JOBS).stage().run(), Subject("job", name, "default"))


def test_what_is_suggested_for_a_job_is_a_job() -> None:
    owned = group("g").replace("{name: g}", f"{{name: train-uid, ownerReferences: [{OWNER}]}}")
    for text, name, meant in ((JOBS, "dnoe", "done"), (owned, "trian", "train")):
        with pytest.raises(NotFoundError, match=f"there is no job default/{name}; did you mean default/{meant}[?]"):
            explain(known(text).stage().run(), Subject("job", name, "default"))


OWNER = "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: train, uid: uid, controller: true}"


def a_tight_gang(small: int) -> str:
    """Two nodes with four cards each, and a gang: one pod for the first node alone, others for any."""
    nodes = [
        f"""
apiVersion: v1
kind: Node
metadata: {{name: n{number}, labels: {{pool: p{number}}}}}
status: {{allocatable: {{cpu: "64", memory: 512Gi, pods: "110", nvidia.com/gpu: "4"}}}}
"""
        for number in (1, 2)
    ]
    requests = "{requests: {nvidia.com/gpu: 2}, limits: {nvidia.com/gpu: 2}}"
    pods = [
        f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: ns, annotations: {{scheduling.k8s.io/group-name: g}}}}
spec: {{schedulerName: volsched, {selector}containers: [{{name: c, image: i, resources: {requests}}}]}}
"""
        for name, selector in [*((f"any-{n}", "") for n in range(small)), ("pinned", "nodeSelector: {pool: p1}, ")]
    ]
    head = f"""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: default}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: g, namespace: ns}}
spec: {{minMember: {small + 1}, queue: default}}
"""
    return "---".join([head, *nodes, *pods])


def test_what_a_gang_lacks_as_a_whole_is_explained() -> None:
    run = known(a_tight_gang(4)).stage().run()
    said = explain(run, Subject("podgroup", "g", "ns"))

    assert said.state == "waits"
    assert said.gang is not None
    assert said.gang.shortage.startswith("at most 4 of 5 could start; pods")
    assert "for want of nvidia.com/gpu" in said.gang.shortage
    assert "As a whole: at most 4 of 5 could start" in plain(page(said), 200)
    assert redacted(said).gang == said.gang


def test_a_gang_that_fits_as_a_whole_is_scheduled() -> None:
    said = explain(known(a_tight_gang(3)).stage().run(), Subject("podgroup", "g", "ns"))

    assert (said.state, said.gang and said.gang.shortage) == ("scheduled", "")
