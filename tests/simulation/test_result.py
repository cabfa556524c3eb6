"""The result of a simulation: the contract's shape, who waits and why, and the same bytes every time."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.framework.dra.worlds import device, device_class, part
from tests.simulation.clusters import (
    LEAN,
    Manifest,
    group,
    meta,
    node,
    pending,
    placed,
    pod,
    queue,
    result,
    simulation,
    volcano_job,
    workload,
)
from volsched.simulation import table
from volsched.simulation.result import result_of
from volsched.text_page import plain

FIELDS = {
    "apiVersion",
    "kind",
    "cycles",
    "settled",
    "binds",
    "pipelined",
    "evictions",
    "pods",
    "podGroups",
    "queues",
    "resourceClaims",
    "pending",
    "events",
}


def small() -> list[Manifest]:
    return [
        node("n1", cpu=4),
        queue("team", capability={"cpu": "2500m", "memory": "1024Mi"}),
        group("pair", 2, "team"),
        pod("pair-0", in_group="pair"),
        pod("pair-1", in_group="pair"),
        pod("big", cpu=9),
    ]


def test_the_result_has_the_fields_of_the_contract() -> None:
    found = result(*small())
    assert set(found) == FIELDS
    assert (found["apiVersion"], found["kind"], found["settled"]) == ("volsched.io/v1alpha1", "SimulationResult", True)
    assert found["binds"][0] == {"cycle": 1, "pod": "default/pair-0", "node": "n1", "annotations": {}}
    assert found["pods"]["default/pair-0"] == {
        "phase": "Running",
        "node": "n1",
        "podGroup": "default/pair",
        "queue": "team",
    }
    assert found["podGroups"]["default/pair"]["phase"] == "Running"
    assert found["pods"]["default/big"]["node"] is None


def test_scores_are_there_when_asked_for_and_only_for_pods_that_were_placed() -> None:
    scored = f"{LEAN}- plugins: [{{name: nodeorder}}]\n"
    found = result(*small(), config=scored, scores=True)
    assert set(found["scores"]) == {"default/pair-0", "default/pair-1"}
    one = found["scores"]["default/pair-0"]["n1"]
    assert one["total"] == sum(one["plugins"].values()) > 0
    assert "scores" not in result(*small(), config=scored)


EVICTING = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}]
"""


def test_a_pod_that_matches_no_node_lets_the_run_settle_whatever_the_actions() -> None:
    found = result(node("n1"), pod("astray", nodeSelector={"zone": "nowhere"}), config=EVICTING)
    assert (found["settled"], found["cycles"]) == (True, 2)
    assert "preemption: 0/1 nodes are available" in pending(found)["astray"]["message"]
    assert [event["reason"] for event in found["events"] if event["object"] == "Pod/default/astray"] == [
        "FailedScheduling"
    ]


def test_a_run_stops_when_a_cycle_changes_nothing_or_after_the_last_one() -> None:
    whole = result(*small())
    assert whole["settled"] is True
    assert whole["cycles"] < 10
    cut = result(*small(), cycles=1)
    assert (cut["settled"], cut["cycles"]) == (False, 1)
    assert cut["binds"] == whole["binds"]
    assert cut["pods"]["default/pair-0"]["phase"] == "Running"
    nothing = result(node("n1"))
    assert (nothing["settled"], nothing["cycles"]) == (True, 1)


def test_two_runs_and_shuffled_input_with_ages_agree_to_the_byte() -> None:
    aged: list[Manifest] = [node(f"n{number}", cpu=3) for number in range(3)]
    for number in range(8):
        stamp = {"creationTimestamp": f"2026-01-01T00:00:{number:02}Z"}
        aged.append(pod(f"p{number}", cpu=1 + number % 2, metadata=dict(stamp)))
        aged.append(workload("ReplicaSet", f"rs{number}", 2, metadata=dict(stamp)))
    first = json.dumps(result(*aged), sort_keys=True)
    shuffled = aged[:]
    for seed in range(3):
        random.Random(seed).shuffle(shuffled)  # noqa: S311 - a shuffle for a test
        assert json.dumps(result(*shuffled), sort_keys=True) == first


# --- queues ---------------------------------------------------------------------------------------------------------


