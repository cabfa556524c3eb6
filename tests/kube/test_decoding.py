"""What the API server sends is read object by object: what is wrong with one is said of that one, and ends there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError
from volsched.kube.watch.decoding import KindReader, Unread
from volsched.kube.watch.informer import BYTES_AT_ONCE, ITEMS_AT_ONCE, PAGE, Informer
from volsched.kube.watch.resources import Resource
from volsched.model import api
from volsched.model.changes import Change, Put

PODS = Resource("Pod", "v1", "pods", api.Pod)
DEEP = "[" * 5_000 + "]" * 5_000

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
odd_pods = st.fixed_dictionaries(
    {},
    optional={
        "metadata": json_values | st.fixed_dictionaries({}, optional={"name": json_values, "uid": json_values}),
        "spec": json_values | st.fixed_dictionaries({}, optional={"nodeName": json_values, "containers": json_values}),
        "status": json_values | st.fixed_dictionaries({}, optional={"phase": json_values}),
    },
)


def a_pod(name: str, version: int = 1, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}, "spec": spec}


def a_line(found: Any, kind: str = "ADDED") -> bytes:
    return json.dumps({"type": kind, "object": found}).encode() + b"\n"


def a_page(items: Sequence[Any]) -> bytes:
    return json.dumps({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items}).encode()


def names(found: Sequence[api.ApiObject]) -> list[tuple[type, str]]:
    return [(type(each), each.metadata.name) for each in found]


@pytest.mark.parametrize("odd", [{"nodeName": 5}, {"containers": "no list"}, {"containers": [5]}, 5, [], "text"])
def test_one_odd_object_does_not_hide_the_others(odd: Any) -> None:
    objects = [a_pod("a"), a_pod("b") | {"spec": odd}, a_pod("c")]
    expected = [(api.Pod, "a"), (Unread, "b"), (api.Pod, "c")]
    reader = KindReader(PODS)

    events = list(reader.events(b"".join(map(a_line, objects))))
    items = reader.page(a_page(objects)).items

    assert names([event.object for event in events]) == expected
    assert names(items or ()) == expected
    assert reader.unreadable == 2


def test_an_object_however_deep_it_is_nested_does_not_hide_the_others() -> None:
    deep = json.dumps(a_pod("b", overhead="?")).replace('"?"', DEEP)
    texts = [json.dumps(a_pod("a")), deep, json.dumps(a_pod("c"))]
    reader = KindReader(PODS)

    lines = "".join(f'{{"type": "ADDED", "object": {text}}}\n' for text in texts)
    events = list(reader.events(lines.encode()))
    page = reader.page(f'{{"metadata": {{"resourceVersion": "7"}}, "items": [{",".join(texts)}]}}'.encode())

    for found in ([event.object for event in events], page.items or ()):
        assert [each.metadata.name for each in found] == ["a", "b", "c"]
    assert page.metadata.resource_version == "7"


def test_where_a_pod_runs_that_cannot_be_read_is_known_unless_it_has_ended() -> None:
    running = a_pod("a", nodeName="n", containers=5)
    ended = a_pod("b", nodeName="n", containers=5) | {"status": {"phase": "Failed"}}

    items = KindReader(PODS).page(a_page([running, ended])).items

    assert [(each.metadata.name, each.node, each.field) for each in items or ()] == [
        ("a", "n", "$.spec.containers"),
        ("b", "", "$.spec.containers"),
    ]


@given(st.lists(odd_pods | json_values, max_size=4), st.sampled_from(["ADDED", "DELETED", "BOOKMARK", "odd", ""]))
def test_whatever_objects_are_none_is_lost_and_nothing_but_our_own_errors_is_raised(
    found: list[Any], kind: str
) -> None:
    reader = KindReader(PODS)
    lines = b"".join(a_line(each, kind) for each in found)

    assert len(reader.page(a_page(found)).items or ()) == len(found)
    if all(isinstance(each, dict) for each in found):
        assert len(list(reader.events(lines))) == len(found)
    else:
        with pytest.raises(ApiError):
            list(reader.events(lines))


@given(st.binary(max_size=60) | json_values.map(lambda value: json.dumps(value).encode()))
@example(b'{"type": "ADDED", "object": {"metadata": {"name": "\xff"}}}')
@example(b'{"metadata": {}, "items": [{"metadata": {"name": "\xff"}}]}')
@example(b'{"metadata": [], "items": {}}')
@example(b'{"items": 5}')
@example(DEEP.encode())
def test_whatever_bytes_come_they_are_read_or_the_server_is_said_to_be_broken(text: bytes) -> None:
    reader = KindReader(PODS)
    for read in (reader.page, lambda lines: list(reader.events(lines))):
        try:
            read(text)
        except ApiError as error:
            assert error.reason  # noqa: PT017 - nothing else may be raised


def test_what_fails_over_one_change_takes_no_other_with_it() -> None:
    taken: list[str] = []

    def sink(changes: Sequence[Change]) -> None:
        for change in changes:
            assert isinstance(change, Put)
            if change.object.metadata.name == "odd":
                raise ZeroDivisionError
            taken.append(change.object.metadata.name)

    informer = Informer(cast("Api", None), PODS, sink)
    informer._take(b"".join(a_line(a_pod(name, version)) for version, name in enumerate(("a", "odd", "b"), 1)))

    assert set(taken) == {"a", "b"}
    assert informer.count == 3


async def at_each_turn(read: Callable[[Informer], Awaitable[None]], server: object = None) -> list[int]:
    """Return how many objects an informer takes in each time before others have their turn on the loop."""
    informer = Informer(cast("Api", server), PODS, lambda _: None)
    reading = asyncio.ensure_future(read(informer))
    counts = [0]
    while not reading.done():
        await asyncio.sleep(0)
        counts.append(informer.count)
    await reading
    return [after - before for before, after in pairwise([*counts, informer.count]) if after > before]


async def test_what_has_piled_up_on_a_watch_is_taken_in_some_at_a_time() -> None:
    lines = [a_line(a_pod(f"p{number}", number + 1)) for number in range(5_000)]

    turns = await at_each_turn(lambda informer: informer._take_some_at_a_time(b"".join(lines).removesuffix(b"\n")))

    assert sum(turns) == len(lines)
    assert max(turns) <= BYTES_AT_ONCE // min(map(len, lines)) + 1


async def test_nor_is_a_page_of_a_list_taken_in_at_once() -> None:
    class Server:
        async def request(self, *_: object, **__: object) -> bytes:
            return a_page([a_pod(f"p{number}") for number in range(PAGE)])

    turns = await at_each_turn(lambda informer: informer._list_pages(), Server())

    assert (sum(turns), max(turns)) == (PAGE, ITEMS_AT_ONCE)
