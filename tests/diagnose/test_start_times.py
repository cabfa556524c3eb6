"""When a job starts: promised, estimated from what pods declare, or not known, each with its reason."""

from __future__ import annotations

import msgspec
import pytest

from tests.ui.worlds import NOW, group, known_of, live_of, node, pod, queue
from volsched.diagnose.job_answers import JobAnswers
from volsched.diagnose.records import ExpectedStart
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model import api
from volsched.model.held_nodes import condition_of

HOUR = 3600.0
BEGAN = "2033-05-18T02:33:20Z"
"""An hour before ``NOW``."""

QUOTAS = DEFAULT_CONFIGURATION.replace("- name: predicates", "- name: proportion\n  - name: predicates")


def runs(key: str, gpus: int, on: str, duration: str = "", in_queue: str = "default") -> list[api.ApiObject]:
    """Return a job that has run for an hour, and declares how long it runs."""
    found = pod(key, gpus, on)
    assert isinstance(found, api.Pod)
    annotations = dict(found.metadata.annotations)
    if duration:
        annotations["volsched.io/expected-duration"] = duration
    meta = msgspec.structs.replace(found.metadata, annotations=annotations)
    status = msgspec.structs.replace(found.status, start_time=BEGAN)
    return [group(key, in_queue, phase="Running"), msgspec.structs.replace(found, metadata=meta, status=status)]


def waits(key: str, gpus: int, in_queue: str = "default", pods: int = 1) -> list[api.ApiObject]:
    """Return a job that waits, of so many equal pods that start together."""
    namespace, name = key.split("/")
    members = [pod(f"{namespace}/{name}-{number}", gpus, group=name) for number in range(pods)]
    return [group(key, in_queue, minimum=pods), *members]


def answers(*objects: api.ApiObject, name: str = "waits") -> JobAnswers:
    live = live_of(known_of(objects, QUOTAS))
    live.look(NOW)
    found = live.answers("team", name, NOW)
    assert found is not None
    return found


def start(*objects: api.ApiObject) -> ExpectedStart:
    found = answers(*objects).start
    assert found is not None
    return found


def test_start_is_when_the_pod_in_the_way_ends() -> None:
    found = start(node("n1"), queue("default"), *runs("team/a", 8, "n1", "3h"), *waits("team/waits", 8))

    assert (found.sort, found.at) == ("estimated", NOW + 2 * HOUR)
    assert "ends as it declares" in found.sentence


def test_node_that_is_free_first_counts() -> None:
    found = start(
        *(node("n1"), node("n2"), queue("default")),
        *(*runs("team/a", 8, "n1", "9h"), *runs("team/b", 8, "n2", "2h"), *waits("team/waits", 8)),
    )

    assert found.at == NOW + HOUR


def test_gang_needs_room_for_all_of_its_members() -> None:
    nodes = [node("n1"), node("n2"), node("n3"), queue("default")]
    holders = [*runs("team/a", 8, "n1", "9h"), *runs("team/b", 8, "n2", "2h"), *runs("team/c", 8, "n3", "4h")]

    assert start(*nodes, *holders, *waits("team/waits", 8, pods=2)).at == NOW + 3 * HOUR
    assert start(*nodes, *holders, *waits("team/waits", 4, pods=2)).at == NOW + HOUR


def test_room_that_is_there_already_counts() -> None:
    found = start(
        *(node("n1"), queue("default"), *runs("team/a", 3, "n1", "2h"), *runs("team/b", 3, "n1", "5h")),
        *waits("team/waits", 5),
    )

    assert found.at == NOW + HOUR


def test_pod_that_outlived_its_duration_is_expected_to_run_as_long_again() -> None:
    found = start(node("n1"), queue("default"), *runs("team/a", 8, "n1", "45m"), *waits("team/waits", 8))

    assert found.at == NOW + HOUR / 2


def test_default_duration_of_the_queue_counts() -> None:
    known = queue("default")
    meta = msgspec.structs.replace(known.metadata, annotations={"volsched.io/default-duration": "2h"})
    known = msgspec.structs.replace(known, metadata=meta)

    assert start(node("n1"), known, *runs("team/a", 8, "n1"), *waits("team/waits", 8)).at == NOW + HOUR


