"""Gangs of pods with claims for devices, with nothing at all, or with claims and cpu: whole or not at all."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.framework.dra.worlds import claim, device_class, exactly
from tests.plugins.predicates.test_devices import using
from tests.plugins.test_devices_alone import BY_CLASS, conf, devices, quota
from tests.properties.lives import Property, Scenario
from volsched.model.changes import Change
from volsched.model.job import INQUEUE
from volsched.model.plan import Bind, PlanStep
from volsched.testing.builders import ClusterBuilder, a_cluster


class Attempt(Scenario):
    """One session with a gang."""

    sessions = 1

    def __init__(self, configuration: str, cluster: ClusterBuilder, minimum: int, wanting_nothing: int) -> None:
        self.configuration, self.cluster = configuration, cluster
        self.minimum, self.wanting_nothing = minimum, wanting_nothing

    def __repr__(self) -> str:
        listed = "\n".join(json.dumps(item) for item in self.cluster.objects)
        return f"{self.configuration}\n{listed}"

    def changes(self) -> list[Change]:
        return self.cluster.changes()


@st.composite
def gangs(draw: st.DrawFn) -> Attempt:
    """Some nodes with devices, and a gang of pods with a claim, with nothing at all, or with both and cpu."""
    nodes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    members = draw(st.lists(st.sampled_from(["claim", "claim", "claim", "nothing", "cpu"]), min_size=1, max_size=6))
    minimum = draw(st.integers(1, len(members)))
    cluster = a_cluster().add(device_class()).queue("q", **quota(draw(st.integers(0, 6))))
    for number, count in enumerate(nodes):
        cluster.node(f"n{number}", cpu=draw(st.integers(0, 2)))
        if count:
            cluster.add(devices(count, f"n{number}"))
    cluster.group("gang", "q", minimum, draw(st.sampled_from(["Pending", INQUEUE])))
    for number, asks in enumerate(members):
        spec = {} if asks == "nothing" else using(f"c{number}")
        cluster.add(claim(f"c{number}", exactly()))
        cluster.pod(f"p{number}", "gang", spec=spec, **({"cpu": 1} if asks == "cpu" else {}))
    text = draw(
        st.sampled_from([BY_CLASS, conf("capacity-dra", "proportion"), conf("capacity-dra", actions="allocate")])
    )
    return Attempt(text, cluster, minimum, members.count("nothing"))


class WholeGang(Property):
    """No pod is bound that wants something, unless the minimum has room; the condition tells which of them it is."""

    of_every_reader = True
    scenario: Attempt

    def after(self, steps: list[PlanStep]) -> None:
        bound = [self.cluster.tasks[step.uid] for step in steps if isinstance(step, Bind)]
        asking = [task for task in bound if not task.best_effort]
        is_whole = len(asking) + self.scenario.wanting_nothing >= self.scenario.minimum
        conditions = [(c.type, c.status) for c in self.cluster.jobs["default/gang"].conditions]
        assert not asking or is_whole
        assert (conditions == [("Scheduled", "True")]) == is_whole
