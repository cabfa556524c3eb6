"""Volcano Jobs and Commands as somebody may write them who wishes nobody well: each becomes writes or words.

Objects are made of the fields that there are, each as it should be or of another type, size, depth or alphabet.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.controllers.cases import NOW, Cluster, a_group, a_job, a_member, a_queue, a_task
from volsched.controllers import commands
from volsched.controllers.job_controller import PODS_AT_ONCE, JobSurroundings, JobView, reconcile
from volsched.controllers.job_plugins import PLAYED
from volsched.controllers.lifecycle import JobPod, Phase
from volsched.controllers.objects import Command, RawJob
from volsched.controllers.pod_index import JobPodIndex
from volsched.controllers.writes import Create
from volsched.model import api
from volsched.model.errors import ObjectError
from volsched.operator.reading import job_view
from volsched.validation.jobs import MOST_VOLUMES, POLICY_ACTIONS, POLICY_EVENTS
from volsched.validation.objects import read_object

Json = dict[str, Any]
Strategy = st.SearchStrategy[Any]

MOST_WRITES = PODS_AT_ONCE + MOST_VOLUMES + 10
"""Of one look: a slice of pods, a claim for each volume, what plugins make, the PodGroup and the status."""

LONG, DEEP = "x" * 300, {}
for _ in range(200):
    DEEP = {"a": DEEP}

NUMBERS = st.sampled_from(
    [0, 1, 2, 3, -1, 63, 150_000, 150_001, 2**31 - 1, -(2**31), 2**63, 10**400, 1e308, -0.5, float(2**53)]
)
TEXTS = st.sampled_from(["", "a", "w", "A", "ä", "日本", "\u202e", "\x00", "a b", "-", "a.b", "0", "x" * 63, LONG])
TIMES = st.sampled_from(
    [
        *("", "1s", "9999999999h", "9" * 400 + "h", "-1s", "1e9s", "NaN", "inf", "0001-01-01T00:00:00Z", "2026-01-01"),
        *("9999-12-31T23:59:59.999999999-23:59", "0001-01-01T00:00:00+14:00", "2026-13-45T99:99:99Z"),
    ]
)
ANYTHING: Strategy = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | TIMES | st.text(max_size=8) | st.just(DEEP),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def record(**fields: Strategy) -> Strategy:
    return st.fixed_dictionaries({}, optional=fields)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every place inside of a tree: what it is in, and its key or number there."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [found for key, value in list(inside) for found in ((tree, key), *places(value))]


@st.composite
def spoilt(draw: st.DrawFn, right: Strategy) -> Any:
    """As it should be, or with something else at some places."""
    tree = json.loads(json.dumps(draw(right)))
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 1, 2, 4]))):
        found = places(tree)
        if found:
            where, key = draw(st.sampled_from(found))
            where[key] = json.loads(json.dumps(draw(ANYTHING)))  # a copy, which may be spoilt in its turn
    return tree


def several(item: Strategy, most: int = 3) -> Strategy:
    return st.lists(item, max_size=most)


TASKS = st.sampled_from(["w", "master", "worker", "ps"])
NAMES = TASKS | TEXTS
COUNTS = st.sampled_from([0, 1, 1, 2, 3, 700])
ARGUMENTS = st.sampled_from(
    [
        *("--worker=w", "--master=master", "--port=22", "--ps=ps", "--wait-master-enabled", "--inject-hosts-env=false"),
        *("--port", "--ssh-key-file-path=k", "--ssh-private-key=k", "---", "--", "=", "--=", "--x" * 500),
    ]
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "c"])},
    optional={
        "image": TEXTS,
        "env": several(record(name=NAMES, value=TEXTS), 1),
        "ports": several(record(name=NAMES, containerPort=st.sampled_from([22, 2222, 80])), 1),
        "volumeMounts": several(record(name=NAMES, mountPath=TEXTS), 1),
        "odd": TEXTS,
    },
)
CONTAINERS = st.lists(CONTAINER, min_size=1, max_size=2, unique_by=lambda container: container["name"])
TEMPLATE = st.fixed_dictionaries(
    {
        "metadata": record(labels=st.dictionaries(TEXTS, TEXTS, max_size=2), annotations=st.dictionaries(TEXTS, TEXTS)),
        "spec": st.fixed_dictionaries(
            {"containers": CONTAINERS},
            optional={
                "initContainers": st.just([{"name": "before"}]),
                "volumes": several(record(name=NAMES)),
                "hostname": NAMES,
                "subdomain": NAMES,
                "hostNetwork": st.booleans(),
                "dnsPolicy": TEXTS,
                "schedulerName": st.sampled_from(["", "volsched"]),
                "priorityClassName": NAMES,
                "tolerations": several(record(key=st.just("a"), operator=st.just("Exists")), 1),
            },
        ),
    }
)
POLICY = st.builds(
    lambda about, action, timeout: {"action": action, **about, **timeout},
    st.sampled_from(POLICY_EVENTS).map(lambda event: {"event": event})
    | st.sampled_from([1, 137]).map(lambda code: {"exitCode": code}),
    st.sampled_from(POLICY_ACTIONS),
    record(timeout=TIMES),
)
TASK = st.fixed_dictionaries(
    {"name": TASKS, "replicas": COUNTS, "template": TEMPLATE},
    optional={
        "maxRetry": COUNTS,
        "policies": several(POLICY, 1),
        "dependsOn": record(name=several(TASKS, 1), iteration=st.sampled_from(["any", "all", ""])),
        "partitionPolicy": record(partitionSize=COUNTS),
    },
)
SPEC = st.fixed_dictionaries(
    {"tasks": st.lists(TASK, min_size=1, max_size=3, unique_by=lambda task: task["name"])},
    optional={
        "schedulerName": st.sampled_from(["", "volsched"]),
        "minAvailable": st.sampled_from([0, 1]),
        "minSuccess": st.just(1),
        "maxRetry": COUNTS,
        "ttlSecondsAfterFinished": COUNTS,
        "queue": NAMES,
        "priorityClassName": NAMES,
        "policies": several(POLICY, 1),
        "volumes": several(record(mountPath=TEXTS, volumeClaimName=NAMES, volumeClaim=record(storageClassName=TEXTS))),
        "plugins": st.dictionaries(st.sampled_from([*PLAYED, "ray"]), several(ARGUMENTS, 1) | st.just([]), max_size=2),
        "networkTopology": record(mode=TEXTS, highestTierAllowed=COUNTS),
    },
)
STATUS = record(
    state=record(phase=st.sampled_from([*Phase]), lastTransitionTime=TIMES),
    version=st.sampled_from([0, 1]),
    retryCount=COUNTS,
    conditions=several(record(status=TEXTS)),
)
META = {"namespace": "ns", "uid": "uid-train", "resourceVersion": "7"}
JOBS = st.builds(
    lambda name, labels, parts: {"metadata": {"name": name, "labels": labels, **META}, **parts},
    st.sampled_from([*["train"] * 6, "t" * 63, "t" * 253, "a.b"]),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
    spoilt(st.fixed_dictionaries({"spec": SPEC, "status": STATUS})),
)
MEMBERS = st.lists(
    st.builds(
        lambda task, number, phase, **fields: a_member(task, number, str(phase), **fields),
        st.sampled_from(["w", "master", "worker", "gone"]),
        st.integers(0, 4),
        st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "", "Odd"]),
        terminating=st.booleans(),
        killed=st.booleans(),
        exit_code=st.sampled_from([0, 1, 137]),
        restarts=st.sampled_from([0, 9]),
    ),
    max_size=4,
    unique_by=lambda member: member.uid,
)


def seen(raw: Json) -> JobView:
    """A Job as the informer hands it over: decoded from its text, which the API server took."""
    found = api.decode_text(RawJob, json.dumps(raw).encode())
    return job_view(found.as_json(), ("volsched",), "default")


def check(view: JobView, members: list[JobPod], phase: str | None) -> None:
    group = a_group("train-uid-train", phase=phase) if phase is not None else None
    outcome = reconcile(view, JobSurroundings(JobPodIndex.of("train", members), group, {}, "default"), NOW)

    assert len(outcome.writes) <= MOST_WRITES
    for write in outcome.writes[:20]:
        if isinstance(write, Create):
            assert len(msgspec.json.encode(write.body)) < 3 << 20
            assert write.body["metadata"]["name"] == write.name
    is_refused = bool(view.problem or view.too_large or view.foreign)
    assert bool(outcome.writes) <= (not is_refused)
    if is_refused and view.job.metadata.deletion_timestamp is None:
        assert [tell.type for tell in outcome.events] == ["Warning"]
    for tell in outcome.events:
        assert tell.message
        assert len(tell.message) < 1_500


@pytest.mark.slow(reason="hundreds of random inputs")
@settings(max_examples=250)
@given(JOBS, MEMBERS, st.sampled_from([None, "", "Pending", "Inqueue", "Running", "Unknown"]))
def test_whatever_somebody_writes_as_a_job_becomes_writes_or_words(
    raw: Json, members: list[JobPod], phase: str | None
) -> None:
    check(seen(raw), members, phase)


@pytest.mark.slow(reason="hundreds of random inputs")
@settings(max_examples=150)
@given(JOBS)
def test_admission_refuses_the_shapes_that_the_controllers_refuse(raw: Json) -> None:
    said = ""
    try:
        read_object({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **raw})
    except ObjectError as error:
        said = f"{error.field}: "
    problem = job_view(raw, ("volsched",), "default").problem

    assert problem.startswith(said) if said else not problem.startswith("$")


@pytest.mark.parametrize("timeout", ["9999999999h", "9" * 400 + "h", "1ns"])
def test_a_policy_may_wait_for_ever(timeout: str) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob", "timeout": timeout}]
    view = a_job(a_task("w", 1), phase="Running", policies=policies)

    check(view, [a_member("w", 0, "Failed")], "Running")


@pytest.mark.parametrize("ttl", [0, 2**31 - 1, 10**400])
def test_and_a_job_may_stay_for_ever_after_its_end(ttl: int) -> None:
    check(a_job(a_task("w", 1), phase="Completed", ttlSecondsAfterFinished=ttl), [], "Completed")


@pytest.mark.parametrize("stamp", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-23:59", "x"])
def test_no_date_is_too_far_away(stamp: str) -> None:
    raw: Json = {"metadata": {"name": "train", **META}, "spec": {"tasks": [a_task("w")], "ttlSecondsAfterFinished": 1}}
    raw["status"] = {"state": {"phase": "Completed", "lastTransitionTime": stamp}}

    check(seen(raw), [], "Completed")


COMMANDS = spoilt(
    record(
        action=st.sampled_from(["AbortJob", "CloseQueue", "RestartJob", "odd"]) | TEXTS,
        target=record(
            apiVersion=st.sampled_from(
                ["", "batch/v1", "batch.volcano.sh/v1alpha1", "scheduling.volcano.sh/v1beta1", "/"]
            ),
            kind=st.sampled_from(["Job", "Queue", "Pod"]) | TEXTS,
            name=st.sampled_from(["train", "team"]) | TEXTS,
            uid=st.sampled_from(["", "uid-train", "uid-team", "other"]) | TEXTS,
        ),
    )
)


@settings(max_examples=150)
@given(COMMANDS, st.sampled_from(["ns", "elsewhere", "volsched-system"]))
def test_whatever_somebody_writes_as_a_command_is_carried_out_where_it_may_or_becomes_words(
    raw: Any, namespace: str
) -> None:
    cluster = Cluster().put(a_queue("team"))
    cluster.store.put_job("ns/train", a_job(a_task("w")))
    body = {**raw} if isinstance(raw, dict) else {}
    try:
        command = api.decode_as(Command, body | {"metadata": {"name": "c", "namespace": namespace, "uid": "u"}})
    except ObjectError:
        return

    why = commands.why_not(command, cluster.store, ("volsched-system",))

    if not why:
        of_job = command.target.kind == "Job"
        assert namespace == ("ns" if of_job else "volsched-system")
        assert command.target.name == ("train" if of_job else "team")
        assert command.target.uid in ("", "uid-train" if of_job else "uid-team")
    message = commands.refused(command, why).message
    assert len(message) < 1_000
