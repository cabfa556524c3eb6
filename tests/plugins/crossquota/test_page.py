"""Every example of docs/plugins/crossquota.md does what the page says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.docs.pages import DOCS, blocks
from tests.plugins.crossquota.worlds import GPU, STRATEGY, gpu_node, node
from volsched.cli import volsched
from volsched.testing.builders import ClusterBuilder, a_cluster, a_rig

PAGE = DOCS / "plugins" / "crossquota.md"
EXAMPLES = [block for block in blocks(PAGE) if "yaml" in block.words]


def example(word: str) -> str:
    """The only example that has a word."""
    (found,) = (block.text for block in EXAMPLES if word in block.text)
    return found


def bindings(cluster: ClusterBuilder, configuration: str) -> dict[str, str]:
    return a_rig(cluster, configuration).cycle().bindings


def test_the_page_has_the_examples_that_are_played_here() -> None:
    words = ("quota-percentage.memory", "free-of-quota", "h100-1", "name: gateway", "non-gpu-node-score")

    assert [example(word) for word in words] == [block.text for block in EXAMPLES]


@pytest.mark.parametrize(
    ("used", "strategy", "score"),
    [((24, 40), {}, "8.64"), ((8, 16), {STRATEGY: "least-allocated"}, "6.25")],
)
def test_the_tour_scores_as_the_seed_prints(
    used: tuple[int, int], strategy: dict[str, str], score: str, tmp_path: Path
) -> None:
    cluster = a_cluster().add(gpu_node("gpu-1", cpu=64, memory="128Gi")).add(node("plain", cpu=64, memory="128Gi"))
    cluster.pod("before", on="gpu-1", cpu=used[0], memory=f"{used[1]}Gi")
    cluster.job("new", cpu=4, memory="8Gi", annotations=strategy)
    (tmp_path / "scheduler.conf").write_text(example("quota-percentage.memory"))
    (tmp_path / "world.yaml").write_text(yaml.safe_dump_all(cluster.objects))
    command = ["simulate", "-f", str(tmp_path / "world.yaml"), "--config", str(tmp_path / "scheduler.conf")]

    done = CliRunner().invoke(volsched, [*command, "--scores", "--output", "json"])

    scores: dict[str, Any] = json.loads(done.stdout)["scores"]["default/new-0"]
    assert f"{scores['gpu-1']['plugins']['crossquota']:.2f}" == score
    assert scores["plain"]["plugins"]["crossquota"] == 0


def test_the_label_selector_is_for_one_team_and_not_for_those_that_are_free() -> None:
    cluster = a_cluster().add(gpu_node("g1"))
    for name, labels in (
        ("etl", {"team": "etl"}),
        ("free", {"team": "etl", "free-of-quota": ""}),
        ("other", {"team": "web"}),
    ):
        cluster.job(name, cpu=17, labels=labels)

    assert set(bindings(cluster, example("free-of-quota"))) == {"free-0", "other-0"}


def test_the_annotated_node_has_its_own_quotas() -> None:
    cluster = a_cluster().add(yaml.safe_load(example("h100-1")))
    for name, request in (
        ("fits", {"cpu": 8, "memory": "96Gi"}),
        ("late", {"cpu": "1m"}),
        ("large", {GPU: 8, "cpu": 80}),
    ):
        cluster.job(name, **request)

    assert set(bindings(cluster, example("quota-percentage.memory"))) == {"fits-0", "large-0"}


def test_the_annotated_pod_goes_where_least_is_used() -> None:
    cluster = a_cluster().add(gpu_node("g1")).add(gpu_node("g2")).pod("before", on="g1", cpu=4, memory="8Gi")
    cluster.add(yaml.safe_load(example("name: gateway"))).job("packed", cpu=4, memory="8Gi")
    pod = cluster.objects[-3]
    pod["metadata"] |= {"namespace": "default", "uid": "gateway"}
    pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "gateway"
    cluster.group("gateway")

    assert bindings(cluster, example("quota-percentage.memory")) == {"gateway": "g2", "packed-0": "g1"}


def test_a_score_for_other_nodes_keeps_cpu_pods_there() -> None:
    cluster = a_cluster().add(gpu_node("g1")).add(node("plain", cpu=4)).job("etl", tasks=3, cpu=2)

    assert sorted(bindings(cluster, example("non-gpu-node-score")).values()) == ["g1", "plain", "plain"]
