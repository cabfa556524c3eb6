"""Plugins of Volcano Jobs: what their arguments mean, what they make, and what they give to which pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.controllers.cases import NOW, Json, a_group, a_job, a_task
from volsched.controllers import jobs
from volsched.controllers.job_controller import JobSurroundings, JobView, failed_create, reconcile
from volsched.controllers.job_plugins.flags import Flag, read
from volsched.controllers.writes import Create


def creations(view: JobView) -> list[Create]:
    """Everything that a Job makes whose PodGroup has been admitted."""
    around = JobSurroundings([], a_group("train-uid-train", phase="Inqueue"), {}, "default")
    return [write for write in reconcile(view, around, NOW).writes if isinstance(write, Create)]


def pods_of(view: JobView) -> dict[str, Json]:
    """The specs of the pods that a Job makes, by name."""
    return {made.name: dict(made.body["spec"]) for made in creations(view) if made.kind.name == "Pod"}


def owned_objects(view: JobView) -> dict[tuple[str, str], Create]:
    return {(made.kind.name, made.name): made for made in creations(view) if made.kind.name != "Pod"}


def env_of(spec: Json, at: int = 0, where: str = "containers") -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in spec[where][at].get("env", ()) if "value" in variable}


def running(*tasks: Json, **spec: Any) -> JobView:
    view: JobView = a_job(*tasks, phase="Pending", **spec)
    assert view.problem == ""
    return view


def with_pod(task: Json, **fields: Any) -> Json:
    """A task whose pods have further fields."""
    task["template"]["spec"].update(fields)
    return task


# --- arguments ------------------------------------------------------------------------------------------------------

FLAGS = (Flag("name", "main"), Flag("port", 22), Flag("wait", False), Flag("share", True))


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ([], {}),
        (["--name=a", "-port=23"], {"name": "a", "port": 23}),
        (["--name", "a", "--wait", "--port", "23"], {"name": "a", "wait": True, "port": 23}),
        (["--wait=T", "--share=0"], {"wait": True, "share": False}),
        (["--name="], {"name": ""}),
        (["--name=a=b"], {"name": "a=b"}),
        (["--name=a", "--name=b"], {"name": "b"}),
    ],
)
def test_arguments_are_read_as_go_reads_flags(arguments: list[str], changed: dict[str, object]) -> None:
    found = read(FLAGS, arguments)

    assert found.problems == ()
    assert found.values == {"name": "main", "port": 22, "wait": False, "share": True} | changed
    assert found.given == changed.keys()


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("--nmae=a", "there is no argument --nmae; did you mean --name?"),
        ("--xyzzy", "there is no argument --xyzzy; there are --name, --port, --wait, --share"),
        ("--port=ssh", "--port must be a whole number from 1 to 65535, not 'ssh'"),
        ("--port=0", "--port must be a whole number from 1 to 65535, not '0'"),
        ("--port=65536", "--port must be a whole number from 1 to 65535, not '65536'"),
        ("--port=9999999999999999999999", "--port must be a whole number from 1 to 65535"),
        ("--wait=yes", "--wait must be true or false, not 'yes'"),
        ("--name", "--name has no value; write it as --name=value"),
        ("name=a", "'name=a' is no argument; write it as --name=value"),
        ("---name=a", "'---name=a' is no argument"),
        ("--", "'--' is no argument"),
        ("", "'' is no argument"),
    ],
)
def test_what_cannot_be_read_is_said_and_counts_as_not_given(argument: str, said: str) -> None:
    found = read(FLAGS, [argument])

    [problem] = found.problems
    assert problem.startswith(said)
    assert found.values == {"name": "main", "port": 22, "wait": False, "share": True}


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        ({"env": ["--x"]}, "spec.plugins[env]: there is no argument --x; it takes none"),
        ({"svc": ["--disable-networkpolicy"]}, "did you mean --disable-network-policy?"),
        ({"pytorch": ["--master=boss"]}, "there is no task 'boss'; name one of master, worker with --master"),
        ({"pytorch": ["--worker=minion"]}, "there is no task 'minion'"),
        ({"pytorch": ["--wait-master-timeout=0"]}, "--wait-master-timeout must be a whole number from 1 to 604800"),
        ({"mpi": ["--worker=minion"]}, "there is no task 'minion'"),
        ({"mpi": ["--port=x"]}, "spec.plugins[mpi]: --port must be"),
        ({"tensorflow": ["--ps=servers"]}, "there is no task 'servers'"),
        ({"ssh": ["--ssh-private-key=k"]}, "--ssh-private-key and --ssh-public-key belong together"),
        ({"ssh": ["--ssh-key-file-path=keys"]}, "--ssh-key-file-path must be an absolute path, not 'keys'"),
    ],
)
def test_a_job_with_wrong_arguments_is_not_run_and_says_so(plugins: Json, said: str) -> None:
    view = a_job(a_task("master"), a_task("worker", 2), plugins=plugins)

    outcome = reconcile(view, JobSurroundings([], None, {}, "default"), NOW)

    assert outcome.writes == []
    [tell] = outcome.events
    assert tell.reason == "InvalidJob"
    assert said in tell.message


def test_a_job_of_a_framework_needs_the_tasks_of_its_roles() -> None:
    alone = [a_task("main", 2)]
    assert "there is no task 'master'; name one of main with --master" in a_job(*alone, plugins={"pytorch": []}).problem
    assert "there is no task 'worker'" in a_job(a_task("master"), plugins={"mpi": []}).problem
    assert "no task is ps, worker, chief or evaluator" in a_job(*alone, plugins={"tensorflow": []}).problem
    assert "has no replicas" in a_job(a_task("master", 0), a_task("worker"), plugins={"pytorch": []}).problem
    assert a_job(a_task("master"), plugins={"pytorch": []}).problem == ""


def test_frameworks_bring_the_plugins_that_they_work_by() -> None:
    tasks = [a_task("master"), a_task("worker")]

    assert a_job(*tasks, plugins={"pytorch": []}).job.spec.plugins == {"svc": None, "pytorch": ()}
    assert set(a_job(*tasks, plugins={"tensorflow": []}).job.spec.plugins) == {"svc", "tensorflow"}
    given = {"mpi": [], "svc": ["--disable-network-policy"]}
    found = a_job(*tasks, plugins=given).job.spec.plugins
    assert found == {"svc": ("--disable-network-policy",), "ssh": None, "mpi": ()}
    assert a_job(*tasks, plugins={"env": []}).job.spec.plugins == {"env": ()}


# --- svc ------------------------------------------------------------------------------------------------------------


def test_svc_leaves_variables_out_when_told_to_and_keeps_the_files() -> None:
    spec = pods_of(running(a_task("worker"), plugins={"svc": ["--inject-hosts-env=false"]}))["train-worker-0"]

    assert "env" not in spec["containers"][0]
    assert spec["containers"][0]["volumeMounts"] == [{"name": "train-svc", "mountPath": "/etc/volcano"}]


def test_a_host_that_all_pods_of_a_task_share_is_listed_once() -> None:
    view = running(with_pod(a_task("worker", 3), hostname="w", subdomain="elsewhere"), plugins={"svc": []})

    data = owned_objects(view)["ConfigMap", "train-svc"].body["data"]

    assert data["worker.host"] == data["VC_WORKER_HOSTS"] == "w.elsewhere"
    assert data["VC_WORKER_NUM"] == "1"


# --- ssh ------------------------------------------------------------------------------------------------------------


def test_ssh_asks_for_a_pair_of_keys_that_nobody_has_seen() -> None:
    found = owned_objects(running(a_task("worker", 2), plugins={"ssh": []}))

    secret = found["Secret", "train-ssh"]
    assert secret.with_keys
    assert not secret.must_match
    assert (secret.body["type"], secret.body["immutable"]) == ("Opaque", True)
    assert not {"data", "stringData"} & secret.body.keys()
    [owner] = secret.body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Job", "train", "uid-train")


def test_ssh_tells_each_pod_the_hosts_and_follows_when_the_job_is_scaled() -> None:
    view = running(a_task("worker", 2), plugins={"ssh": ["--ssh-port=2222"]})
    hosts = owned_objects(view)["ConfigMap", "train-ssh"]

    assert hosts.must_match
    assert hosts.body["data"]["config"] == (
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
        "Host train-worker-0\n  HostName train-worker-0.train\n  Port 2222\n"
        "Host train-worker-1\n  HostName train-worker-1.train\n  Port 2222\n"
    )
    scaled = owned_objects(running(a_task("worker", 3), plugins={"ssh": []}))
    assert "Host train-worker-2\n" in scaled["ConfigMap", "train-ssh"].body["data"]["config"]
    assert scaled["Secret", "train-ssh"] == owned_objects(view)["Secret", "train-ssh"]


def test_ssh_puts_keys_and_hosts_into_one_folder_of_every_container() -> None:
    task = with_pod(a_task("worker"), initContainers=[{"name": "first"}], volumes=[{"name": "own", "emptyDir": {}}])

    spec = pods_of(running(task, plugins={"ssh": ["--ssh-key-file-path=/home/me/.ssh"]}))["train-worker-0"]

    own, volume = spec["volumes"]
    assert own["name"] == "own"
    secret, hosts = volume["projected"]["sources"]
    assert (volume["name"], volume["projected"]["defaultMode"]) == ("train-ssh", 0o600)
    assert secret["secret"] == {
        "name": "train-ssh",
        "items": [{"key": key, "path": f".ssh/{key}"} for key in ("id_rsa", "id_rsa.pub", "authorized_keys")],
    }
    assert hosts["configMap"] == {"name": "train-ssh", "items": [{"key": "config", "path": ".ssh/config"}]}
    mount = {"name": "train-ssh", "mountPath": "/home/me/.ssh", "subPath": ".ssh"}
    assert [c["volumeMounts"] for c in (*spec["initContainers"], *spec["containers"])] == [[mount], [mount]]


def test_ssh_takes_keys_of_ones_own() -> None:
    view = running(a_task("worker"), plugins={"ssh": ["--ssh-private-key=priv\nate", "--ssh-public-key=public"]})

    secret = owned_objects(view)["Secret", "train-ssh"]

    assert not secret.with_keys
    assert secret.body["stringData"] == {"id_rsa": "priv\nate", "id_rsa.pub": "public", "authorized_keys": "public"}


def test_who_may_not_make_the_secret_is_told_the_way_out() -> None:
    refused = '403 Forbidden: secrets is forbidden: User "x" cannot create resource "secrets"'

    with_ssh = failed_create(running(a_task("worker"), plugins={"ssh": []}).job, refused)
    without = failed_create(running(a_task("worker")).job, refused)

    assert with_ssh.message.endswith("only with the component ssh of its manifests")
    assert without.message.endswith(refused)


# --- pytorch --------------------------------------------------------------------------------------------------------


def test_pytorch_tells_who_the_master_is_and_each_pod_its_rank() -> None:
    tasks = [a_task("chief", 1), a_task("worker", 2), a_task("board", 1)]
    pods = pods_of(running(*tasks, plugins={"pytorch": ["--master=chief", "--port=29500"]}))

    common = {"MASTER_ADDR": "train-chief-0.train", "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
    assert env_of(pods["train-chief-0"]) == common | {"RANK": "0"}
    assert env_of(pods["train-worker-0"]) == common | {"RANK": "1"}
    assert env_of(pods["train-worker-1"]) == common | {"RANK": "2"}
    assert env_of(pods["train-board-0"]) == common
    port = {"name": "pytorchjob-port", "containerPort": 29500}
    assert all(spec["containers"][0]["ports"] == [port] for spec in pods.values())


def test_ranks_of_workers_come_after_all_masters() -> None:
    pods = pods_of(running(a_task("master", 2), a_task("worker", 2), plugins={"pytorch": []}))

    assert [env_of(spec)["RANK"] for spec in pods.values()] == ["0", "1", "2", "3"]
    assert {env_of(spec)["WORLD_SIZE"] for spec in pods.values()} == {"4"}


def test_what_the_user_has_set_stays() -> None:
    task = a_task("master")
    container = task["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "MASTER_PORT", "value": "7"}]
    container["ports"] = [{"name": "mine", "containerPort": 23456}]

    spec = pods_of(running(task, plugins={"pytorch": []}))["train-master-0"]

    assert env_of(spec)["MASTER_PORT"] == "7"
    assert spec["containers"][0]["ports"] == [{"name": "mine", "containerPort": 23456}]


def test_a_port_of_the_host_is_opened_once_for_each_pod() -> None:
    containers = [{"name": "main"}, {"name": "side"}]
    on_host, apart = (
        pods_of(running(with_pod(a_task("master"), containers=containers, hostNetwork=host), plugins={"pytorch": []}))
        for host in (True, False)
    )

    assert ["ports" in container for container in on_host["train-master-0"]["containers"]] == [True, False]
    assert ["ports" in container for container in apart["train-master-0"]["containers"]] == [True, True]


def test_workers_wait_for_the_master_when_they_are_told_to() -> None:
    tasks = [a_task("master"), with_pod(a_task("worker"), initContainers=[{"name": "first"}])]
    arguments = ["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=alpine:3"]

    pods = pods_of(running(*tasks, plugins={"pytorch": arguments}))

    assert "initContainers" not in pods["train-master-0"]
    first, waiter = pods["train-worker-0"]["initContainers"]
    assert (first["name"], waiter["name"], waiter["image"]) == ("first", "wait-for-master", "alpine:3")
    script = waiter["command"][-1]
    assert "nc -z -w 2 train-master-0.train 23456" in script
    assert "+ 60))" in script
    plain = pods_of(running(*tasks, plugins={"pytorch": ["--wait-master-timeout=60"]}))
    assert [container["name"] for container in plain["train-worker-0"]["initContainers"]] == ["first"]


# --- tensorflow -----------------------------------------------------------------------------------------------------


def test_tensorflow_tells_each_pod_the_cluster_and_who_it_is() -> None:
    tasks = [a_task("ps", 1), a_task("learner", 2), a_task("board", 1)]
    pods = pods_of(running(*tasks, plugins={"tensorflow": ["--worker=learner", "--port=3333"]}))

    cluster = {"ps": ["train-ps-0.train:3333"], "worker": [f"train-learner-{n}.train:3333" for n in range(2)]}
    configs = {name: json.loads(env_of(spec)["TF_CONFIG"]) for name, spec in pods.items()}
    assert configs == {
        "train-ps-0": {"cluster": cluster, "task": {"type": "ps", "index": 0}},
        "train-learner-0": {"cluster": cluster, "task": {"type": "worker", "index": 0}},
        "train-learner-1": {"cluster": cluster, "task": {"type": "worker", "index": 1}},
        "train-board-0": {"cluster": cluster, "task": {"type": "board", "index": 0}},
    }


def test_a_single_pod_needs_no_cluster() -> None:
    assert env_of(pods_of(running(a_task("main"), plugins={"tensorflow": []}))["train-main-0"]) == {}


# --- mpi ------------------------------------------------------------------------------------------------------------


def test_mpi_gives_the_master_the_hosts_of_the_workers() -> None:
    master = with_pod(a_task("launcher"), initContainers=[{"name": "first"}])
    view = running(master, a_task("worker", 2), plugins={"mpi": ["--master=launcher", "--port=5000"]})

    pods = pods_of(view)

    hosts = {"MPI_HOST": "train-worker-0.train,train-worker-1.train"}
    assert env_of(pods["train-launcher-0"]) == env_of(pods["train-launcher-0"], where="initContainers") == hosts
    assert env_of(pods["train-worker-0"]) == {}
    port = {"name": "mpijob-port", "containerPort": 5000}
    for spec in pods.values():
        assert all(c["ports"] == [port] for c in (*spec["containers"], *spec.get("initContainers", ())))
    assert "Port 5000" in owned_objects(view)["ConfigMap", "train-ssh"].body["data"]["config"]


def test_the_port_of_ssh_is_the_one_that_is_said_for_it() -> None:
    plugins = {"mpi": ["--port=5000"], "ssh": ["--ssh-port=6000"]}

    found = owned_objects(running(a_task("master"), a_task("worker"), plugins=plugins))

    assert "Port 6000" in found["ConfigMap", "train-ssh"].body["data"]["config"]
    assert set(found) == {
        ("Service", "train"),
        ("ConfigMap", "train-svc"),
        ("NetworkPolicy", "train"),
        ("Secret", "train-ssh"),
        ("ConfigMap", "train-ssh"),
    }


def test_pods_that_are_to_find_each_other_have_names_that_hosts_can_have() -> None:
    name = "w" * 56  # train-<name>-9 has 64 characters
    assert a_job(a_task(name, 10)).problem == ""
    assert a_job(with_pod(a_task(name, 10), hostname="own"), plugins={"svc": []}).problem == ""

    view = a_job(a_task(name, 10), plugins={"svc": []})

    assert "names of 64 characters, and as host names, which the plugin svc makes of them, 63 at most" in view.problem


# --- growth ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugins", [{"svc": [], "ssh": []}, {"pytorch": []}, {"mpi": []}], ids="-".join)
def test_work_grows_with_the_pods_and_not_with_their_square(plugins: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    pod_name = jobs.pod_name

    def counted(*args: Any) -> str:
        named.append(pod_name(*args))
        return named[-1]

    def names_for(workers: int) -> int:
        view = running(a_task("master"), a_task("worker", workers), plugins=plugins)
        named.clear()
        creations(view)
        return len(named)

    monkeypatch.setattr(jobs, "pod_name", counted)
    few, many = names_for(50), names_for(500)

    assert many < 11 * few


def test_a_job_of_more_pods_than_a_cluster_takes_is_not_looked_through() -> None:
    view = a_job(a_task("worker", 2_000_000_000), a_task("ps", 1), plugins={"svc": []})

    outcome = reconcile(view, JobSurroundings([], None, {}, "default"), NOW)

    assert outcome.writes == []
    assert "2000000001 replicas together are more than 150000" in outcome.events[0].message
    assert a_job(a_task("worker", 150_000)).problem == ""
