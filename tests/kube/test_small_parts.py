"""Parts of `volsched.kube` that need no API server: waits, limits, the fence, the inbox, views, bodies, addresses."""

from __future__ import annotations

import contextlib
import math
import socket
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from volsched.kube.client import rest
from volsched.kube.client.backoff import Backoff
from volsched.kube.client.rest import RateLimiter, parsed
from volsched.kube.client.wire import Answer
from volsched.kube.errors import ApiError, FenceError, KubeSetupError
from volsched.kube.fence import Fence
from volsched.kube.lead.elector import LeaseSettings
from volsched.kube.serve.listeners import Listeners, parse_address
from volsched.kube.watch.inbox import Inbox
from volsched.kube.watch.listing import Listing
from volsched.kube.watch.resources import Resource, keep_pod, watched
from volsched.kube.write.events import _event_name
from volsched.kube.write.pod_bodies import binding_body, disruption_body, gate_body, ungated_body
from volsched.kube.write.statuses import condition_body, merged_conditions
from volsched.kube.write.throttle import Throttle
from volsched.kube.write.views import PodRefusal, Views
from volsched.model import api
from volsched.model.changes import Bound, Deleted, Put
from volsched.model.job import PodGroupCondition
from volsched.model.plan import Bind, Evict, LiftGate, WritePodCondition

A_CHANGE = Bound("uid", "node")


# --- waits and limits -----------------------------------------------------------------------------------------------


def test_waits_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(1.0, 10.0)

    waits = [backoff.next() for _ in range(6)]
    backoff.reset()

    for wait, most in zip(waits, (1, 2, 4, 8, 10, 10), strict=True):
        assert most / 2 <= wait <= most
    assert backoff.next() <= 1


