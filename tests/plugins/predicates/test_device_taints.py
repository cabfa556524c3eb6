"""DeviceTaintRules in sessions: a rule that comes keeps pods off, and one that goes lets them in."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.dra.worlds import claim, exactly, taint_rule
from tests.plugins.predicates.test_devices import CONFIGURATION, ENGINES, a_world, cards, chosen, using
from volsched.model.changes import Deleted
from volsched.testing.builders import a_rig, put


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pod_waits_for_as_long_as_a_rule_taints_what_it_could_have(engine: Any) -> None:
    cluster = a_world(cards("n1", "d1"), cards("n2", "d1"), claim("c", exactly()), taint_rule("r", device="d1"))
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION, engine)

    first = rig.cycle()
    assert first.bindings == {}
    assert "2 cannot allocate all claims, leaving out devices with untolerated taint" in first.waiting["a-0"]
    assert rig.cycle(put(taint_rule("r", pool="n1"))).bindings == {"a-0": "n2"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rule_that_goes_lets_the_pod_in(engine: Any) -> None:
    cluster = a_world(cards("n1", "d1"), claim("c", exactly()), taint_rule("r"), nodes=("n1",))
    cluster.job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION, engine)
    assert rig.cycle().bindings == {}

    after = rig.cycle(Deleted("DeviceTaintRule", "", "r", "uid-r"))

    assert after.bindings == {"a-0": "n1"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_rule_that_comes_between_two_sessions_counts_in_the_second(engine: Any) -> None:
    objects = (cards("n1", "d1", "d2"), *(claim(name, exactly()) for name in ("c", "d")))
    cluster = a_world(*objects, nodes=("n1",)).job("a", cpu="1", spec=using("c"))
    rig = a_rig(cluster, CONFIGURATION, engine)
    assert chosen(rig.cycle()) == {"a-0": ["n1/d1"]}

    pod = a_world().job("b", cpu="1", spec=using("d"))
    second = rig.cycle(put(taint_rule("r", pool="n1", device="d2")), *pod.changes())

    assert second.bindings == {}
    assert "leaving out devices with untolerated taint" in second.waiting["b-0"]