def test_queues_show_what_runs_in_them_in_canonical_quantities_and_a_parent_its_children() -> None:
    gpu = {"nvidia.com/gpu": 8}
    card = {"requests": {"cpu": "1500m", "memory": "2048Mi"}, "limits": {"nvidia.com/gpu": 2}}
    trained = pod("t", in_group="g")
    trained["spec"]["containers"][0]["resources"] = card
    found = result(node("n1", extended=gpu), queue("child", parent="top"), queue("top"), group("g", q="child"), trained)
    held = {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "2"}
    assert found["queues"]["child"]["allocated"] == held
    assert found["queues"]["top"]["allocated"] == held
    assert found["queues"]["root"]["allocated"] == held
    assert found["queues"]["default"] == {"state": "Open", "allocated": {}, "inqueue": {}, "capability": {}}


def test_a_queue_that_its_administrator_closed_is_closed() -> None:
    found = result(queue("team", state="Closed"), queue("open", state="Open"))

    assert {name: each["state"] for name, each in found["queues"].items() if name in ("team", "open")} == {
        "team": "Closed",
        "open": "Open",
    }


def test_queues_show_their_limits_their_state_and_what_was_admitted_and_does_not_run() -> None:
    closed = queue("team", capability={"cpu": "2000m", "memory": "1024Mi"})
    closed["status"] = {"state": "Closed"}
    admitted = group("later", 2, "team", "Inqueue", minResources={"cpu": "3"})
    running = pod("now-0", in_group="now", on="n1")
    found = result(node("n1"), closed, admitted, group("now", q="team"), running)["queues"]["team"]
    assert found == {
        "state": "Closed",
        "allocated": {"cpu": "1"},
        "inqueue": {"cpu": "3"},
        "capability": {"cpu": "2", "memory": "1Gi"},
    }


def test_queues_that_are_each_others_parents_are_no_trap() -> None:
    assert set(result(node("n1"), queue("a", parent="b"), queue("b", parent="a"))["queues"]) >= {"a", "b"}


# --- who waits ------------------------------------------------------------------------------------------------------


WAITING: list[tuple[str, list[Manifest], str, str]] = [
    ("p", [pod("p", cpu=9)], "predicate", "0/1 nodes are available: 1 Insufficient cpu."),
    ("p", [pod("p", nodeSelector={"a": "b"})], "predicate", "didn't match Pod's node affinity/selector"),
    ("p", [pod("p", cpu=None, nodeSelector={"a": "b"})], "backfill", "didn't match Pod's node affinity/selector"),
    ("p", [pod("p", schedulingGates=[{"name": "wait"}])], "gated", "wait"),
    ("p", [pod("p", in_group="nobody")], "no-podgroup", "nobody"),
    ("p", [group("g", q="ghost"), pod("p", in_group="g")], "no-queue", "ghost"),
    ("g", [group("g", 3)], "gang", "0 of the 3 pods"),
    ("p", [group("g", 2), pod("p", in_group="g")], "gang", "1 of the 2 pods"),
    (
        "a",
        [group("g", 2), pod("a", in_group="g", cpu=5), pod("b", in_group="g", cpu=5)],
        "gang",
        "have to start together",
    ),
    (
        "p",
        [pod("p", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "Near"}]}]}}})],
        "invalid",
        "Near",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "manifests", "step", "said"), WAITING)
def test_whoever_waits_is_listed_once_with_the_step_a_reason_and_a_message(
    name: str, manifests: list[Manifest], step: str, said: str
) -> None:
    found = result(node("n1", cpu=8), *manifests)
    entry = pending(found)[name]
    assert entry["step"] == step
    assert said in entry["message"]
    assert entry["reason"]
    assert len([e for e in found["pending"] if (e["pod"] or e["podGroup"]) == f"default/{name}"]) == 1


@pytest.mark.parametrize(
    ("actions", "manifest", "step"),
    [
        ("enqueue", pod("p"), "predicate"),
        ("enqueue, allocate", pod("p", cpu=None), "backfill"),
        ("backfill", pod("p"), "predicate"),
    ],
)
def test_a_pod_that_no_action_looks_at_is_said_to_be_so(actions: str, manifest: Manifest, step: str) -> None:
    found = result(node("n1"), manifest, config=f'actions: "{actions}"\n')
    entry = pending(found)["p"]
    assert (entry["step"], entry["reason"]) == (step, "NotConsidered")
    assert actions in entry["message"]


