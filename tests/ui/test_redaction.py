"""What somebody who may not see everything sees: no name of others, whatever they ask for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ui.worlds import group, known_of, node, picture_of, pod, queue
from volsched.diagnose.records import Difference, PodDifference
from volsched.framework.redaction import ANOTHER
from volsched.ui.access import WHOLE, Visibility
from volsched.ui.jobs_page import JobQuery, JobsView
from volsched.ui.pages import VIEWS, Pages
from volsched.ui.picture import Picture
from volsched.ui.redaction import difference_for, seen_by, without_names

TEAM = Visibility(frozenset({"team"}), frozenset({"default", "mine"}), nodes=False)
ALL = (*VIEWS, "jobs")
HIDDEN = ("secret", "holder", "theirs", "hush", "node-")


@pytest.fixture(scope="module")
def picture() -> Picture:
    nodes = [node(f"node-{number}") for number in range(3)]
    queues = [queue("default"), queue("mine"), queue("hush", gpus="1")]
    jobs = [
        *(group("secret/holder", "hush"), pod("secret/holder", 6, "node-0")),
        *(group("secret/theirs", "hush"), pod("secret/theirs", 5)),
        *(group("team/ours", "mine"), pod("team/ours", 2, "node-1")),
        *(group("team/waits", "mine"), pod("team/waits", 9)),
        *(group("secret/second", "mine"), pod("secret/second", 9)),
    ]
    return picture_of(known_of([*nodes, *queues, *jobs]))


def html(picture: Picture, scope: Visibility, view: str, filters: dict[str, str]) -> str:
    pages = Pages()
    shown = JobsView(pages, JobQuery.of(filters)) if view == "jobs" else pages.view(view, filters)
    shown.show(seen_by(scope, picture), picture.history)
    return "\n".join([*shown.table.html.values(), shown.caption()[1]]).replace("<wbr>", "")


@pytest.mark.parametrize("view", ALL)
def test_own_names_are_shown_and_others_are_counted(view: str, picture: Picture) -> None:
    text = html(picture, TEAM, view, {})

    assert [name for name in HIDDEN if name in text] == []
    assert {"queues": "mine", "cards": "team/ours", "jobs": "team/waits"}[view] in text
    assert {"queues": "2 other queues are", "cards": "8 of 24", "jobs": "3 jobs of others"}[view] in text
    assert "secret" in html(picture, WHOLE, view, {}) or view == "queues"


@pytest.mark.slow(reason="hundreds of random inputs")
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(ALL),
    st.dictionaries(
        st.sampled_from(
            ["namespace", "queue", "reason", "text", "sort", "state", "model", "node", "holder", "page", "seen"]
        ),
        st.sampled_from(["secret", "holder", "theirs", "hush", "node-0", "s", "node", "2", "mine", "somebody", "a"]),
    ),
)
def test_no_filter_tells_more(view: str, filters: dict[str, str]) -> None:
    """Rows under a filter are rows without it, so nothing can be found out by asking for it."""
    text = html(_PICTURE, TEAM, view, filters)

    rows = set(re.findall(r'<tr id="[^"]*">', text))

    assert rows <= set(re.findall(r'<tr id="[^"]*">', html(_PICTURE, TEAM, view, {})))
    others = re.findall(r"\d+ jobs? of others", text)
    assert others == re.findall(r"\d+ jobs? of others", html(_PICTURE, TEAM, view, {}))


@pytest.fixture(autouse=True, scope="module")
def _shared(picture: Picture) -> None:
    global _PICTURE  # noqa: PLW0603 - hypothesis calls its test many times, and a fixture only once
    _PICTURE = picture


_PICTURE = Picture()


def test_messages_name_no_objects_of_others() -> None:
    said = 'pod "secret/a-0" goes before team/b: 0/5 nodes are available: 3 Insufficient nvidia.com/gpu'

    assert without_names(TEAM, said) == said.replace('pod "secret/a-0"', ANOTHER)
    assert without_names(WHOLE, said) == said


def test_differences_of_others_are_counted() -> None:
    own = PodDifference("team/a", "team/a", "mine", "evicted", "node-1", "evicted", "evicted for secret/b")
    other = PodDifference("secret/b", "secret/b", "hush", "starts", "waits (predicate)", "node-1", "")
    found = Difference({"evicted": 1, "starts": 1}, {"hush": {"starts": 1}}, {"secret/b": {"starts": 1}}, (own, other))

    shown, others = difference_for(TEAM, found)

    assert others == {"starts": 1}
    assert [(pod.pod, pod.before, pod.why) for pod in shown.pods] == [("team/a", "a node", f"evicted for {ANOTHER}")]
    assert "secret" not in repr(shown)
    assert "hush" not in repr(shown)


def test_namespaces_are_those_that_are_named(picture: Picture) -> None:
    assert picture.namespaces == {"team", "secret"}
