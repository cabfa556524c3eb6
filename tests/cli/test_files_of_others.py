"""Files as others have them, from public bug reports: what `volsched` makes of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calls import call, text_of, without_progress
from tests.simulation.clusters import LEAN, Manifest, node, pod

FILES = Path(__file__).parent / "files"
OPERATED = [
    "FlinkDeployment.flink.apache.org",
    "SparkApplication.sparkoperator.k8s.io",
    "TrainJob.trainer.kubeflow.org",
]


def file(name: str) -> Path:
    return FILES / f"{name}.yaml"


def validated(name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(call("validate", "-f", file(name), "-o", "json").stdout)["problems"]
    return found


def simulated(name: str) -> Any:
    done = call("simulate", "-f", file(name), "-o", "json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


# --- configurations -------------------------------------------------------------------------------------------------


def test_arguments_that_volcano_reads_are_accepted_and_one_warning_names_them() -> None:
    (problem,) = validated("arguments-volcano-reads")

    assert (problem["severity"], problem["code"]) == ("warning", "NoEffect")
    for key in (
        "weight",
        "hypernode.binpack.cpu",
        "hypernode.binpack.memory",
        "hypernode.binpack.resources",
        "hypernode.binpack.resources.nvidia.com/gpu",
        "hypernode.binpack.normal-pod.enable",
        "hypernode.binpack.normal-pod.fading",
        "hypernode.gradient.evict.max-hypernodes",
        "dynamicresources.filterTimeoutSeconds",
        "volumebinding.shape",
        *(f"action {action}: predicateErrorCacheEnable" for action in ("allocate", "backfill", "preempt", "reclaim")),
    ):
        assert key in problem["message"], key


def test_arguments_that_only_older_versions_of_volcano_read_are_accepted_too(tmp_path: Path) -> None:
    conf = tmp_path / "old.conf"
    conf.write_text(
        """actions: enqueue, allocate
