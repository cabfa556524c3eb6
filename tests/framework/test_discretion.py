"""Words on an object of a namespace name nothing of another one, and leave everything else as it is."""

from __future__ import annotations

import pytest

from tests.actions.rigs import cycle, rig
from volsched.framework.redaction import within, without
from volsched.testing.builders import Rig, a_cluster

CONF = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n'


def made() -> Rig:
    return rig(a_cluster().queue("q").group("hog", "q").group("group/own", "q"), CONF)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 node(s) were reserved for default/hog.", '1 node(s) were reserved for a job of queue "q".'),
        ('PodGroup "default/hog" waits', 'a job of queue "q" waits'),
        ('pod "else/p-0": its annotation', "another job: its annotation"),
        ("0/6 nodes are available: 3 Insufficient nvidia.com/gpu", None),
        ("2 Insufficient deviceclass/gpu", None),
        ('pod "mine/p" waits for mine/g', None),
        ("cpu/memory and requests/limits", None),
        ("{volcano.sh/card: a/b}", None),
        ("", None),
    ],
)
def test_keys_of_other_namespaces_alone_are_replaced(text: str, said: str | None) -> None:
    on = made()
    cycle(on)
    assert within(on.mirror.cluster, "mine", text) == (text if said is None else said)
    assert within(on.mirror.cluster, "default", "default/hog") == "default/hog"


def test_without_a_cluster_whatever_looks_like_a_key_is_one() -> None:
    text = "reserved for a/b; 0/3 nodes; deviceclass/gpu; x/y"
    assert without(text, lambda each: each == "x") == "reserved for another job; 0/3 nodes; deviceclass/gpu; x/y"
    assert without("c/d", lambda _: False, {"c/d"}) == "c/d"
