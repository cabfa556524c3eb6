"""A replay: when jobs start and end, what it costs, and that it comes out the same again."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from volsched import registry
from volsched.cli import volsched
from volsched.replay.objects import annotated_jobs, past_jobs
from volsched.replay.records import JobRecord
from volsched.replay.runner import Replay, ReplaySettings
from volsched.replay.summary import CARDS, summary_of
from volsched.replay.trace import parse_trace
from volsched.simulation.documents import InputError, documents_in
from volsched.simulation.manifests import Inventory, read_inventory

HEADER = f"name,queue,submit_s,duration_s,declared_s,pods,priority,{CARDS}\n"
FIFO = """
actions: "allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}]
"""
DECAY = FIFO.replace("{name: gang}", "{name: gang}, {name: drf, arguments: {usage.halfLife: 1h}}")
PREEMPTING = FIFO.replace("allocate, backfill", "allocate, backfill, preempt").replace(
    "{name: gang}", "{name: gang, enablePreemptable: false}, {name: conformance}"
)


def nodes(count: int, cards: int = 8) -> str:
    allocatable = f'{{cpu: "64", memory: 64Gi, pods: "110", {CARDS}: "{cards}"}}'
    return "".join(
        f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{number}}}\nstatus: {{allocatable: {allocatable}}}\n"
        for number in range(count)
    )


def queues(*names: str) -> str:
    head = "---\napiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\n"
    return "".join(f"{head}metadata: {{name: {name}}}\nspec: {{weight: 1}}\n" for name in names)


def stock(text: str) -> Inventory:
    return read_inventory(documents_in("test", text))


def play(cluster: str, lines: str, configuration: str = FIFO) -> dict[str, JobRecord]:
    inventory = stock(cluster)
    jobs, classes = parse_trace(HEADER + lines, "jobs.csv", "volsched", inventory)
    inventory.objects.extend(classes)
    profile, _ = registry.load_profile(configuration)
    records = Replay(inventory, profile, jobs, ReplaySettings(("volsched",))).run()
    return {record.job.name: record for record in records}


def times(records: dict[str, JobRecord]) -> dict[str, tuple[float | None, float | None]]:
    return {name: (record.start, record.end) for name, record in records.items()}


def test_a_job_starts_when_another_ends() -> None:
    found = play(nodes(1), "a,,0,100,,1,,8\nb,,10,5.5,,1,,1\n")
    assert times(found) == {"a": (0, 100), "b": (100, 105.5)}
    assert list(found["b"].nodes) == ["n0"]


def test_a_gang_waits_for_all_of_its_nodes_while_small_jobs_go_on() -> None:
    found = play(nodes(2), "small,,0,100,,1,,1\ngang,,1,10,,2,,8\nlater,,2,200,,1,,1\n")
    assert times(found) == {"small": (0, 100), "gang": (202, 212), "later": (2, 202)}


def test_what_never_fits_has_no_start() -> None:
    found = play(nodes(1), "a,,0,1,,1,,9\n")
    assert times(found) == {"a": (None, None)}


def test_an_evicted_gang_starts_anew_and_what_it_did_is_lost() -> None:
    found = play(nodes(1), "low,,0,100,,1,1,8\nhigh,,10,30,,1,9,8\n", PREEMPTING)
    assert found["low"].evicted == 1
    assert times(found) == {"low": (40, 140), "high": (10, 40)}
    assert [(held.start, held.end) for held in found["low"].held] == [(0, 10), (40, 140)]


def test_the_clock_of_queues_is_virtual() -> None:
    """Over time the queue that held nothing so far goes first, although neither holds anything now."""
    cluster = nodes(1) + queues("a", "b")
    lines = "a1,a,0,100,,1,,8\na2,a,1,10,,1,,8\nb1,b,2,10,,1,,8\n"
    assert times(play(cluster, lines))["a2"] == (100, 110)
    assert times(play(cluster, lines, DECAY))["b1"] == (100, 110)


jobs_of_one = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=12
)


@pytest.mark.slow(reason="hundreds of random inputs")
@settings(max_examples=40, deadline=None)
@given(jobs_of_one)
def test_nothing_is_ever_overfull_and_runs_as_long_as_it_should(rows: list[tuple[int, int, int, int]]) -> None:
    lines = "".join(
        f"j{number},,{submit},{length},,{pods},,{cards}\n" for number, (submit, length, pods, cards) in enumerate(rows)
    )
    found = play(nodes(3, 4), lines)
    held = [each for record in found.values() for each in record.held]
    for at in sorted({each.start for each in held}):
        assert sum(each.request[CARDS] for each in held if each.start <= at < each.end) <= 12_000
    for record in found.values():
        assert record.start is not None
        assert record.end == record.start + record.job.duration
        assert record.start >= record.job.submit
    assert times(play(nodes(3, 4), lines)) == times(found)


def test_the_summary_counts_waits_use_and_fairness() -> None:
    cluster = nodes(1) + queues("a", "b")
    inventory = stock(cluster)
    lines = "a1,a,0,3600,,1,,8\nb1,b,0,3600,,1,,8\nlast,a,7200,1,,1,,1\n"
    jobs, _ = parse_trace(HEADER + lines, "jobs.csv", "volsched", inventory)
    profile, _ = registry.load_profile(FIFO)
    replay = Replay(inventory, profile, jobs, ReplaySettings(("volsched",)))
    found = summary_of(replay.run(), replay.cluster)
    assert found["sizes"]["5-8"]["wait"] == {"median": 1800.0, "p95": 3420.0, "p99": 3564.0, "max": 3600.0}
    assert found["sizes"]["5-8"]["bounded_slowdown"] == 1.5
    assert found["use"][CARDS]["mean"] == 1.0
    assert found["use"][CARDS]["idle_while_waiting"] == 0.0
    assert found["jain"] == {"hourly": 0.5, "whole": 0.8}  # a had 8 of 4 card-hours, b 8 of 12


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,submit_s\n", "duration_s: the column is missing"),
        ("name,submit_s,duration_s,quue\n", "quue: is no column and no resource; did you mean queue?"),
        ("name,submit_s,duration_s\na,x,1\n", "line 2: submit_s: 'x' is no number of seconds"),
        ("name,submit_s,duration_s\na,0,1\na,0,1\n", "line 3: name: a is there already, in line 2"),
        ("name,submit_s,duration_s,queue\na,0,1,none\n", "line 2: queue: there is no Queue none"),
        ("name,submit_s,duration_s,pods,min_pods\na,0,1,2,3\n", "line 2: min_pods: 3 must be from 1 to 2"),
        ("name,submit_s,duration_s,cpu\na,0,1,much\n", "line 2: cpu: "),
        ("name,submit_s,duration_s\na,0\n", "line 2: has 2 fields, the header has 3"),
        ("name,submit_s,duration_s,cpu,priority\na,0,1,1,high\n", "line 2: priority: 'high' is no whole number"),
        ("name,submit_s,duration_s\n" + "a" * 200_000 + ",0,1\n", "line 2: is no CSV: field larger than field limit"),
    ],
)
def test_a_fault_of_a_trace_is_said_with_its_line_and_column(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_trace(text, "jobs.csv", "volsched", stock(nodes(1)))
    assert said in str(caught.value)


WORKLOADS = """
---
apiVersion: batch/v1
kind: Job
metadata: {name: one, namespace: t, annotations: {replay.volsched.io/duration: 1h, replay.volsched.io/submit: 5m}}
spec: {parallelism: 2, template: {spec: {schedulerName: volsched, containers: [{name: c}]}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: two, namespace: t, annotations: {replay.volsched.io/duration: 30m, volsched.io/expected-duration: 1h}}
spec:
  minAvailable: 2
  tasks: [{name: w, replicas: 3, minAvailable: 2, template: {spec: {containers: [{name: c}]}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: stays, namespace: t}
spec: {schedulerName: volsched, nodeName: n0, containers: [{name: c}]}
"""


def test_workloads_say_how_long_they_run() -> None:
    inventory = stock(nodes(1) + WORKLOADS)
    one, two = annotated_jobs(inventory, "volsched")
    assert (one.submit, one.duration, one.pods, one.min_pods, one.declared) == (300, 3600, 2, 1, None)
    assert (two.submit, two.duration, two.pods, two.min_pods, two.declared) == (0, 1800, 3, 2, 3600)
    assert [found.metadata.name for found in inventory.objects] == ["n0", "stays"]


def test_a_workload_that_says_no_duration_is_refused_with_its_field() -> None:
    inventory = stock(nodes(1) + WORKLOADS.replace("duration: 1h", "duration: soon"))
    with pytest.raises(InputError, match="'soon' is no duration"):
        annotated_jobs(inventory, "volsched")


PAST = """
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: t}
spec: {minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: g0, namespace: t, creationTimestamp: "2026-01-01T00:00:00Z", annotations: GANG}
spec: {schedulerName: volsched, nodeName: n0, containers: [{name: c}]}
status:
  phase: Succeeded
  startTime: "2026-01-01T00:01:00Z"
  containerStatuses: [{name: c, state: {terminated: {finishedAt: "2026-01-01T01:00:00Z"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: g1, namespace: t, creationTimestamp: "2026-01-01T00:00:00Z", annotations: GANG}
spec: {schedulerName: volsched, nodeName: n0, containers: [{name: c}]}
status:
  phase: Succeeded
  startTime: "2026-01-01T00:02:00Z"
  containerStatuses: [{name: c, state: {terminated: {finishedAt: "2026-01-01T01:02:00Z"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: runs, namespace: t, creationTimestamp: "2026-01-01T01:00:00Z"}
spec: {schedulerName: volsched, nodeName: n0, containers: [{name: c}]}
status: {phase: Running, startTime: "2026-01-01T01:00:02Z"}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: gone, namespace: t, creationTimestamp: "2026-01-01T00:30:00Z"}
spec: {tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c}]}}}]}
status: {state: {phase: Completed}, runningDuration: 10m}
"""


def test_the_past_of_a_snapshot_is_read_from_pods_and_from_jobs_without_any() -> None:
    inventory = stock(nodes(1) + PAST.replace("GANG", "{scheduling.k8s.io/group-name: gang}"))
    found = {
        job.name: (job.submit, job.duration, job.pods, job.min_pods) for job in past_jobs(inventory, ("volsched",)).jobs
    }
    assert found == {"gang": (0, 3600, 2, 2), "runs": (3600, 118, 1, 1), "gone": (1800, 600, 1, 1)}
    assert [each.metadata.name for each in inventory.objects] == ["n0"]


def test_the_command_says_who_gains_draws_a_page_and_gives_json(tmp_path: object) -> None:
    folder = str(tmp_path)
    for name, text in {
        "cluster.yaml": nodes(1) + queues("a", "b"),
        "jobs.csv": HEADER + "a1,a,0,100,,1,,8\na2,a,1,1000,,1,,8\nb1,b,2,2000,,1,,8\n",
        "fifo.conf": FIFO,
        "decay.conf": DECAY,
    }.items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    given = [
        "replay",
        "-f",
        f"{folder}/cluster.yaml",
        "--jobs",
        f"{folder}/jobs.csv",
        "--config",
        f"{folder}/fifo.conf",
    ]
    result = json.loads(CliRunner().invoke(volsched, [*given, "-o", "json"]).stdout)
    assert set(result["jobs"][0]) == {
        "name", "namespace", "queue", "submit", "start", "end", "nodes", "promised", "evicted",
    }  # fmt: skip
    against = CliRunner().invoke(
        volsched, [*given, "--compare", f"{folder}/decay.conf", "--plot", f"{folder}/page.html"]
    )
    rows = {line.split()[0]: line.split()[-1] for line in against.stdout.splitlines() if line[:1] in ("a", "b")}
    assert rows == {"a": "loses", "b": "gains"}
    with open(f"{folder}/page.html", encoding="utf-8") as file:
        assert file.read().count("<svg") == 2


def test_without_jobs_it_says_where_they_may_come_from(tmp_path: object) -> None:
    with open(f"{tmp_path}/cluster.yaml", "w", encoding="utf-8") as file:
        file.write(nodes(1))
    found = CliRunner().invoke(volsched, ["replay", "-f", f"{tmp_path}/cluster.yaml"])
    assert found.exit_code == 2
    assert "--jobs" in found.stderr
    assert "--past" in found.stderr