tiers:
- plugins: [{name: nodeorder, arguments: {selectorspread.weight: 1, volumebinding.weight: 2}}]
configurations: [{name: enqueue, arguments: {overcommit-factor: 1.5}}]
"""
    )

    (problem,) = json.loads(call("validate", "-f", conf, "-o", "json").stdout)["problems"]

    assert (problem["severity"], problem["code"]) == ("warning", "NoEffect")
    for words in ("selectorspread.weight (", "volumebinding.weight (", "the plugin overcommit has it"):
        assert words in problem["message"], words


def test_what_is_not_here_is_refused_with_what_to_do_and_no_suggestion_that_is_refused_next() -> None:
    said = [problem["message"] for problem in validated("names-that-are-not-here")]

    assert said[0] == (
        "line 6: plugin numa-aware belongs to Volcano and is not part of volsched; nothing replaces it, leave it out"
    )
    assert [message.partition("; ")[0] for message in said[1:]] == [
        'line 7: there is no plugin "topology910"',
        'line 8: there is no plugin "nodeCSIscheduling"',
    ]
    assert not any("did you mean" in message for message in said)


FAULT = "plugins[1].name: plugin deviceshare belongs to Volcano and is not part of volsched"


@pytest.mark.parametrize("verb", [["cards"], ["queue", "list"], ["queue", "describe", "default"]])
def test_a_configuration_of_volcano_does_not_keep_cards_and_queues_from_being_shown(verb: list[str]) -> None:
    done = call(*verb, "-f", file("foreign-configmap"))

    assert done.exit_code == 0
    (note,) = without_progress(done.stderr)
    assert note.startswith("note: ")
    assert FAULT in note
    assert "--config" in note
    if verb[0] == "cards":
        assert "NVIDIA-A100  8      1      nvidia.com/gpu" in done.stdout


@pytest.mark.parametrize("verb", [["simulate"], ["explain", "queue", "default"]])
def test_a_configuration_of_volcano_leaves_the_built_in_one_in_force(verb: list[str], tmp_path: Path) -> None:
    done = call(*verb, "-f", file("foreign-configmap"))

    assert done.exit_code == 0
    (warning,) = without_progress(done.stderr)
    assert warning.startswith("warning: ")
    assert FAULT in warning
    assert "--config FILE" in warning
    assert "the built-in configuration counts" in warning

    own = tmp_path / "own.conf"
    own.write_text(LEAN)
    assert without_progress(call(*verb, "-f", file("foreign-configmap"), "--config", own).stderr) == []


def config_map(name: str, text: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"scheduler.conf": text}}


REFUSED = config_map("refused", "actions: allocate\ntiers: [{plugins: [{name: tdm}]}]\n")


def test_of_two_configurations_the_one_that_is_accepted_counts() -> None:
    own = config_map("own", "actions: enqueue\ntiers: [{plugins: [{name: gang}]}]\n")
    for maps in ([REFUSED, own], [own, REFUSED]):
        done = call("simulate", "-f", "-", "-o", "json", given=text_of(node("n1"), pod("p"), *maps))
        assert json.loads(done.stdout)["binds"] == [], "no action places anything"
        assert "ConfigMap/default/refused: data[scheduler.conf]: holds a scheduler configuration, and is passed" in (
            done.stderr
        )


def test_when_no_configuration_is_accepted_the_built_in_one_counts() -> None:
    maps = [REFUSED, {**REFUSED, "metadata": {"name": "as-well"}}]
    done = call("simulate", "-f", "-", "-o", "json", given=text_of(node("n1"), pod("p"), *maps))
    assert [bind["node"] for bind in json.loads(done.stdout)["binds"]] == ["n1"]
    assert "--config FILE" in done.stderr


def test_data_that_could_hold_several_configurations_counts_as_none() -> None:
    foreign = {**REFUSED, "data": {"a.conf": "actions: {1: rollover}", "b.conf": "actions: {2: shrink}"}}
    done = call("simulate", "-f", "-", "-o", "json", given=text_of(node("n1"), pod("p"), foreign))
    assert [bind["node"] for bind in json.loads(done.stdout)["binds"]] == ["n1"]
    assert "a.conf, b.conf all hold a scheduler configuration" in done.stderr


def test_several_configurations_that_are_accepted_leave_a_choice_that_names_the_flag() -> None:
    given = text_of(node("n1"), pod("p"), config_map("a", LEAN), config_map("b", LEAN))
    for verb in (["simulate"], ["explain", "pod", "p"]):
        done = call(*verb, "-f", "-", given=given)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "leave one of them out, or name one with --config" in done.stderr
    for verb in (["cards"], ["queue", "list"]):
        done = call(*verb, "-f", "-", given=given)
        assert done.exit_code == 0
        assert done.stderr.startswith("note: ")


# --- objects --------------------------------------------------------------------------------------------------------


def test_a_native_resource_with_a_domain_needs_no_limit() -> None:
    assert validated("batch-cpu") == []


def test_a_key_that_is_given_twice_is_a_warning_and_the_last_value_counts() -> None:
    found = validated("key-twice")

    assert [(problem["object"], problem["field"], problem["severity"]) for problem in found] == [
        ("Pod/default/p", "spec.containers[0].resources", "warning"),
        ("SparkApplication/default/s", "spec.sparkConf[spark.hadoop.fs.s3a.multipart.size]", "warning"),
    ]
    assert found[0]["message"] == "is given twice, again in line 10; the last value counts"
    (waiting,) = simulated("key-twice")["pending"]
    assert "cpu: requested 2," in waiting["message"]


def test_an_object_without_a_name_gets_one_that_is_the_same_in_every_run() -> None:
    assert validated("generate-name") == []
    (name,) = simulated("generate-name")["pods"]
    assert name.startswith("default/run-")
    assert list(simulated("generate-name")["pods"]) == [name]


def test_a_job_with_a_plugin_that_is_not_played_is_reported_and_waits() -> None:
    (problem,) = validated("job-plugin-ray")
    assert (problem["field"], problem["severity"]) == ("spec.plugins[ray]", "warning")
    assert "only Volcano's own do" in problem["message"]

    found = simulated("job-plugin-ray")
    assert (found["pods"], found["podGroups"]) == ({}, {})
    (waiting,) = found["pending"]
    assert (waiting["job"], waiting["step"], waiting["reason"]) == ("default/ray", "invalid", "UnsupportedPlugin")
    assert [(event["object"], event["reason"]) for event in found["events"]] == [
        ("Job/default/ray", "UnsupportedPlugin")
    ]
    page = call("simulate", "-f", file("job-plugin-ray"), "--fail-on-pending")
    assert page.exit_code == 1
    assert page.stdout.startswith("0 pods placed, 1 Job not run after 1 cycle.")
    explained = call("explain", "job", "ray", "-f", file("job-plugin-ray"))
    assert explained.exit_code == 3
    assert explained.stdout.startswith("job default/ray is not run, and has no PodGroup.\n\nUnsupportedPlugin: ")


@pytest.mark.parametrize("verb", ["simulate", "validate"])
def test_pods_that_operators_make_are_said_to_be_missing(verb: str) -> None:
    done = call(verb, "-f", file("operators-note-only"))

    assert done.exit_code == 0
    (warning,) = without_progress(done.stderr)
    assert warning.startswith(f"warning: left out: {', '.join(f'1 {kind}' for kind in OPERATED)} (")
    assert "their pods are missing" in warning
    assert "kubectl get pods,podgroups -A -o yaml" in warning


def test_the_waiting_time_of_the_prefixed_annotation_admits_a_group() -> None:
    assert simulated("sla-annotation-prefixed")["podGroups"]["default/pg"]["phase"] == "Inqueue"


def test_a_configuration_of_another_program_is_only_warned_of(tmp_path: Path) -> None:
    curator = "actions:\n  1:\n    action: delete_indices\n"
    foreign = {**REFUSED, "data": {"action_file.yml": curator}}
    (tmp_path / "action_file.yml").write_text(curator)
    (tmp_path / "map.yaml").write_text(text_of(foreign))

    done = call("validate", "-f", tmp_path, "-o", "json")

    assert done.exit_code == 0
    found = json.loads(done.stdout)["problems"]
    assert {problem["severity"] for problem in found} == {"warning"}
    assert all(problem["field"].startswith("data[action_file.yml]") for problem in found)
    own = {**foreign, "data": {"volcano-scheduler.conf": curator}}
    assert call("validate", "-f", "-", given=text_of(own)).exit_code == 1
