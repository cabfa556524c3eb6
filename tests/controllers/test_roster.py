"""The pods of a Job, counted change by change: the same as counted from scratch."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.cases import a_member
from volsched.controllers.lifecycle import JobPod
from volsched.controllers.pod_index import JobPodIndex, member_of, pod_event_of
from volsched.model import api

MEMBERS = st.builds(
    lambda task, number, phase, odd, uid, **fields: a_member(
        task, number, phase, **fields, **({"name": "odd"} if odd else {}), uid=f"{task}-{number}-{uid}"
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 3),
    st.sampled_from(["Pending", "Running", "Succeeded", "Failed", ""]),
    st.booleans(),
    st.integers(0, 1),
    terminating=st.booleans(),
    killed=st.booleans(),
    exit_code=st.sampled_from([0, 1]),
    version=st.integers(0, 1),
)
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "put", "drop", "kill", "asked"]), MEMBERS), max_size=25)


@given(CHANGES)
def test_a_roster_equals_what_is_counted_from_scratch(changes: list[tuple[str, JobPod]]) -> None:
    pod_index, there = JobPodIndex("train"), dict[str, JobPod]()
    for what, pod in changes:
        if what == "put":
            there = {uid: known for uid, known in there.items() if known.name != pod.name} | {pod.uid: pod}
            pod_index.put(pod)
        elif what == "drop":
            assert pod_index.drop(pod.uid) == there.pop(pod.uid, None)
        elif what == "kill":
            if pod.uid in there:
                there[pod.uid] = there[pod.uid]._replace(killed=True)
            pod_index.kill(pod.uid)
        else:
            pod_index.asked(pod.uid)

    assert {pod.uid: pod for pod in pod_index} == there
    assert pod_index.tally() == JobPodIndex.of("train", there.values()).tally()
    by_standing = Counter(pod_event_of(pod) for pod in there.values())
    assert {pod_event: len(pods) for pod_event, pods in pod_index.pod_events().items()} == by_standing
    named = {pod.name: pod for task in pod_index.tasks() for pod in pod_index.numbers(task).values()} | {
        **pod_index.strays()
    }
    assert named == {pod.name: pod for pod in there.values()}
    assert {pod.uid for pod in pod_index.staying(finished=True)} == {p.uid for p in there.values() if not p.is_leaving}
    waiting = {p.uid for p in there.values() if not p.is_leaving and not p.is_finished}
    assert {pod.uid for pod in pod_index.staying(finished=False)} == waiting
    assert all(pod.killed and not pod.terminating for pod in pod_index.owed())


def test_why_a_pod_failed_is_known_once_it_has_failed() -> None:
    def reason(phase: str) -> str:
        status = {"phase": phase, "reason": "Evicted"}
        pod = {"metadata": {"name": "p", "uid": "u"}, "status": status}
        return member_of(api.decode_as(api.Pod, pod), None, 0.0).reason

    assert (reason("Failed"), reason("Running")) == ("Evicted", "")


def test_a_deletion_is_owed_until_the_api_server_was_asked_or_shows_it() -> None:
    pod_index = JobPodIndex.of("train", [a_member("w", 0), a_member("w", 1)])

    pod_index.kill("w-0")
    pod_index.kill("w-1")
    assert [pod.name for pod in pod_index.owed()] == ["train-w-0", "train-w-1"]

    pod_index.asked("w-0")
    pod_index.put(a_member("w", 1, terminating=True, killed=True))
    assert list(pod_index.owed()) == []


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    pod_index = JobPodIndex.of(
        "train", [a_member("w", 0), a_member("w", 1, name="odd"), a_member("v", 0, terminating=True)]
    )

    for pod in list(pod_index):
        pod_index.kill(pod.uid)
        pod_index.drop(pod.uid)

    empty = JobPodIndex("train")
    assert vars(pod_index) == vars(empty)
