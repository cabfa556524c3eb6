"""Cards that are devices: what counts as one, what claims take of them, and that nodes are scored by them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plugins.fragmentation.arguments import DRIVERS, KNOWN_DRIVERS, check_arguments
from plugins.fragmentation.claims import ALL, Wanted
from plugins.fragmentation.device_cards import DeviceCards
from plugins.fragmentation.plugin import NAME
from plugins.fragmentation.selections import MOST_KINDS, Selections
from tests.framework.dra.worlds import asking, claim, device, device_class, exactly, first_of, held, part, taint_rule
from tests.plugins.fragmentation.device_worlds import (
    CLASS,
    IN_EIGHTHS,
    NVIDIA,
    a_random_world,
    gpus,
    of_model,
    of_profile,
    partitions,
    shareable,
    slices,
    template,
    using,
    with_own_claim,
)
from tests.plugins.fragmentation.worlds import CONFIGURATION, GPU, a_plain_rig, cards, demand_of
from volsched.cli import volsched
from volsched.framework.accounts.card_parts import PartRequest
from volsched.framework.engine.fast import FastEngine
from volsched.model.changes import Deleted
from volsched.registry import load_profile
from volsched.testing.builders import ClusterBuilder, a_cluster, put
from volsched.testing.contract import MakeEngine, engine_contract
from volsched.testing.naive import NaiveEngine
from volsched.testing.recount import faults

ALONE = 'actions: "allocate"\ntiers:\n- plugins: [{name: predicates}, {name: fragmentation}]\n'
TEN_GI: dict[str, Any] = {"shareID": "s", "consumedCapacity": {"memory": "10Gi"}}
OF_DRIVER = f'device.driver == "{NVIDIA}"'


def a_class() -> ClusterBuilder:
    return a_cluster().add(device_class(CLASS, driver=NVIDIA))


def known(world: ClusterBuilder, *drivers: str) -> tuple[DeviceCards, Selections]:
    """The devices of a cluster, and what requests mean there."""
    cluster = a_plain_rig(world, ALONE).cluster
    found = DeviceCards(cluster, drivers or KNOWN_DRIVERS)
    selections = Selections(cluster, found)
    selections.refresh()
    return found, selections


# -- what counts as a card --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "state"),
    [
        ([gpus("n", 2)], (100, 100)),
        ([gpus("n", 2), held("c", "gpu-0", pool="n", driver=NVIDIA)], (0, 100)),
        ([gpus("n", 2), held("c", "gpu-0", pool="n", driver=NVIDIA, adminAccess=True)], (100, 100)),
        ([gpus("n", 2, driver="dra.net")], ()),
        ([gpus("other", 2)], ()),
        ([slices("n", ["1g.10gb", "3g.40gb"])], (14, 42)),
        ([*partitions("n", 2)], (100, 100)),
        ([*partitions("n", 1), held("c", "d0-4-0", "d0-1-7", pool="p-n", driver=NVIDIA)], (37,)),
        ([*partitions("n", 1), held("c", "d0-8-0", pool="p-n", driver=NVIDIA)], (0,)),
        ([shareable("n", 1)], (100,)),
        (
            [shareable("n", 1), held("c", "v0", pool="v-n", driver=NVIDIA, **TEN_GI)],
            (75,),
        ),
        ([part("s", [device("d", more={"allowMultipleAllocations": True})], node="n", driver=NVIDIA)], ()),
        ([part("s", [device("d")], node="n", driver=NVIDIA, count=2)], ()),
        ([part("s", [device("d")], node=None, allNodes=True, driver=NVIDIA)], ()),
        ([gpus("n", 2), taint_rule("sick", driver=NVIDIA, device="gpu-1")], (100,)),
        ([gpus("n", 1), taint_rule("slow", effect="None", driver=NVIDIA)], (100,)),
    ],
)  # fmt: skip
def test_what_is_free_of_the_cards_of_a_node(objects: Sequence[dict[str, Any]], state: tuple[int, ...]) -> None:
    world = a_class().node("n").node("other")
    for found in objects:
        world.add(found)
    rig = a_plain_rig(world, ALONE)
    devices = DeviceCards(rig.cluster, KNOWN_DRIVERS)
    devices.refresh()

    assert devices.state(rig.cluster.nodes["n"]) == state
    assert devices.free.tolist()[0] == 10 * sum(state)


def test_slices_that_go_take_their_cards_along() -> None:
    world = a_class().node("n").add(gpus("n", 2))
    rig = a_plain_rig(world, ALONE)
    devices = DeviceCards(rig.cluster, KNOWN_DRIVERS)
    devices.refresh()
    before = devices.version

    rig.mirror.apply([Deleted("ResourceSlice", "", "s-n", "")])
    devices.refresh()

    assert not devices.is_any
    assert devices.version > before
    assert devices.state(rig.cluster.nodes["n"]) == ()


# -- what requests mean -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "count", "taken", "rows"),
    [
        (Wanted((OF_DRIVER,)), 2, PartRequest(2, 100), [0, 1, 2, 3]),
        (Wanted((OF_DRIVER, of_model("A100"))), 1, PartRequest(1, 100), [0, 1]),
        (Wanted((OF_DRIVER, of_model("A100"))), ALL, PartRequest(4, 100), [0, 1]),
        (Wanted((OF_DRIVER, of_model("none"))), ALL, None, []),
        (Wanted((OF_DRIVER, of_profile("3g.40gb"))), 1, PartRequest(1, 42), [1]),
        (Wanted((OF_DRIVER, IN_EIGHTHS.format(10))), 1, PartRequest(1, 12), [2]),
        (Wanted((OF_DRIVER, IN_EIGHTHS.format(80))), 1, PartRequest(1, 100), [2]),
        (Wanted((OF_DRIVER, of_model("T4")), (("memory", 10 << 30),)), 1, PartRequest(1, 25), [3]),  # type: ignore[arg-type]
        (Wanted((OF_DRIVER, of_model("T4")), (("memory", 50 << 30),)), 1, None, []),  # type: ignore[arg-type]
        (Wanted((OF_DRIVER, of_model("none"))), 1, None, []),
        (Wanted((OF_DRIVER, "no expression (")), 1, None, []),
    ],
)
def test_what_a_request_takes_of_a_card(wanted: Wanted, count: int, taken: PartRequest | None, rows: list[int]) -> None:
    world = a_class().node("a").node("b").node("c").node("d").add(gpus("a", 4)).add(slices("b", ["3g.40gb"]))
    for found in (*partitions("c", 1), shareable("d", 1)):
        world.add(found)

    selected = known(world)[1].of(wanted)

    assert selected.taken(count) == ((taken,) if taken else ())
    assert selected.rows.nonzero()[0].tolist() == rows


def test_a_selector_that_tells_every_device_apart_takes_any() -> None:
    world = a_class()
    for number in range(MOST_KINDS // 8 + 1):
        world.node(f"n{number:02}").add(gpus(f"n{number:02}", 8))
    by_serial = Wanted((OF_DRIVER, f'device.attributes["{NVIDIA}"].uuid == "n00-0"'))

    selected = known(world)[1].of(by_serial)

    assert selected.rows.all()


def test_what_there_was_no_time_for_is_asked_in_the_next_session() -> None:
    world = a_class().node("a").add(gpus("a", 1)).node("b").add(gpus("b", 1, "H100"))
    _, selections = known(world)
    seconds = iter(range(1_000))
    selections.begin(lambda: float(next(seconds)))
    wanted = Wanted((OF_DRIVER, of_model("H100")))
    before = selections.version

    assert selections.of(wanted).rows.tolist() == [True, True]
    selections.begin(lambda: 0.0)

    assert selections.of(wanted).rows.tolist() == [False, True]
    assert selections.version > before


# -- demand -----------------------------------------------------------------------------------------------------------


def shares(world: ClusterBuilder, configuration: str = ALONE) -> tuple[Any, Any]:
    """What is known of the demand after a session: by number of cards, and by percent of one."""
    rig = a_plain_rig(world, configuration)
    rig.cycle()
    return demand_of(rig).average_demand.blocks, demand_of(rig).average_demand.sizes


def test_claims_count_in_the_demand() -> None:
    world = a_class().node("a").add(gpus("a", 8)).add(slices("a", ["3g.40gb"]))
    with_own_claim(world, "two", exactly(count=2), cpu=1)
    with_own_claim(world, "all", exactly("r0", of_model("A100"), allocationMode="All"), cpu=1)

    assert shares(world) == (((2, 6), (8, 25)), ((40, 1),))


def test_the_first_alternative_counts_and_administrators_do_not() -> None:
    world = a_class().node("a").add(gpus("a", 8)).add(slices("a", ["3g.40gb"]))
    with_own_claim(world, "either", first_of("r0", asking("a", of_profile("3g.40gb")), asking("b", count=8)), cpu=1)
    with_own_claim(world, "admin", exactly(count=4, adminAccess=True), cpu=1)

    assert shares(world) == ((), ((40, 32),))


def test_a_claim_that_pods_share_counts_once() -> None:
    world = a_class().node("a").add(gpus("a", 8)).add(claim("c", exactly(count=4)))
    world.job("j", tasks=3, cpu=2, spec=using(c="c"))
    rig = a_plain_rig(world, ALONE)
    rig.cycle()

    assert demand_of(rig)._counted.sums.cards == 4_000
    assert demand_of(rig)._counted.sums.cpu == 2_000


def test_what_a_template_asks_for_counts_before_its_claim_is_made_and_when_it_changes() -> None:
    world = a_class().node("a").add(gpus("a", 8)).add(template("t", exactly(count=2)))
    world.pod("p", cpu=1, spec=using(made=["e"], e="t")).pod("q", cpu=1, spec=using(c="late"))
    rig = a_plain_rig(world, ALONE)
    found = []
    for changes in ([], [put(template("t", exactly(count=4)))], [put(claim("late", exactly(count=4)))]):
        rig.cycle(*changes)
        found.append(demand_of(rig)._counted.sums.cards)

    assert found == [2_000, 4_000, 8_000]


@pytest.mark.parametrize(
    ("statuses", "cards"),
    [([], 2_000), ([{"name": "e", "resourceClaimName": "not-seen-yet"}], 2_000), ([{"name": "e"}], 0)],
    ids=["not made", "made", "none is needed"],
)
def test_an_entry_counts_by_its_template_unless_it_needs_no_claim(statuses: list[dict[str, str]], cards: int) -> None:
    world = a_class().node("a").add(gpus("a", 8)).add(template("t", exactly(count=2)))
    status = {"phase": "Pending", "resourceClaimStatuses": statuses}
    world.pod("p", cpu=1, spec=using(made=["e"], e="t"), status=status)
    rig = a_plain_rig(world, ALONE)
    rig.cycle()

    assert demand_of(rig)._counted.sums.cards == cards


def test_models_that_some_insist_on_by_a_selector_are_scarce() -> None:
    world = a_class().node("a").add(gpus("a", 2)).node("h").add(gpus("h", 2, "H100"))
    with_own_claim(world, "insists", exactly("r0", of_model("H100"), count=2), cpu=1)
    rig = a_plain_rig(world, ALONE)
    rig.cycle()

    assert demand_of(rig).scarce.tolist() == [0.0, 2.0]


def test_devices_of_other_drivers_count_only_when_they_are_named() -> None:
    world = a_cluster().add(device_class()).node("a").add(gpus("a", 2, driver="gpu.example.com"))
    with_own_claim(world, "p", exactly(count=2), cpu=1)
    named = ALONE.replace(
        "{name: fragmentation}", '{name: fragmentation, arguments: {fragmentation.drivers: "gpu.example.com"}}'
    )

    assert shares(world) == ((), ())
    assert shares(world, named) == (((2, 32),), ())


# -- scores -----------------------------------------------------------------------------------------------------------


def lived(seed: int, engine: MakeEngine) -> list[dict[str, str]]:
    """Live through two sessions, between which some pods leave with their claims."""
    rig = a_plain_rig(a_random_world(seed), CONFIGURATION, engine)
    first = rig.cycle()
    left = sorted(first.bindings)[::3]
    gone = [Deleted("Pod", "default", name, f"pod-default-{name}") for name in left if name.startswith("p")]
    gone += [Deleted("ResourceClaim", "default", f"c-{name}", f"uid-c-{name}") for name in left]
    second = rig.cycle(*gone)
    assert faults(rig.cluster) == []
    return [first.bindings, second.bindings]


@pytest.mark.parametrize("seed", range(4))
def test_engines_agree_about_devices(seed: int) -> None:
    assert engine_contract(lambda engine: lived(seed, engine))[0]


def test_states_and_sorts_of_devices_may_be_forgotten_at_any_session(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lived(1, FastEngine)
    monkeypatch.setattr("plugins.fragmentation.device_cards._MOST_STATES", 1)
    monkeypatch.setattr("plugins.fragmentation.selections._MOST_SORTS", 0)

    assert engine_contract(lambda engine: lived(1, engine)) == expected


def test_scores_are_equal_to_the_bit_where_many_nodes_are_asked_at_once() -> None:
    world = a_cluster().add(device_class(CLASS, driver=NVIDIA, extendedResourceName=GPU))
    for number in range(60):
        name = f"n{number:02}"
        own = cards(4) if number % 7 == 0 else {}
        world.node(name, cpu=16 + number, memory=f"{64 + 3 * number}Gi", **own)
        if number % 5:
            world.add(gpus(name, 1 + number % 8, "A100" if number % 3 else "H100"))
            world.add(held(f"h{number}", "gpu-0", pool=name, driver=NVIDIA))
    with_own_claim(world, "claims", exactly(count=2), cpu=7, memory="9Gi")
    with_own_claim(world, "insists", exactly("r0", of_model("H100")), cpu=3)
    world.pod("extended", cpu=5, **{GPU: 2}).pod("plain", cpu=3)
    configuration = CONFIGURATION.replace("  - name: gang\n", "").replace("enqueue, allocate", "enqueue")

    found = []
    for engine in (FastEngine, NaiveEngine):
        rig = a_plain_rig(world, configuration.replace(", backfill", ""), engine)
        rig.cycle()
        tasks = {task.name: task for task in rig.cluster.tasks.values()}
        if engine is FastEngine:
            totals = {name: rig.scheduler.engine._entry(task).scores for name, task in tasks.items()}
            found.append({n: [float(t) for t in s.total if t > float("-inf")] for n, s in totals.items()})
        else:
            plain = {name: rig.scheduler.engine.scores(task) for name, task in tasks.items()}
            found.append({n: [sum(by.values()) for by in nodes.values()] for n, nodes in plain.items()})
            assert all(len({by[NAME] for by in nodes.values()}) > 5 for nodes in plain.values())

    assert found[0] == found[1]


def test_after_a_restart_the_same_is_known() -> None:
    world = a_random_world(3)
    rig, late = a_plain_rig(world, CONFIGURATION), a_plain_rig(world, CONFIGURATION)
    rig.cycle()
    pods = [m for m in world.objects if m["kind"] == "Pod"]
    claims = [m for m in world.objects if m["kind"] == "ResourceClaim"]

    late.mirror.apply(Deleted("Pod", "default", m["metadata"]["name"], m["metadata"]["uid"]) for m in pods)
    late.mirror.apply(Deleted("ResourceClaim", "default", m["metadata"]["name"], m["metadata"]["uid"]) for m in claims)
    late.cycle()
    late.cycle(*[put(m) for m in reversed(pods)])
    late.cycle(*[put(m) for m in reversed(claims)])

    assert demand_of(late).average_demand.blocks
    assert demand_of(late).average_demand == demand_of(rig).average_demand
    assert demand_of(late).scarce.tolist() == demand_of(rig).scarce.tolist()


def placed(world: ClusterBuilder, configuration: str = ALONE) -> dict[str, str]:
    return a_plain_rig(world, configuration).cycle().bindings


def test_pods_without_cards_leave_devices_their_cpu() -> None:
    world = a_class().node("a-cards", cpu=64).add(gpus("a-cards", 8)).node("b-none", cpu=64).pod("plain", cpu=4)

    assert placed(world) == {"plain": "b-none"}


def test_who_takes_any_model_leaves_the_one_that_others_insist_on() -> None:
    world = a_class().node("a").add(gpus("a", 2, "H100")).node("b").add(gpus("b", 2))
    with_own_claim(world, "any", exactly(), cpu=1)
    with_own_claim(world, "insists", exactly("r0", of_model("H100"), count=2), cpu=1)

    assert placed(world) == {"any": "b", "insists": "a"}


def test_extended_resources_that_devices_serve_do_not_break_an_empty_node() -> None:
    world = a_cluster().add(device_class(CLASS, driver=NVIDIA, extendedResourceName=GPU))
    for name in ("a-empty", "b-begun"):
        world.node(name, cpu=96).add(gpus(name, 8))
    world.add(held("used", *(f"gpu-{n}" for n in range(4)), pool="b-begun", driver=NVIDIA))
    world.pod("small", cpu=8, **cards(1)).pod("whole", cpu=8, **cards(8))

    assert placed(world) == {"small": "b-begun", "whole": "a-empty"}


def test_a_partition_goes_on_a_card_that_is_begun() -> None:
    world = a_class()
    for name in ("a-whole", "b-begun"):
        world.node(name, cpu=64)
        for found in partitions(name, 1):
            world.add(found)
    world.add(held("used", "d0-4-0", pool="p-b-begun", driver=NVIDIA))
    with_own_claim(world, "half", exactly("r0", IN_EIGHTHS.format(40)), cpu=1)
    with_own_claim(world, "whole", exactly("r0", IN_EIGHTHS.format(80)), cpu=1)

    assert placed(world) == {"half": "b-begun", "whole": "a-whole"}


def test_a_claim_that_has_its_devices_takes_no_more() -> None:
    world = a_class().node("a", cpu=64).add(gpus("a", 4)).node("b", cpu=64)
    own = {**held("c", "gpu-0", pool="a", driver=NVIDIA), "metadata": {"name": "c", "namespace": "default", "uid": "c"}}
    world.add(own).pod("p", cpu=1, spec=using(c="c"))
    rig = a_plain_rig(world, ALONE.replace("allocate", "enqueue"))
    rig.cycle()
    [task] = rig.cluster.tasks.values()

    found = rig.scheduler.engine.scores(task)

    assert demand_of(rig)._devices.claims.still_to_allocate(task) == ()
    assert found["b"][NAME] > found["a"][NAME]


def test_nodes_and_slices_that_come_later_count() -> None:
    world = a_class().node("m", cpu=64)
    with_own_claim(world, "p", exactly(count=2), cpu=1)
    rig = a_plain_rig(world, ALONE)
    rig.cycle()
    came = a_cluster().node("a", cpu=64).add(gpus("a", 8)).node("z", cpu=64).add(gpus("z", 2))

    second = rig.cycle(*came.changes())

    assert demand_of(rig).average_demand.blocks == ((2, 32),)
    assert second.bindings == {"p": "z"}


def test_devices_of_a_pool_of_several_nodes_are_looked_at_again_when_claims_go() -> None:
    world = a_class().node("a", cpu=64).node("b", cpu=64)
    names = [device(f"of-{name}", more={"nodeName": name}) for name in "ab"]
    world.add(part("s", names, node=None, pool="p", driver=NVIDIA, perDeviceNodeSelection=True))
    world.add(held("on-a", "of-a", pool="p", driver=NVIDIA)).pod("first", cpu=1)
    rig = a_plain_rig(world, ALONE)

    first = rig.cycle()
    gone, came = Deleted("ResourceClaim", "default", "on-a", "uid-on-a"), held("on-b", "of-b", pool="p", driver=NVIDIA)
    second = rig.cycle(gone, put(came), *a_cluster().pod("second", cpu=1).changes())

    assert first.bindings == {"first": "a"}
    assert second.bindings == {"second": "b"}


def test_equal_pods_with_other_claims_are_told_apart() -> None:
    world = a_class().node("a", cpu=96).add(gpus("a", 8)).node("b", cpu=96).add(gpus("b", 4))
    with_own_claim(world, "one", exactly(), cpu=1)
    with_own_claim(world, "four", exactly(count=4), cpu=1)
    rig = a_plain_rig(world, 'actions: "enqueue"\ntiers:\n- plugins: [{name: fragmentation}]\n')
    rig.cycle()
    one, four = sorted(rig.cluster.tasks.values(), key=lambda task: task.name, reverse=True)
    engine = rig.scheduler.engine
    assert one.template is four.template

    found = [engine._entry(task).scores.total.tolist() for task in (one, four)]

    assert found == [[by[NAME] for by in engine.scores(task).values()] for task in (one, four)]
    assert found[0] != found[1]


# -- what people see --------------------------------------------------------------------------------------------------


def a_full_world() -> ClusterBuilder:
    """Two nodes of eight devices, one of two with more CPU; small pods come before those that want whole nodes."""
    world = a_class().node("a-large", cpu=96, memory="512Gi").node("b-large", cpu=96, memory="512Gi")
    world.add(gpus("a-large", 8)).add(gpus("b-large", 8)).node("c-two", cpu=128, memory="768Gi").add(gpus("c-two", 2))
    for number in range(2):
        with_own_claim(world, f"a-one-{number}", exactly(), cpu=8, memory="16Gi")
    for number in range(2):
        with_own_claim(world, f"whole-{number}", exactly(count=8), cpu=64, memory="128Gi")
    return world


def ran(verb: str, world: ClusterBuilder, tmp_path: Path, configuration: str, *flags: str) -> dict[str, Any]:
    """What a verb says of a cluster in manifests."""
    (tmp_path / "world.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": world.objects}))
    (tmp_path / "scheduler.conf").write_text(configuration)
    given = ["-f", str(tmp_path / "world.json"), "--config", str(tmp_path / "scheduler.conf"), "-o", "json", *flags]
    found: dict[str, Any] = json.loads(CliRunner().invoke(volsched, [verb, *given]).stdout)
    return found


@pytest.mark.parametrize(
    "other", ["name: nodeorder", "name: binpack", "name: fragmentation, arguments: {fragmentation.drivers: []}"]
)
def test_simulate_gives_more_devices_out_with_it(tmp_path: Path, other: str) -> None:
    without = ran("simulate", a_full_world(), tmp_path, ALONE.replace("name: fragmentation", other))
    with_it = ran("simulate", a_full_world(), tmp_path, ALONE)
    before = ran("cards", a_full_world(), tmp_path, ALONE, "--stranded")

    assert len(without["binds"]) < len(with_it["binds"]) == 4
    assert before["strandedCards"][0]["free"] == before["strandedCards"][0]["cards"] == 18
    assert with_it["cards"][0]["free"] == 0


def test_stranded_cards_are_told_by_the_model_that_the_driver_states() -> None:
    world = a_class()
    for name in ("a", "b"):
        world.node(name, cpu=96).add(gpus(name, 8)).add(
            held(f"h-{name}", *(f"gpu-{n}" for n in range(4)), pool=name, driver=NVIDIA)
        )
    with_own_claim(world, "w", exactly(count=8), cpu=4)
    report = a_plain_rig(world, ALONE).cycle().report
    found = {series.name: dict(numbers) for series, numbers in report.series}

    assert found["volsched_cards"] == {("A100",): 16.0}
    assert found["volsched_cards_free"] == {("A100",): 8.0}
    assert found["volsched_cards_stranded"][("A100", "scattered")] == 8.0


def test_devices_of_a_model_that_no_waiting_claim_takes_are_told() -> None:
    world = a_class().node("a", cpu=96).add(gpus("a", 2))
    with_own_claim(world, "waits", exactly("r0", of_model("H100")), cpu=4)
    world.node("h", cpu=96).add(gpus("h", 1, "H100")).add(held("used", "gpu-0", pool="h", driver=NVIDIA))
    report = a_plain_rig(world, ALONE).cycle().report
    found = {series.name: dict(numbers) for series, numbers in report.series}

    assert found["volsched_cards_stranded"][("A100", "model")] == 2.0


@pytest.mark.parametrize("name", ["GPU.nvidia.com", "gpu.nvidia.com/", "a b", "x" * 64])
def test_what_cannot_be_a_driver_is_refused(name: str) -> None:
    [problem] = check_arguments({DRIVERS: (name,)})

    assert problem.severity == "error"
    assert f'"{name}", which cannot be a DRA driver' in problem.message


def test_no_driver_may_be_named() -> None:
    text = ALONE.replace("{name: fragmentation}", "{name: fragmentation, arguments: {fragmentation.drivers: []}}")
    world = a_class().node("a").add(gpus("a", 8))
    with_own_claim(world, "two", exactly(count=2), cpu=1)

    assert not load_profile(text)[1]
    assert shares(world, text) == ((), ())