def test_quota_is_free_when_enough_holders_have_ended() -> None:
    objects = [node("n1"), node("n2"), queue("small", gpus="8")]
    holders = [*runs("team/a", 3, "n1", "2h", "small"), *runs("team/b", 4, "n1", "6h", "small")]

    soon, late = (start(*objects, *holders, *waits("team/waits", gpus, "small")) for gpus in (4, 5))

    assert (soon.sort, soon.at, late.at) == ("estimated", NOW + HOUR, NOW + 5 * HOUR)
    assert "2 jobs end as they declare" in late.sentence


def test_share_is_free_when_the_jobs_that_use_it_up_have_ended() -> None:
    holders = [*runs("team/a", 3, "n1", "2h", "small"), *runs("team/b", 5, "n1", "6h", "small")]

    found = start(
        node("n1"), node("n2"), queue("default"), queue("small", gpus="8"), *holders, *waits("team/waits", 2, "small")
    )

    assert (found.sort, found.at) == ("estimated", NOW + HOUR)


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        ([node("n1"), *runs("team/a", 8, "n1"), *waits("team/waits", 8)], "volsched.io/expected-duration"),
        ([node("n1", 4), *waits("team/waits", 8)], "it does not start, whatever ends"),
        (
            [
                *(node("n1"), node("n2")),
                queue("small", gpus="8"),
                *runs("team/a", 8, "n1", "", "small"),
                *waits("team/waits", 1, "small"),
            ],
            "The job that holds nvidia.com/gpu does not declare",
        ),
        ([node("n1"), queue("small", gpus="2"), *waits("team/waits", 3, "small")], "it does not start, whatever ends"),
        ([node("n1"), *waits("team/waits", 1, "nowhere")], "Its queue does not exist."),
        ([node("n1"), group("team/waits", minimum=3), pod("team/waits", 1)], "made only 1 of the 3 pods"),
    ],
)
def test_what_is_not_known_has_its_reason(objects: list[api.ApiObject], says: str) -> None:
    found = start(queue("default"), *objects)

    assert (found.sort, found.at) == ("unknown", None)
    assert says in found.sentence


@pytest.mark.parametrize("at", [NOW + HOUR, None])
def test_reservation_goes_before_estimates(at: float | None) -> None:
    stated = condition_of(NOW, at, ("n1", "n2"))
    promised, *members = waits("team/waits", 8)
    assert isinstance(promised, api.PodGroup)
    condition = api.Condition(type=stated.type, status="True", reason=stated.reason, message=stated.message)
    status = msgspec.structs.replace(promised.status, conditions=(condition,))
    promised = msgspec.structs.replace(promised, status=status)

    found = start(node("n1"), queue("default"), *runs("team/a", 8, "n1", "9h"), promised, *members)

    assert (found.sort, found.at) == ("promised", at)
    assert "2 nodes are reserved for it" in found.sentence


# --- other answers --------------------------------------------------------------------------------------------------


def test_holders_have_their_start_and_their_expected_end() -> None:
    found = answers(node("n1"), queue("default"), *runs("team/a", 8, "n1", "3h"), *waits("team/waits", 8))

    assert found.explanation is not None
    [holder] = found.explanation.holders
    assert (holder.name, holder.amount, holder.since, holder.ends) == ("team/a", "8", NOW - HOUR, NOW + 2 * HOUR)


def test_pods_and_timeline_are_those_of_the_objects() -> None:
    found = answers(node("n1"), queue("default"), *runs("team/a", 8, "n1"), name="a")

    assert [(pod.pod, pod.state, pod.node, pod.since) for pod in found.pods] == [("a", "runs", "n1", NOW - HOUR)]
    assert [(entry.what, entry.sentence) for entry in found.timeline] == [
        ("created", "Its PodGroup was made."),
        ("created", "1 pod was made."),
        ("started", "1 pod started."),
    ]
    assert (found.state, found.held["nvidia.com/gpu"], found.explanation) == ("running", "8", None)


def test_failed_pod_has_its_exit_code() -> None:
    group_, over = runs("team/a", 8, "n1")
    assert isinstance(over, api.Pod)
    state = msgspec.convert(
        {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": BEGAN}}, api.pods.ContainerState
    )
    status = api.PodStatus(phase="Failed", container_statuses=(api.pods.ContainerStatus(name="main", state=state),))

    found = answers(node("n1"), queue("default"), group_, msgspec.structs.replace(over, status=status), name="a")

    [pod_] = found.pods
    assert (pod_.state, pod_.since) == ("failed", NOW - HOUR)
    assert pod_.message == "container main: OOMKilled, exit code 137"
    assert found.timeline[-1].what == "ended"