def test_a_refusal_at_admission_is_said_of_the_group_and_of_its_pods() -> None:
    admits = LEAN.replace("{name: gang}", "{name: gang}, {name: overcommit}")
    found = result(
        node("n1", cpu=2),
        group("g", minResources={"cpu": "9"}),
        pod("g-0", in_group="g"),
        volcano_job("huge", {"w": 9}),
        config=admits,
    )
    waiting = pending(found)
    assert {entry["step"] for entry in waiting.values()} == {"enqueue"}
    (job,) = [entry for entry in waiting.values() if entry["pod"] is None]
    assert job["podGroup"].startswith("default/huge-")
    assert found["podGroups"]["default/g"]["phase"] == "Pending"


def test_pods_of_other_schedulers_only_take_room() -> None:
    found = result(
        node("n1", cpu=2),
        pod("other", scheduler="default-scheduler"),
        pod("held", scheduler="x", on="n1"),
        pod("p", cpu=2),
    )
    assert set(pending(found)) == {"p"}
    assert found["pods"]["default/other"]["podGroup"] is None
    assert placed(result(node("n1"), pod("other", scheduler="mine"), scheduler_names=("mine",))) == {"other": "n1"}


def test_finished_groups_and_pods_do_not_wait() -> None:
    done = pod("done", in_group="g", on="n1", status={"phase": "Succeeded"})
    assert result(node("n1"), group("g", phase="Completed"), done)["pending"] == []


def test_the_message_of_a_waiting_pod_is_that_of_its_event_told_once() -> None:
    found = result(*small())
    entry = pending(found)["big"]
    told = [e for e in found["events"] if e["object"] == "Pod/default/big"]
    assert [(e["type"], e["reason"], e["message"]) for e in told] == [("Warning", entry["reason"], entry["message"])]


def test_claims_are_shown_as_their_status_says() -> None:
    device = {"driver": "gpu.example.com", "pool": "pool", "device": "d1"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta("c1"),
        "status": {
            "allocation": {"devices": {"results": [device]}},
            "reservedFor": [{"resource": "pods", "name": "a-0"}],
        },
    }
    assert result(node("n1"), claim)["resourceClaims"] == {
        "default/c1": {"devices": ["gpu.example.com/pool/d1"], "reservedFor": ["default/a-0"]}
    }


