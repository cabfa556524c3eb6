"""The command line as a user calls it: exit codes, what goes to which stream, help that teaches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.calls import call, without_progress, written
from tests.simulation.clusters import LEAN, Manifest, node, pod, pod_spec, workload
from tests.validation.test_fields import SEED
from volsched import __version__

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"


# --- the group ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_verbs_and_a_first_thing_to_try(flag: str) -> None:
    said = call(flag).stdout
    assert all(verb in said for verb in ("run", "simulate", "cards", "queue", "validate", "version"))
    assert "volsched simulate -f manifests/examples" in said


@pytest.mark.parametrize("verb", ["simulate", "validate", "cards"])
def test_help_of_a_verb_has_examples_and_exit_codes(verb: str) -> None:
    said = call(verb, "-h").stdout
    assert "Examples:" in said
    assert "Exit status:" in said
    assert "\x08" not in said


def test_a_misspelt_verb_is_answered_with_the_right_one() -> None:
    result = call("simulat")
    assert result.exit_code == 2
    assert "Did you mean 'simulate'?" in result.stderr


def test_the_version_is_printed() -> None:
    assert call("version").stdout.startswith(f"volsched {__version__} ")


@pytest.mark.process
def test_help_and_version_import_neither_the_engine_nor_a_cluster_client() -> None:
    code = (
        "import sys; from volsched.cli import volsched\n"
        "for args in (['-h'], ['version']):\n"
        "    volsched.main(args, standalone_mode=False)\n"
        "heavy = {'numpy', 'aiohttp', 'kubernetes_asyncio', 'kopf', 'yaml'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_verbs_that_read_manifests_import_no_cluster_client(tmp_path: Path) -> None:
    world = written(tmp_path, node("n1"), pod("p"))
    code = (
        "import sys; from volsched.cli import volsched\n"
        f"for verb in ('simulate', 'validate', 'cards', 'queue list'):\n"
        "    try:\n"
        f"        volsched.main([*verb.split(), '-f', {str(world)!r}], standalone_mode=False)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "heavy = {'aiohttp', 'kubernetes_asyncio', 'kopf', 'structlog', 'uvloop'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("verb", "unneeded"),
    [
        ("run", {"cel_expr_python", "cryptography", "jinja2", "kopf"}),
        ("controllers", {"cel_expr_python", "cryptography", "jinja2", "numpy", "plugins", "actions"}),
    ],
)
def test_a_process_imports_only_what_its_flags_need(verb: str, unneeded: set[str], tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "volsched", verb, "--kubeconfig", str(tmp_path / "none")]

    done = subprocess.run(command, capture_output=True, text=True, check=False)

    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")}
    assert done.returncode == 2, done.stderr[-2000:]
    assert "kubernetes_asyncio" in imported  # the program was there, and looked for its cluster
    assert imported & unneeded == set()


@pytest.mark.process
def test_a_bug_is_said_to_be_one(tmp_path: Path) -> None:
    code = (
        "import sys, volsched.cli as cli, volsched.cli.version as v\n"
        "def boom(): raise RuntimeError('unforeseen')\n"
        "v.version.callback = boom\n"
        "sys.argv = ['volsched', 'version']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 70
    assert "unforeseen" in done.stderr
    assert "this is a bug" in done.stderr


# --- simulate -------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_installed_command_answers_json_alone(tmp_path: Path) -> None:
    world = written(tmp_path, node("n1"), pod("p"))
    command = Path(sys.executable).with_name("volsched")

    done = subprocess.run([command, "simulate", "-f", world, "-o", "json"], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["binds"][0]["pod"] == "default/p"
    progress = re.compile(
        r"cycle \d+: \d+ placed, \d+ evicted, \d+ waiting \(\d+\.\d s\)"
    )  # said when a run takes long
    assert all(progress.fullmatch(line) for line in done.stderr.splitlines()), done.stderr


@pytest.mark.process
def test_a_small_simulation_is_over_at_once(tmp_path: Path) -> None:
    """Counted in calls of Python functions, which is the same on every machine: importing aiohttp adds 50,000."""
    world = written(tmp_path, node("n1"), pod("p"))
    code = (
        "import atexit, sys; calls = 0\n"
        "def count(frame, event, _):\n"
        "    global calls; calls += event == 'call'\n"
        "atexit.register(lambda: print(calls, file=sys.stderr))\n"
        "sys.setprofile(count)\n"
        "from volsched.cli import volsched\n"
        f"volsched.main(['simulate', '-f', {str(world)!r}, '-o', 'json'], standalone_mode=False)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert json.loads(done.stdout)["binds"][0]["pod"] == "default/p"
    assert int(done.stderr.splitlines()[-1]) < 180_000  # on a slow machine progress is told before


@pytest.mark.process
def test_the_plugin_of_kubectl_is_the_same_command() -> None:
    command = Path(sys.executable).with_name("kubectl-volsched")
    done = subprocess.run([command, "version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("volsched ")


def test_standard_input_is_read_and_yaml_is_an_answer_too() -> None:
    result = call("simulate", "-f", "-", "-o", "yaml", given=yaml.safe_dump_all([node("n1"), pod("p")]))
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["settled"] is True


def test_a_page_is_the_default_answer(tmp_path: Path) -> None:
    result = call("simulate", "-f", written(tmp_path, node("n1"), pod("p")))
    assert result.stdout.startswith("1 pod placed, 0 waiting")


def test_fail_on_pending_answers_1_with_the_same_result(tmp_path: Path) -> None:
    waits = written(tmp_path, node("n1", cpu=1), pod("p", cpu=2))
    plain, strict = call("simulate", "-f", waits), call("simulate", "-f", waits, "--fail-on-pending")
    assert (plain.exit_code, strict.exit_code) == (0, 1)
    assert plain.stdout == strict.stdout
    fits = written(tmp_path, node("n1", cpu=2), pod("p", cpu=2))
    assert call("simulate", "-f", fits, "--fail-on-pending").exit_code == 0


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({"apiVersion": "v1", "kind": "Sprocket", "metadata": {"name": "s"}}, ["document 2", "Sprocket"]),
        (
            pod("odd", cpu="two"),
            ["document 2", "Pod/default/odd", "spec.containers[0].resources.requests[cpu]", "'two'"],
        ),
    ],
)
def test_wrong_input_answers_2_with_file_document_object_and_field(
    tmp_path: Path, manifest: Manifest, said: list[str]
) -> None:
    file = written(tmp_path, node("n1"), manifest)
    result = call("simulate", "-f", file, "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {file}: ")
    assert all(part in result.stderr for part in said)


@pytest.mark.parametrize("amounts", [{"core": "-20", "memory": "6144"}, {"core": "50", "memory": "-1"}])
def test_cards_below_zero_are_no_input_for_a_simulation_and_have_the_code_that_validate_says(
    tmp_path: Path, amounts: dict[str, str]
) -> None:
    shared = {f"vke.volcengine.com/mgpu-{what}": amount for what, amount in amounts.items()}
    given = pod("p", cpu="1")
    given["spec"]["containers"][0]["resources"] = {"limits": shared}
    file = written(tmp_path, node("n1"), given)
    [below] = [name for name, amount in shared.items() if amount.startswith("-")]
    field = "Pod/default/p: spec.containers[0].resources"

    simulated, validated = call("simulate", "-f", file, "-o", "json"), call("validate", "-f", file, "-o", "json")

    assert (simulated.exit_code, simulated.stdout) == (2, "")
    assert f"{field}.limits[{below}]: '{shared[below]}' must not be negative\n" in simulated.stderr
    assert f"{field}: container {given['spec']['containers'][0]['name']}: mgpu-core must be > 0" in simulated.stderr
    assert "[MGPU101]" in simulated.stderr
    assert validated.exit_code == 1
    assert "MGPU101" in {problem["code"] for problem in json.loads(validated.stdout)["problems"]}


def test_a_wrong_configuration_answers_2_with_file_line_and_every_problem(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.conf"
    config.write_text("actions: alocate\ntiers:\n- plugins:\n  - name: gnag\n")
    result = call("simulate", "-f", written(tmp_path, node("n1")), "--config", config)
    assert (result.exit_code, result.stdout) == (2, "")
    first, second = without_progress(result.stderr)
    assert first == f'error: {config}: line 1: actions: there is no action "alocate"; did you mean allocate?'
    assert second.endswith('line 4: tiers[0].plugins[0].name: there is no plugin "gnag"; did you mean gang?')
    missing = call("simulate", "-f", written(tmp_path, node("n1")), "--config", tmp_path / "none")
    assert missing.exit_code == 2
    assert "there is no such file" in missing.stderr


def test_a_config_map_among_the_manifests_counts_unless_another_is_given(tmp_path: Path) -> None:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"volcano-scheduler.conf": 'actions: "enqueue"\n'},
    }
    file = written(tmp_path, node("n1"), pod("p"), config_map)
    config = tmp_path / "lean.conf"
    config.write_text(LEAN)
    assert json.loads(call("simulate", "-f", file, "-o", "json").stdout)["binds"] == []
    assert json.loads(call("simulate", "-f", file, "-o", "json", "--config", config).stdout)["binds"] != []


def test_which_of_two_config_maps_counts_is_nobodys_concern_when_another_is_given(tmp_path: Path) -> None:
    data = {"scheduler.conf": LEAN}
    maps = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data} for name in "cd"]
    file = written(tmp_path, node("n1"), pod("p"), *maps)
    config = tmp_path / "lean.conf"
    config.write_text(LEAN)

    undecided = call("simulate", "-f", file, "-o", "json")
    assert (undecided.exit_code, undecided.stdout) == (2, "")
    assert "ConfigMap/default/d: data[scheduler.conf]: holds a scheduler configuration, and so does" in undecided.stderr
    assert json.loads(call("simulate", "-f", file, "-o", "json", "--config", config).stdout)["binds"] != []


def test_a_warning_of_the_configuration_goes_to_standard_error(tmp_path: Path) -> None:
    config = tmp_path / "c.conf"
    config.write_text(f"{LEAN}metrics: {{type: prometheus}}\n")
    result = call("simulate", "-f", written(tmp_path, node("n1")), "--config", config)
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {config}: line 5: metrics: ")


def test_scheduler_names_replace_the_usual_ones(tmp_path: Path) -> None:
    file = written(tmp_path, node("n1"), pod("a", scheduler="mine"), pod("b"))
    result = json.loads(call("simulate", "-f", file, "-o", "json", "--scheduler-name", "mine").stdout)
    assert [bind["pod"] for bind in result["binds"]] == ["default/a"]


def test_the_example_cluster_shows_every_way_to_wait() -> None:
    text = call("simulate", "-f", EXAMPLES, "-o", "json").stdout
    result = json.loads(text)
    assert text == json.dumps(result, indent=2, sort_keys=True) + "\n"
    assert result["settled"] is True
    assert {entry["step"] for entry in result["pending"]} >= {
        "enqueue",
        "gang",
        "gated",
        "no-podgroup",
        "no-queue",
        "predicate",
    }
    assert {bind["node"] for bind in result["binds"]} >= {"a100-1", "h100-1", "t4-1", "cpu-1"}
    assert call("simulate", "-f", EXAMPLES).exit_code == 0


# --- validate -------------------------------------------------------------------------------------------------------


def test_validate_answers_0_for_what_is_right(tmp_path: Path) -> None:
    assert call("validate", "-f", written(tmp_path, node("n1"), pod("p"))).exit_code == 0
    result = call("validate", "-f", "-", "-o", "json", given=LEAN)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"problems": []})


def test_validate_answers_1_with_each_problem_of_an_object() -> None:
    result = call("validate", "-f", "-", "-o", "json", given=yaml.safe_dump(pod("p", cpu="two")))
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == [
        {
            "object": "Pod/default/p",
            "field": "spec.containers[0].resources.requests[cpu]",
            "code": "Invalid",
            "severity": "error",
            "message": "'two' is not a quantity",
        }
    ]


def test_validate_says_what_has_the_wrong_type() -> None:
    (problem,) = json.loads(
        call("validate", "-f", "-", "-o", "json", given=yaml.safe_dump(pod("p", nodeSelector=["a"]))).stdout
    )["problems"]
    assert (problem["object"], problem["field"], problem["code"]) == ("Pod/default/p", "spec.nodeSelector", "WrongType")


@pytest.mark.parametrize("wrapped", [False, True])
def test_validate_checks_configurations_bare_or_in_a_config_map(wrapped: bool) -> None:
    text = LEAN.replace("gang", "gnag")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"x.conf": text}}
    result = call("validate", "-f", "-", "-o", "json", given=yaml.safe_dump(config_map) if wrapped else text)
    (problem,) = json.loads(result.stdout)["problems"]
    assert result.exit_code == 1
    assert problem["object"] == ("ConfigMap/default/c" if wrapped else "Configuration/standard input")
    assert problem["field"].endswith("tiers[0].plugins[1].name")
    assert (problem["code"], problem["message"]) == (
        "UnknownPlugin",
        'line 3: there is no plugin "gnag"; did you mean gang?',
    )


def test_validate_checks_what_a_plugin_makes_of_its_arguments() -> None:
    entry = "{name: sla, arguments: {sla-waiting-time: soon}}"
    text = f"actions: allocate\ntiers:\n- plugins: [{entry}]\n"
    assert call("validate", "-f", "-", given=text).exit_code == 1


def test_warnings_alone_answer_0() -> None:
    result = call("validate", "-f", "-", given=f"{LEAN}metrics: {{}}\n")
    assert result.exit_code == 0
    assert result.stdout.startswith("warning: Configuration/standard input: metrics: line 5: ")


def test_a_kind_without_a_part_is_left_out_and_a_misspelt_one_an_error() -> None:
    def problems(version: str, kind: str) -> list[str]:
        given = yaml.safe_dump({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}})
        answer = call("validate", "-f", "-", "-o", "json", given=given)
        assert ("left out" in answer.stderr) == (not json.loads(answer.stdout)["problems"])
        return [problem["severity"] for problem in json.loads(answer.stdout)["problems"]]

    assert problems("v1", "Secret") == []
    assert problems("v1", "Podd") == ["error"]
    assert problems("scheduling.volcano.sh/v1beta1", "Thing") == ["error"]


@pytest.mark.parametrize("given", ["a: [", "- 1\n- 2", "hello"])
def test_what_cannot_be_read_answers_2(given: str) -> None:
    result = call("validate", "-f", "-", given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: standard input: ")


# --- folders as teams have them -------------------------------------------------------------------------------------


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A folder with the manifests of a team, and the nodes of a cluster."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }
    job = {"spec": {"template": {"spec": pod_spec()}}}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report"},
        "spec": {"schedule": "@daily", "jobTemplate": job},
    }
    (tmp_path / "values.yaml").write_text("replicas: 3\n")
    written(
        tmp_path,
        node("n1", labels={"nvidia.com/gpu.product": "A"}),
        secret,
        scaler,
        cron,
        workload("Deployment", "web", 1),
    )
    return tmp_path


LEFT_OUT = "left out: 1 Secret (no part in scheduling)"


@pytest.mark.parametrize("verb", [("simulate",), ("validate",), ("cards",), ("queue", "list")], ids="-".join)
def test_all_verbs_leave_the_same_out_of_a_folder_and_say_so_in_one_line(team: Path, verb: tuple[str, ...]) -> None:
    answer = call(*verb, "-f", team, "-o", "json")
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)
    [line] = [line for line in answer.stderr.splitlines() if "left out" in line]
    assert line == (
        f"note: {LEFT_OUT}; 1 CronJob, 1 HorizontalPodAutoscaler (played by `simulate --at-max`); "
        "values.yaml (no objects)"
    )


def test_the_most_that_may_come_is_simulated_when_it_is_asked_for(team: Path) -> None:
    def placed_with(*flags: str) -> int:
        return len(json.loads(call("simulate", "-f", team, "-o", "json", *flags).stdout)["binds"])

    assert (placed_with(), placed_with("--at-max")) == (1, 4)


def test_a_kind_of_others_that_makes_pods_is_a_warning(team: Path) -> None:
    spec = {"template": {"spec": pod_spec()}}
    rollout = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}, "spec": spec}
    (team / "rollout.yaml").write_text(yaml.safe_dump(rollout))
    answer = call("simulate", "-f", team)
    assert answer.exit_code == 0
    assert answer.stderr.startswith(f"warning: {LEFT_OUT}; ")
    assert "1 Rollout.argoproj.io (not known here; their pods are missing)" in answer.stderr


# --- unknown fields -------------------------------------------------------------------------------------------------

MEANT = "unknown field; did you mean requiredDuringSchedulingIgnoredDuringExecution?"


def test_simulate_warns_of_the_misspelt_affinity_of_the_seed_and_with_strict_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(SEED)
    answer = call("simulate", "-f", tmp_path, "-o", "json")
    strict = call("simulate", "-f", tmp_path, "-o", "json", "--strict")

    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["kind"] == "SimulationResult"
    assert f"warning: {tmp_path / 'job.yaml'}: document 1: Job/default/training-job: spec.tasks[0]." in answer.stderr
    assert MEANT in answer.stderr
    assert (strict.exit_code, strict.stdout) == (2, "")
    assert MEANT in strict.stderr


def test_validate_has_it_as_a_warning_and_with_strict_as_an_error() -> None:
    answer, strict = (call("validate", "-f", "-", "-o", "json", *flags, given=SEED) for flags in ([], ["--strict"]))
    found = json.loads(answer.stdout)["problems"]
    unknown = [problem for problem in found if problem["code"] == "UnknownField"]

    assert [problem["message"] for problem in unknown] == [MEANT, "unknown field; did you mean operator?"]
    assert {problem["severity"] for problem in unknown} == {"warning"}
    assert answer.exit_code == 0
    assert strict.exit_code == 1


def test_a_slip_that_many_objects_share_is_said_once(tmp_path: Path) -> None:
    pods = [pod(f"p{number}", nodeSelectr={"a": "b"}) for number in range(30)]
    answer = call("simulate", "-f", written(tmp_path, node("n1"), *pods))
    [line] = [line for line in answer.stderr.splitlines() if "unknown field" in line]
    assert "Pod/default/p0: spec.nodeSelectr: unknown field; did you mean nodeSelector? (and in 29 more)" in line


def test_a_limit_of_thousands_of_digits_and_a_kind_of_megabytes_are_answered_in_a_few_words(tmp_path: Path) -> None:
    limit = call("run", "--pod-limit", "volumes=" + "9" * 10_000)
    assert (limit.exit_code, len(limit.stderr) < 1_000) == (2, True)
    file = tmp_path / "long.yaml"
    file.write_text("kind: " + "x" * 100_000 + "\nmetadata: {name: " + "y" * 100_000 + "}\n")
    assert len(call("validate", "-f", file).output) < 2_000