def test_a_back_off_of_a_thousand_failures_is_still_a_number() -> None:
    backoff = Backoff(0.1, 5.0)

    assert max(backoff.next() for _ in range(1000)) <= 5.0


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds for which requests are held back; none of them pass."""
    found: list[float] = []

    async def wait(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(rest, "asyncio", SimpleNamespace(sleep=wait))
    return found


async def test_requests_under_a_limit_are_spread(monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:
    clock = _Clock()
    monkeypatch.setattr(rest, "time", SimpleNamespace(monotonic=clock))
    limiter = RateLimiter(qps=100, burst=5)

    for _ in range(25):
        await limiter.take()
    assert waits == [pytest.approx(number / 100) for number in range(1, 21)]
    assert limiter.waited == pytest.approx(sum(waits))

    waits.clear()
    clock.now += 1.0
    for _ in range(6):
        await limiter.take()
    assert waits == [pytest.approx(0.01)], "what was not used in the meantime is saved up to the burst"


async def test_no_limit_is_no_limit(waits: list[float]) -> None:
    limiter = RateLimiter(qps=0, burst=1)

    for _ in range(10_000):
        await limiter.take()

    assert waits == []


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "transient", "doubtful", "gone"),
    [
        (ApiError(0, "Timeout", ""), True, True, False),
        (ApiError(0, "Unreachable", ""), True, False, False),
        (ApiError(404, "NotFound", ""), False, False, True),
        (ApiError(409, "Conflict", "the object has been modified"), True, False, False),
        (ApiError(409, "Conflict", "the UID in the precondition (a) does not match"), True, False, True),
        (ApiError(422, "Invalid", "metadata.uid: Invalid value: field is immutable"), False, False, True),
        (ApiError(422, "Invalid", "spec.x: Invalid value"), False, False, False),
        (ApiError(429, "TooManyRequests", ""), True, False, False),
        (ApiError(403, "Forbidden", ""), False, False, False),
        (ApiError(500, "InternalError", ""), True, True, False),
        (ApiError(503, "ServiceUnavailable", ""), True, True, False),
    ],
)
def test_what_an_error_means(error: ApiError, transient: bool, doubtful: bool, gone: bool) -> None:
    assert (error.is_transient, error.may_have_happened, error.is_deleted) == (transient, doubtful, gone)


def test_an_answer_that_is_no_json_is_an_error_of_ours() -> None:
    with pytest.raises(ApiError, match="not JSON"):
        parsed(b"<html>")


def answered(status: int, body: str, **headers: str) -> ApiError:
    return rest._refusal(Answer(status, "Too Many Requests", headers, body.encode()))


BEFORE_LOOKING = "Too many requests, please try again later.\n"
"""What the API server says before it has looked at what is asked for (API priority and fairness)."""

BUDGET = '{"kind":"Status","reason":"TooManyRequests","details":{"retryAfterSeconds":10},"message":"disruption budget"}'


@pytest.mark.parametrize(
    ("error", "overload", "wait", "pause"),
    [
        (answered(429, BEFORE_LOOKING, **{"retry-after": "1"}), True, 1, 1),
        (answered(429, BEFORE_LOOKING), True, 1, 1),
        (answered(429, BEFORE_LOOKING, **{"retry-after": "3600"}), True, 5, 5),
        (answered(429, BUDGET), False, 10, 0),
        (answered(429, BUDGET, **{"retry-after": "1e9"}), False, 30, 0),
        (answered(429, BUDGET, **{"retry-after": "-5"}), False, 10, 0),
        (answered(429, BUDGET, **{"retry-after": "nan"}), False, 10, 0),
    ],
)
def test_only_an_overloaded_server_slows_a_lane_and_never_for_long(
    error: ApiError, overload: bool, wait: float, pause: float
) -> None:
    throttle = Throttle()

    assert error.is_overload == overload
    assert throttle.refused(error) == wait
    assert pause - 1 < throttle.pause <= pause


# --- the fence ------------------------------------------------------------------------------------------------------


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_fence_is_open_until_its_time_is_over() -> None:
    clock = _Clock()
    fence = Fence(clock)
    assert not fence.is_open
    fence.prolong(110.0, 115.0)
    fence.check()
    assert fence.start_write(30.0) == 15.0
    assert fence.start_write(2.0) == 2.0
    clock.now = 109.0
    assert fence.start_write(30.0) == 6.0
    clock.now = 110.0
    with pytest.raises(FenceError):
        fence.check()
    with pytest.raises(FenceError):
        fence.start_write(30.0)


def test_a_fence_that_has_refused_stays_closed_though_the_lease_is_renewed_late() -> None:
    """What was refused was dropped: whoever led on would never do it."""
    clock = _Clock()
    fence = Fence(clock)
    fence.prolong(110.0, 115.0)
    clock.now = 111.0
    assert not fence.is_open
    fence.prolong(121.0, 126.0)
    assert fence.is_open  # nobody was refused
    assert not fence.has_refused

    clock.now = 122.0
    with pytest.raises(FenceError):
        fence.start_write(1.0)
    fence.prolong(132.0, 137.0)

    assert fence.has_refused
    assert not fence.is_open
    with pytest.raises(FenceError):
        fence.check()


def test_a_fence_that_has_refused_before_its_process_led_opens() -> None:
    fence = Fence(_Clock())
    with pytest.raises(FenceError):
        fence.check()
    fence.prolong(110.0, 115.0)
    assert fence.is_open
    fence.check()


def test_a_closed_fence_stays_closed() -> None:
    fence = Fence.always_open()
    assert fence.is_open
    assert fence.start_write(30.0) == 30.0
    fence.close()
    fence.prolong(math.inf, math.inf)
    assert not fence.is_open


def test_lease_times_must_fit() -> None:
    assert not LeaseSettings("ns", "name").problem()
    assert LeaseSettings("ns", "name", 10, 15).problem()


# --- the inbox ------------------------------------------------------------------------------------------------------


def test_changes_come_out_in_order() -> None:
    inbox = Inbox()
    first, second, third = (Bound(str(i), "n") for i in range(3))
    inbox.put((first, second))
    inbox.put((third,))

    assert inbox.wait(1.0)
    assert inbox.take() == [first, second, third]
    assert inbox.take() == []
    assert not inbox.wait(0.01)


def test_a_quiet_change_wakes_nobody_and_is_taken_along() -> None:
    inbox = Inbox()
    inbox.put((A_CHANGE,), wake=False)
    assert not inbox.wait(0.02)

    inbox.wake()

    assert inbox.wait(0.02)
    assert inbox.take() == [A_CHANGE]


class _Meanwhile:
    """What the inbox takes for the module `time`; so many changes come while it sleeps."""

    def __init__(self, inbox: Inbox, changes: list[int]) -> None:
        self.inbox = inbox
        self.changes = changes
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return 100.0 + sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.inbox.put((A_CHANGE,) * self.changes.pop(0))


def waited(monkeypatch: pytest.MonkeyPatch, inbox: Inbox, changes: list[int]) -> list[float]:
    """Put one change, wait while others come, and return the pauses that were made for these."""
    meanwhile = _Meanwhile(inbox, changes)
    monkeypatch.setattr("volsched.kube.watch.inbox.time", meanwhile)
    inbox.put((A_CHANGE,))
    assert inbox.wait(0.0)
    return meanwhile.slept


def test_a_burst_is_taken_once_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(quiet=0.25, longest=1000.0)

    assert waited(monkeypatch, inbox, [3, 1, 0, 1]) == [0.25] * 3
    assert inbox.take() == [A_CHANGE] * 5


def test_a_stream_does_not_put_off_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(quiet=0.25, longest=2.0)

    assert waited(monkeypatch, inbox, [1] * 1000) == [0.25] * 8
    assert inbox.take() == [A_CHANGE] * 9


def test_changes_that_settle_wait_for_others_although_the_burst_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox.settling(0.25)

    assert waited(monkeypatch, inbox, [1]) == [0.25]
    assert inbox.take() == [A_CHANGE, A_CHANGE]


def test_an_inbox_that_is_not_emptied_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volsched.kube.watch.inbox.FULL", 3)
    inbox = Inbox()
    inbox.put([A_CHANGE] * 3)
    assert not inbox.is_full
    inbox.put([A_CHANGE])
    assert inbox.is_full
    assert len(inbox) == 4
    inbox.take()
    assert not inbox.is_full


# --- views ----------------------------------------------------------------------------------------------------------


def a_pod(version: str, *, message: str = "", node: str = "", phase: str = "Pending") -> api.Pod:
    conditions: tuple[api.Condition, ...] = ()
    if message:
        conditions = (api.Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message),)
    return api.Pod(
        metadata=api.ObjectMeta(name="p", namespace="ns", uid="u", resource_version=version),
        spec=api.PodSpec(node_name=node),
        status=api.PodStatus(phase=phase, conditions=conditions),
    )


def a_node(uid: str) -> api.Node:
    return api.Node(metadata=api.ObjectMeta(name="n", uid=uid))


def test_an_older_event_does_not_hide_what_was_written() -> None:
    views = Views()
    views.observe([Put(a_pod("5", message="old"))])
    views.wrote_refusal("u", PodRefusal("Unschedulable", "new"), "7")

    views.observe([Put(a_pod("6", message="between"))])
    assert views.refusal("u").message == "new"
    views.observe([Put(a_pod("8", message="somebody else"))])
    assert views.refusal("u").message == "somebody else"
    views.observe([Put(a_pod("9", node="n"))])
    assert views.refusal("u") == PodRefusal()


def test_a_node_that_came_back_is_another_one() -> None:
    views = Views()
    views.observe([Put(a_node("1"))])
    assert views.node_exists("n", "1")
    assert views.node_exists("n")
    views.observe([Deleted("Node", "", "n", "1"), Put(a_node("2"))])
    assert not views.node_exists("n", "1")
    views.observe([Deleted("Node", "", "n", "1")])
    assert views.node_exists("n", "2")


def test_pods_and_groups_that_are_gone_are_told() -> None:
    told: list[str] = []
    views = Views(on_deleted=told.append)

    views.observe([Deleted("Pod", "ns", "p", "u"), Deleted("Node", "", "n", "1"), Deleted("PodGroup", "ns", "g", "w")])

    assert told == ["u", "w"]


# --- bodies ---------------------------------------------------------------------------------------------------------


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(body)


def test_a_binding_says_whose_it_is() -> None:
    assert decoded(binding_body(Bind("u", "ns", "p", "n1", {"a": "1"}))) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": {"a": "1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_pods_that_one_session_evicts_state_the_same_session_and_those_of_another_do_not() -> None:
    def sessions(*times: float) -> list[dict[str, str]]:
        bodies = [
            decoded(disruption_body(Evict("u", "ns", "p", "reclaim", "ns/q", "to make room", time))) for time in times
        ]
        return [{c["type"]: c["message"] for c in body["status"]["conditions"]} for body in bodies]

    one, same, other = sessions(1.5e9, 1.5e9, 1.5e9 + 0.001)

    assert one == {
        "DisruptionTarget": "to make room",
        "volsched.io/Evicted": "volsched: in the session of 2017-07-14T02:40:00.000000+00:00",
    }
    assert same == one
    assert other["volsched.io/Evicted"] != one["volsched.io/Evicted"]
    assert sessions(0.0)[0].keys() == {"DisruptionTarget"}


def test_patches_name_the_uid_so_that_a_namesake_is_safe() -> None:
    evict = decoded(disruption_body(Evict("u", "ns", "p", "reclaim", "ns/q", "")))
    gate = decoded(gate_body(LiftGate("u", "ns", "p", "g")))
    condition = decoded(condition_body(WritePodCondition("u", "ns", "p", "R", "m"), PodRefusal()))

    ungated = decoded(ungated_body(LiftGate("u", "ns", "p", "g")))

    assert {body["metadata"]["uid"] for body in (evict, gate, condition, ungated)} == {"u"}
    assert gate["spec"] == {"schedulingGates": [{"$patch": "delete", "name": "g"}]}
    assert "nominatedNodeName" not in condition["status"]
    assert "lastTransitionTime" in condition["status"]["conditions"][0]


def test_a_condition_that_was_false_before_keeps_its_time_and_a_nomination_is_taken_back() -> None:
    known = PodRefusal("Unschedulable", "before", "n1")

    status = decoded(condition_body(WritePodCondition("u", "ns", "p", "Unschedulable", "now"), known))["status"]

    assert "lastTransitionTime" not in status["conditions"][0]
    assert status["nominatedNodeName"] is None


def test_conditions_keep_their_times_unless_they_change_and_strangers_stay() -> None:
    stranger = api.Condition(type="Custom", status="True", transition_id="t0")
    same = api.Condition(type="Scheduled", status="True", reason="r", transition_id="t1", last_transition_time="2001")
    other = api.Condition(type="Unschedulable", status="True", reason="r", message="old", transition_id="t2")
    wanted = [PodGroupCondition("Scheduled", "True", "r", ""), PodGroupCondition("Unschedulable", "True", "r", "new")]

    merged = merged_conditions([same, other, stranger], wanted)

    assert merged[0] is stranger
    assert merged[1] is same
    assert merged[2].message == "new"
    assert merged[2].transition_id not in ("", "t2")
    ours = [api.Condition(type=name, status="True") for name in ("ReservationReleased", "Reserved", "QueueKept")]
    assert [c.type for c in merged_conditions([same, other, stranger, *ours], wanted[:1])] == ["Custom", "Scheduled"]


def test_an_event_is_named_after_its_object() -> None:
    assert _event_name("pod-1").startswith("pod-1.")
    assert len(_event_name("x" * 253)) <= 253
    assert ".." not in _event_name("x" * 229 + ".y")


# --- resources and addresses ----------------------------------------------------------------------------------------


def test_paths_of_core_and_grouped_and_narrowed_kinds() -> None:
    by_plural = {resource.plural: resource.path for resource in watched(need_groups=True)}
    assert by_plural["pods"] == "/api/v1/pods"
    assert by_plural["podgroups"] == "/apis/scheduling.volcano.sh/v1beta1/podgroups"
    one = Resource("ConfigMap", "v1", "configmaps", api.ConfigMap, namespace="ns", field_selector="metadata.name=x")
    assert one.query(watch="1") == "/api/v1/namespaces/ns/configmaps?watch=1&fieldSelector=metadata.name%3Dx"


def test_groups_are_needed_unless_pods_are_scheduled_by_themselves() -> None:
    assert {r.plural for r in watched(need_groups=False)} == {r.plural for r in watched(need_groups=True)}
    assert not any(r.optional for r in watched(need_groups=True) if r.plural in ("podgroups", "queues"))


def test_a_kind_that_needs_a_restart_of_the_server_is_looked_for_less_often() -> None:
    by_kind = {resource.kind: resource for resource in watched(need_groups=True)}
    rules = by_kind["DeviceTaintRule"]

    assert rules.path == "/apis/resource.k8s.io/v1beta2/devicetaintrules"
    assert rules.optional
    assert rules.look_again > by_kind["ResourceSlice"].look_again


def test_finished_pods_are_of_interest_only_in_a_group() -> None:
    member = msgspec.structs.replace(
        a_pod("1", phase="Succeeded"),
        metadata=api.ObjectMeta(name="p", annotations={"scheduling.k8s.io/group-name": "g"}),
    )
    assert keep_pod(member)
    assert keep_pod(a_pod("1"))
    assert not keep_pod(a_pod("1", phase="Failed"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8080", ("", 8080)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
    ],
)
def test_addresses(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


def test_who_connects_before_anybody_answers_waits_and_is_not_refused() -> None:
    listeners = Listeners()
    listeners.open("127.0.0.1:0", "")
    with (
        contextlib.closing(listeners.take("127.0.0.1:0")) as door,
        socket.create_connection(door.getsockname(), timeout=5) as early,
    ):
        answering, _ = door.accept()
        answering.sendall(b"ok")
        assert early.recv(2) == b"ok"
        answering.close()


def test_an_address_that_cannot_be_had_is_told_when_it_is_taken() -> None:
    listeners = Listeners()
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        listeners.open(taken)
        with pytest.raises(KubeSetupError, match="cannot listen on"):
            listeners.take(taken)


def test_an_address_that_nobody_took_is_free_again() -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
    first, second = Listeners(), Listeners()
    first.open(address)
    first.close()
    second.take(address).close()


def test_a_listener_that_was_taken_is_opened_anew() -> None:
    listeners = Listeners()
    listeners.open(":0")
    first, second = listeners.take(":0"), listeners.take(":0")
    assert first.getsockname() != second.getsockname()
    first.close()
    second.close()


@pytest.mark.parametrize("text", ["", "8080", "host:", "host:x", ":70000"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(KubeSetupError):
        parse_address(text)


def test_a_listing_does_not_write_out_what_it_holds() -> None:
    """`asyncio.run` makes the repr of the result, twice; of 12,000 objects that took a fifth of all the time."""
    assert "somewhere" not in repr(Listing(objects=[api.Node(metadata=api.ObjectMeta(name="somewhere"))]))