def test_the_claim_that_is_made_for_extended_resources_is_shown() -> None:
    found = device_class("gpu", extendedResourceName="example.com/gpu")
    requests = {"resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}
    wanting = pod("a", in_group="g", containers=[{"name": "main", **requests}])
    shown = result(node("n1"), found, part("s1", [device("d1")]), group("g"), wanting)

    assert placed(shown) == {"a": "n1"}
    [(name, claim)] = shown["resourceClaims"].items()
    assert name.startswith("default/a-extended-resources-")
    assert claim == {"devices": ["gpu.example.com/p1/d1"], "reservedFor": ["default/a"]}


# --- for people -----------------------------------------------------------------------------------------------------


def page(*manifests: Manifest, width: int = 100, **settings: Any) -> list[str]:
    run = simulation(*manifests, **settings)
    return plain(table.render(run, result_of(run)), width).splitlines()


def test_the_page_says_what_was_placed_what_is_left_and_why_the_rest_waits() -> None:
    lines = page(*small())
    assert lines[0].startswith("2 pods placed, 1 waiting after ")
    assert lines[lines.index("PLACED") + 1].split() == ["POD", "NODE", "QUEUE", "CYCLE", "PODGROUP"]
    assert lines[lines.index("PLACED") + 2].split() == ["pair-0", "n1", "team", "1", "pair"]
    why = lines[lines.index("WAITING") + 2]
    assert why.split(maxsplit=3) == ["big", "default", "predicate", "0/1 nodes are available: 1 Insufficient cpu."]
    assert lines[lines.index("NODES") + 2].split() == ["n1", "2/110", "2/4", "0/32Gi", "-"]
    assert "team     Open   cpu 2 of 2500m" in lines


def test_sections_without_rows_are_left_out_and_long_reasons_are_wrapped() -> None:
    lines = page(node("n1"), pod("p", nodeSelector={"a": "b"}), width=60)
    assert "PLACED" not in lines
    assert "EVICTED" not in lines
    assert max(map(len, lines)) <= 60
    first, *rest = lines[lines.index("WAITING") + 2 : lines.index("NODES") - 1]
    assert len(rest) >= 1
    assert all(line.startswith(" " * first.index("0/1")) for line in rest)


def test_the_headline_counts_jobs_that_have_no_pods_because_they_were_not_admitted() -> None:
    """Seed 001, 2.4.2: the pods of a Volcano Job are not made while its PodGroup is refused."""
    quota = queue("team", capability={"cpu": "3"})
    job = volcano_job("train", {"worker": 4}, minAvailable=4, queue="team")
    enforcing = f"{LEAN}- plugins: [{{name: proportion}}]\n"

    assert page(node("n1"), quota, job, config=enforcing)[0] == "0 pods placed, 1 PodGroup not admitted after 2 cycles."
    assert page(node("n1"), quota, job, pod("p"), pod("big", cpu=99), config=enforcing)[0] == (
        "1 pod placed, 1 waiting, 1 PodGroup not admitted after 3 cycles."
    )
    assert page(node("n1"), group("empty", 2))[0] == "0 pods placed, 1 PodGroup without pods after 2 cycles."


def test_a_run_that_did_not_settle_says_what_to_do() -> None:
    assert page(*small(), cycles=1)[0].endswith("after 1 cycle; not settled yet, allow more with --cycles.")


def test_other_resources_are_shown_where_a_node_has_them() -> None:
    lines = page(node("n1", extended={"nvidia.com/gpu": 8}), node("n2"))
    assert [line.split()[-1] for line in lines if line.startswith("n")] == ["0/8", "-"]


def test_a_pod_that_nodes_refuse_names_the_plugin_whose_refusal_it_is() -> None:
    quota = "- plugins: [{name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: 1}}]\n"
    gpu_node = node("gpu-1", cpu=8)
    gpu_node["status"]["allocatable"]["nvidia.com/gpu"] = "1"

    found = result(gpu_node, pod("a", cpu=2), pod("b", cpu=9), config=f"{LEAN}{quota}")

    waiting = {entry["pod"]: (entry["step"], entry["plugin"]) for entry in found["pending"]}
    assert waiting == {"default/a": ("predicate", "crossquota"), "default/b": ("predicate", "crossquota")}
    assert pending(result(node("n1", cpu=1), pod("b", cpu=9)))["b"]["plugin"] == "predicates"


def test_a_completed_pod_group_whose_pods_are_gone_waits_for_nothing_and_keeps_nothing() -> None:
    found = result(
        node("n1"),
        queue("q", capability={"cpu": "2"}),
        group("over", q="q", phase="Completed", minResources={"cpu": "2"}),
        group("next", q="q", minResources={"cpu": "2"}),
        pod("p", "next", cpu="2"),
        config="{actions: 'enqueue, allocate', tiers: [{plugins: [{name: predicates}, {name: proportion}]}]}",
    )
    assert found["podGroups"]["default/over"]["phase"] == "Completed"
    assert (found["pending"], [bind["pod"] for bind in found["binds"]]) == ([], ["default/p"])


CARDS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: capacity-card
    arguments: {cardUnlimitedCpuMemory: true}
"""


def test_a_volcano_job_that_is_not_admitted_says_so_itself_in_its_podgroups_words() -> None:
    gpus = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "143771"}
    team = queue("cr-queue1")
    team["metadata"]["annotations"] = {"volcano.sh/card.quota": '{"NVIDIA-H200": 3}'}
    job = volcano_job("train", {"worker": 5}, queue="cr-queue1")
    job["metadata"]["annotations"] = {"volcano.sh/card.request": '{"NVIDIA-H200": 5}'}
    job["metadata"]["uid"] = "u"
    [task] = job["spec"]["tasks"]
    task["template"]["metadata"] = {"annotations": {"volcano.sh/card.name": "NVIDIA-H200"}}
    task["template"]["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": 1}}

    found = result(node("n1", labels=gpus, extended={"nvidia.com/gpu": 8}), team, job, config=CARDS)

    said = (
        "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: requested <5000>, total would be <5000>, "
        "but capability is <3000> (NVIDIA-H200: requested 5, held 0, quota 3)"
    )
    on_job = {"reason": "PodGroupPending", "message": f'PodGroup "default/train-u" waits: {said}'}
    on_group = {"reason": "InsufficientScalarQuota", "message": said}
    assert found["events"] == [
        {"cycle": 1, "object": "Job/default/train", "type": "Warning", **on_job},
        {"cycle": 1, "object": "PodGroup/default/train-u", "type": "Warning", **on_group},
    ]
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotAdmitted", "message": said}
    assert found["podGroups"]["default/train-u"]["conditions"] == [condition]
    assert found["settled"]
