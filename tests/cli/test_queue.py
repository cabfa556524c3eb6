"""``volsched queue`` on manifests: tables, the form for programs, the configuration that counts, wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.calls import call, text_of, written
from tests.plugins.capacity_card.nodes import card_node
from tests.plugins.capacity_card.test_usage import CARDS, asking, member, seen, team
from tests.plugins.capacity_card.test_validation import TEXTS
from tests.simulation.clusters import Manifest, group, workload
from volsched.cli.views import queues as queue_view
from volsched.model.queues.allowed_namespaces import ALLOWED_NAMESPACES
from volsched.text_page import plain

WORLD = (
    card_node("a1", "A"),
    card_node("a2", "A"),
    team("vision", {"A": 6, "X": 2}, capability={"cpu": "10"}),
    team("language", {"A": 12}, parent="root"),
    group("serve", q="vision", phase="Running", minResources={"cpu": "1"}),
    member("serve-0", "serve", "A", on="a1", count=3),
    member("serve-1", "serve", "A", on="a2", count=1),
    member("serve-2", "serve", "A"),
    asking("train", {"A": 1}, q="vision"),
)
SPARING = CARDS.replace("{name: capacity-card}", "{name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}")


def config_map(text: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volsched-config"},
        "data": {"volsched.conf": text},
    }


def queue(*args: str | Path, world: tuple[Manifest, ...] = WORLD) -> Any:
    return call("queue", *args, "-f", "-", given=text_of(*world))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def shown(*args: str | Path, world: tuple[Manifest, ...] = WORLD) -> Any:
    answer = queue(*args, "-o", "json", world=world)
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def test_list_shows_each_card_of_each_queue_and_each_card_of_the_cluster() -> None:
    found = rows(queue("list").stdout)

    assert found[1] == ["QUEUE", "STATE", "RESOURCE", "QUOTA", "USED", "RESERVED", "HEADROOM"]
    assert ["vision", "Open", "A", "6", "4", "1", "1"] in found
    assert ["vision", "Open", "cpu", "10", "2", "0", "9"] in found
    assert ["language", "Open", "A", "12", "0", "0", "12"] in found
    assert ["default", "Open", *"-----"] in found
    assert ["A", "16", "12", "4", "18", "over-committed", "by", "2"] in found
    assert ["X", "0", "0", "0", "2", "no", "node", "offers", "it"] in found


def test_list_for_programs_has_whole_cards_and_quantities() -> None:
    found = shown("list")

    assert (found["apiVersion"], found["kind"]) == ("volsched.io/v1alpha1", "QueueUsage")
    vision = found["queues"]["vision"]
    assert vision["cards"]["A"] == {"quota": 6, "used": 4, "reserved": 1, "headroom": 1}
    assert vision["cpu"] == {"quota": "10", "used": "2", "reserved": "0", "headroom": "9"}
    assert found["cards"]["A"] == {"total": 16, "idle": 12, "quota": 18, "used": 4}
    assert found["queues"]["language"]["parent"] == "root"
    assert yaml.safe_load(queue("list", "-o", "yaml").stdout) == found


def test_describe_shows_who_holds_what_where_and_what_is_wrong() -> None:
    said = queue("describe", "vision").stdout
    found = rows(said)

    assert found[0] == ["Name:", "vision"]
    assert ["A", "6", "4", "1", "1", "16", "12"] in found
    assert ["default", "PodGroup/train", "Inqueue", "-", "1", "A", "-", "-"] in found
    assert "default    PodGroup/serve  Running  4 A, cpu 2  -         1 A        2 on a1, a2; 1 waiting" in said
    assert 'Queue/vision: metadata.annotations[volcano.sh/card.quota]["X"]: no node offers the card "X"' in said


def test_describe_for_programs_has_jobs_with_their_pods_and_problems() -> None:
    found = shown("describe", "vision", "language")

    assert list(found["queues"]) == ["language", "vision"]
    serve = found["queues"]["vision"]["jobs"]["default/serve"]
    assert serve["used"] == {"A": 4, "cpu": "2"}
    assert (serve["reserved"], serve["waitsFor"]) == ({}, {"A": 1}), "it waits for more than it starts with"
    assert serve["waitingPods"] == 1
    assert serve["pods"] == [
        {"pod": "default/serve-0", "node": "a1", "card": "A", "cards": 3},
        {"pod": "default/serve-1", "node": "a2", "card": "A", "cards": 1},
    ]
    assert found["queues"]["language"]["jobs"] == {}
    assert found["queues"]["language"]["problems"] == []
    assert len(found["queues"]["vision"]["problems"]) == 1


def test_describe_tells_what_is_wrong_in_annotations_of_jobs_and_pods() -> None:
    broken = asking("train", {}, q="vision")
    broken["metadata"]["annotations"]["volcano.sh/card.request"] = "[]"
    world = (*WORLD[:-1], broken, member("train-0", "train", "Y"))

    said = shown("describe", "vision", world=world)["queues"]["vision"]["problems"]

    objects = [problem.split(":")[0] for problem in said]
    assert objects == ["Queue/vision", "PodGroup/default/train", "Pod/default/train-0"]


def test_a_queue_without_jobs_says_so() -> None:
    assert "No job holds or waits for anything." in queue("describe", "language").stdout


def test_pods_that_controllers_would_make_wait_as_in_a_simulation() -> None:
    annotations = {"volcano.sh/card.name": "A", "scheduling.volcano.sh/queue-name": "language"}
    web = workload("Deployment", "web", 2, template_annotations=annotations)
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2}}

    jobs = shown("describe", "language", world=(*WORLD, web))["queues"]["language"]["jobs"]

    assert [(job["waitsFor"], job["waitingPods"]) for job in jobs.values()] == [({"A": 4}, 2)]


# --- which configuration counts -------------------------------------------------------------------------------------


def test_arguments_of_the_configuration_decide_what_counts(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(SPARING)

    for found in (shown("list", "--config", file), shown("list", world=(*WORLD, config_map(SPARING)))):
        assert found["arguments"]["cardUnlimitedCpuMemory"] is True
        assert found["queues"]["vision"]["cpu"]["used"] == "0"


def test_the_page_says_whose_arguments_count() -> None:
    assert "Counted with the defaults of capacity-card" in queue("list").stdout
    assert "defaults" not in queue("list", world=(*WORLD, config_map(SPARING))).stdout


def test_a_configuration_without_capacity_card_is_warned_of() -> None:
    answer = queue("list", world=(*WORLD, config_map(CARDS.replace(", {name: capacity-card}", ""))))

    assert answer.exit_code == 0
    assert "does not use capacity-card, so quotas of cards limit nobody" in answer.stderr


# --- wrong input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("describe", "vison"), 1, "there is no queue 'vison'; did you mean 'vision'?"),
        (("describe", "zzz"), 1, "there is no queue 'zzz'; there are default, language, root, vision"),
        (("describe",), 2, "Missing argument 'QUEUE...'"),
        (("list", "--scheduler-configmap", "a/b"), 2, "with -f, give --config FILE"),
        (("list", "--config", "/nowhere"), 2, "there is no such file or folder"),
        (("list", "--master", "https://x"), 2, "-f reads manifests and --master a cluster"),
        (("lst",), 2, "No such command 'lst'"),
    ],
)
def test_wrong_arguments_are_answered_with_the_way_out(args: tuple[str, ...], code: int, said: str) -> None:
    answer = queue(*args) if args != ("lst",) else call("queue", "lst")

    assert (answer.exit_code, answer.stdout) == (code, "")
    assert said in answer.stderr


@pytest.mark.parametrize("verb", [("queue", "list"), ("run",)], ids="-".join)
@pytest.mark.parametrize("named", ["config", "/config", "volsched-system/", "a/b/c"])
def test_a_configmap_that_is_no_object_is_refused_wherever_it_is_named(verb: tuple[str, ...], named: str) -> None:
    answer = call(*verb, "--scheduler-configmap", named)

    assert answer.exit_code == 2
    assert "--scheduler-configmap must be NAMESPACE/NAME" in answer.stderr


def test_a_wrong_configuration_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(SPARING.replace("cardUnlimitedCpuMemory: true", "cardUnlimitedCpu: true"))

    answer = queue("list", "--config", file)

    assert answer.exit_code == 2
    assert "did you mean cardUnlimitedCpuMemory?" in answer.stderr


def test_wrong_manifests_are_refused(tmp_path: Path) -> None:
    answer = call("queue", "list", "-f", written(tmp_path, {"kind": "Queu", "apiVersion": "v1"}))

    assert answer.exit_code == 2
    assert "did you mean Queue?" in answer.stderr


@pytest.mark.parametrize("verb", ["list", "describe"])
def test_help_teaches(verb: str) -> None:
    said = call("queue", verb, "-h").stdout

    assert "Examples:" in said
    assert "Exit status:" in said
    assert "\x08" not in said


# --- who may use a queue ---------------------------------------------------------------------------------------------


def permitting(name: str, rule: str, **spec: Any) -> Manifest:
    found = team(name, **spec)
    found["metadata"]["annotations"] = {ALLOWED_NAMESPACES: rule}
    return found


def used_by(*world: Manifest, of: str = "q") -> str:
    """What the page of a queue says of that, in one line."""
    page = queue("describe", of, world=world).stdout
    return " ".join(page.partition("Used by: ")[2].partition("\n\n")[0].split())


def test_describe_says_who_may_use_a_queue_either_way() -> None:
    assert used_by(team("q")) == "every namespace (no annotation volsched.io/allowed-namespaces)"
    assert used_by(permitting("q", "vision,lab")) == "namespaces lab, vision"
    assert used_by(permitting("q", "team=ml")) == "namespaces with labels team=ml"
    assert used_by(permitting("q", "*")) == (
        "nobody, as volsched.io/allowed-namespaces cannot be read: '*' is no name of a namespace"
    )
    leaf, above = permitting("q", "lab", parent="all"), permitting("all", "team=ml", parent="root")
    assert used_by(leaf, above) == 'namespace lab and, by queue "all" above it: namespaces with labels team=ml'


def test_programs_are_told_who_may_use_a_queue_either_way() -> None:
    leaf, above = permitting("q", "vision, lab", parent="all"), permitting("all", "team=ml", parent="root")
    found = shown("describe", "q", "all", "free", world=(leaf, above, permitting("odd", "*"), team("free")))["queues"]

    of_all = {"queue": "all", "names": [], "selector": "team=ml", "problem": None}
    assert found["free"]["allowedNamespaces"] is None
    assert found["all"]["allowedNamespaces"] == [of_all]
    assert found["q"]["allowedNamespaces"] == [
        {"queue": "q", "names": ["lab", "vision"], "selector": None, "problem": None},
        of_all,
    ]
    [odd] = shown("describe", "odd", world=(permitting("odd", "*"),))["queues"]["odd"]["allowedNamespaces"]
    assert odd == {"queue": "odd", "names": [], "selector": None, "problem": "'*' is no name of a namespace"}


# --- any input ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    quota=TEXTS, request=TEXTS, name=TEXTS, product=st.text(max_size=12), memory=st.sampled_from(["81920", "x", "-1"])
)
def test_whatever_annotations_and_labels_say_is_shown(
    quota: str, request: str, name: str, product: str, memory: str
) -> None:
    vision = team("vision")
    vision["metadata"]["annotations"]["volcano.sh/card.quota"] = quota
    train = asking("train", {}, q="vision")
    train["metadata"]["annotations"]["volcano.sh/card.request"] = request
    world = (
        card_node("a1", product, memory=memory),
        vision,
        train,
        member("train-0", "train", name, on="a1"),
        member("train-1", "train", name),
    )

    found = seen(*world)

    said = json.dumps(queue_view.described(found, queue_view.About("", {}), {"vision": []}))
    assert json.loads(said)["queues"]["vision"]["state"] == "Open"
    assert "QUEUES" in plain(queue_view.list_page(found, ""), 100)
    assert "Name:    vision" in plain(queue_view.page(found, "vision", []), 100)
