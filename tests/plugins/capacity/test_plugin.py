"""The plugin in whole sessions: what it is told, what it tells, and what comes along with it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.rigs import conf, phases
from tests.framework.dra.worlds import claim, device, device_class, exactly, part
from tests.plugins.capacity.desk import a_world, tree_conf
from tests.plugins.predicates.test_devices import using
from volsched.framework.config.loading import ConfigurationError
from volsched.model.plan import RecordEvent
from volsched.model.values.series import Numbers
from volsched.registry import load_configuration, load_profile
from volsched.testing.builders import ClusterBuilder, CycleDecision, a_cluster, a_node, a_queue, a_rig, put

# -- configuration ----------------------------------------------------------------------------------------------------


def entry(**said: Any) -> str:
    lines = "".join(f"    {key}: {value}\n" for key, value in said.items())
    return f"actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n{lines}"


def test_a_level_below_0_counts_as_0_with_a_warning_as_with_volcano() -> None:
    loaded = load_configuration(entry(arguments="{ancestorReclaimLevel: -1}"))

    assert loaded.configuration.tiers[0][0].arguments["ancestorReclaimLevel"] == 0
    assert ["ancestorReclaimLevel" in problem.key for problem in loaded.warnings] == [True]


def test_quotas_of_devices_come_along_under_its_switches() -> None:
    loaded = load_configuration(entry(enableHierarchy="true", enabledAllocatable="false"))

    capacity, devices = loaded.configuration.tiers[0]
    assert (capacity.name, devices.name) == ("capacity", "capacity-dra")
    assert devices.switches == capacity.switches == {"enableHierarchy": True, "enabledAllocatable": False}
    assert loaded.warnings == ()


def test_volcanos_arguments_for_devices_are_theirs() -> None:
    text = entry(arguments='{capacity.DynamicResourceAllocationEnable: "true", ancestorReclaimLevel: 1}')

    capacity, devices = load_configuration(text).configuration.tiers[0]

    assert dict(capacity.arguments) == {"ancestorReclaimLevel": 1}
    assert devices.given == {"capacity.DynamicResourceAllocationEnable"}


def test_where_they_are_listed_they_stay_and_hear_what_is_said_here() -> None:
    text = entry(arguments="{draStrictCapacity: true}") + "- plugins:\n  - name: capacity-dra\n"

    tiers = load_configuration(text).configuration.tiers

    assert [[option.name for option in tier] for tier in tiers] == [["capacity"], ["capacity-dra"]]
    assert tiers[1][0].arguments["draStrictCapacity"] is True


def test_it_contradicts_capacity_card_and_stands_beside_proportion() -> None:
    load_profile(conf("allocate", "capacity proportion"))
    with pytest.raises(ConfigurationError, match="capacity-card and capacity contradict each other"):
        load_profile(conf("allocate", "capacity capacity-card"))


def test_beside_proportion_both_have_to_agree() -> None:
    given = a_world(capability={"cpu": "3"}).queue("idle", weight=9)

    bound = a_rig(given, conf("allocate", "gang", "predicates capacity proportion")).cycle().bindings

    assert sorted(bound) == [*(f"other-{n}" for n in range(4))]  # a gang of four: three would not do


# -- devices ----------------------------------------------------------------------------------------------------------


def with_devices(quota: dict[str, Any]) -> ClusterBuilder:
    """Two devices, two pods of q that want one each."""
    given = a_cluster().node("n1").queue("q", **quota)
    for item in (device_class("gpu"), part("n1", [device("gpu-0"), device("gpu-1")])):
        given.add(item)
    for name in ("a", "b"):
        given.add(claim(name, exactly("gpu")))
        given.group(name, "q").pod(name, name, spec=using(name), cpu=1)
    return given


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ({}, 2),
        ({"dra": {"capability": {"gpu": {"count": 1}}}}, 1),
        ({"capability": {"deviceclass/gpu": "1"}}, 1),
        ({"guarantee": {"resource": {"deviceclass/gpu": "1"}}}, 2),
    ],
)
def test_quotas_of_devices_are_kept_without_naming_their_plugin(quota: dict[str, Any], expected: int) -> None:
    decision = a_rig(with_devices(quota), conf("enqueue, allocate", "gang", "predicates capacity")).cycle()

    assert len(decision.bindings) == expected


def test_they_are_not_where_volcanos_argument_says_so() -> None:
    given = with_devices({"capability": {"deviceclass/gpu": "1"}})
    text = conf("enqueue, allocate", "gang", "predicates capacity")
    off = "  - name: capacity\n    arguments: {capacity.DynamicResourceAllocationEnable: false}"

    assert len(a_rig(given, text.replace("  - name: capacity", off)).cycle().bindings) == 2


def test_a_later_tier_is_heard_about_jobs_that_say_no_minimum_of_resources() -> None:
    given = with_devices({"capability": {"deviceclass/gpu": "1"}})
    for item in given.objects:
        if item["kind"] == "PodGroup":
            item["status"]["phase"] = "Pending"

    decision = a_rig(given, conf("enqueue", "capacity", "capacity-dra predicates")).cycle()

    assert sorted(phases(decision).values()) == ["Inqueue", "Pending"]


# -- what is told -----------------------------------------------------------------------------------------------------


def told(decision: CycleDecision) -> list[tuple[str, str]]:
    """What is told of queues."""
    return [
        (step.name, step.message)
        for step in decision.steps
        if isinstance(step, RecordEvent) and step.kind == "Queue" and step.reason == "InvalidQueueHierarchy"
    ]


def test_what_is_wrong_with_a_hierarchy_is_told_on_queues_and_once() -> None:
    given = a_cluster().node("n1").queue("x", capability={"cpu": "2"})
    given.queue("y", parent="x", capability={"cpu": "3"}).queue("stray", parent="nowhere")
    rig = a_rig(given, tree_conf("allocate", "capacity"))

    first, second = told(rig.cycle()), told(rig.cycle())
    mended = told(rig.cycle(put(a_queue("nowhere"))))
    third = told(rig.cycle(put(a_queue("y", parent="x", capability={"cpu": "4"}))))

    assert sorted(first) == [
        ("stray", 'its parent "nowhere" does not exist; it takes no work'),
        ("y", 'spec.capability[cpu]: 3 is more than 2, the capability of "x"; the smaller counts'),
    ]
    assert second == mended == []
    assert third == [("y", 'spec.capability[cpu]: 4 is more than 2, the capability of "x"; the smaller counts')]


def test_without_a_hierarchy_parents_do_not_matter() -> None:
    given = a_cluster().node("n1", cpu=4).queue("stray", parent="nowhere").job("some", 1, queue="stray", cpu=1)

    decision = a_rig(given, conf("allocate", "capacity")).cycle()

    assert (told(decision), sorted(decision.bindings)) == ([], ["some-0"])


def limits(decision: CycleDecision) -> Numbers:
    [(_, numbers)] = [found for found in decision.report.series if found[0].name == "volsched_queue_limit"]
    return numbers


def test_what_queues_may_have_is_shown_as_far_as_it_is_limited() -> None:
    given = a_cluster().node("n1", cpu=4, memory="8Gi", pods=10).queue("x", capability={"cpu": "2"})
    given.queue("y", parent="x", guarantee={"resource": {"cpu": "500m"}}).queue("z", parent="x")

    flat, tree = (a_rig(given, make("allocate", "capacity")).cycle() for make in (conf, tree_conf))

    assert limits(flat)["x", "cpu"] == 2.0
    assert limits(flat)["z", "memory"] == 8.0 * 1024**3
    assert limits(tree) == {("x", "cpu"): 2.0, ("y", "cpu"): 2.0, ("z", "cpu"): 1.5}


def test_a_new_limit_counts_in_the_next_session() -> None:
    rig = a_rig(a_world(capability={"cpu": "2"}), conf("allocate", "gang", "predicates capacity"))
    first = rig.cycle()

    second = rig.cycle(put(a_queue("q", capability={"cpu": "4"})))

    assert sorted(first.bindings) == [f"other-{number}" for number in range(4)]
    assert sorted(second.bindings) == [f"more-{number}" for number in range(4)]


def test_dues_are_made_anew_only_when_something_changed_that_they_are_made_from() -> None:
    rig = a_rig(a_world(), conf("allocate", "gang", "predicates capacity"))
    first, second = limits(rig.cycle()), limits(rig.cycle())

    third = limits(rig.cycle(put(a_node("n2", cpu=1))))

    assert first is second
    assert third["q", "cpu"] == first["q", "cpu"] + 1
