"""Flags of Volcano that choose what is looked after, on a real control plane."""

from __future__ import annotations

from tests.cluster.control_plane import MakeNodes
from tests.cluster.controlling import AT_WORK, GROUP_NAME, Controlled
from tests.cluster.scheduling import Installed, eventually
from tests.cluster.signals import after_looks, after_work

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]


def test_only_nodes_with_one_of_the_labels_take_pods(
    installed: Installed, namespace: str, make_nodes: MakeNodes
) -> None:
    [train] = make_nodes(1, prefix="train", cpu="2", labels={"volcano.sh/role": f"train-{namespace}"})
    [serving] = make_nodes(1, prefix="serving", cpu="2", labels={"volcano.sh/role": f"serving-{namespace}"})
    [other] = make_nodes(1, prefix="other", cpu="8")
    selectors = (f"--node-selector=volcano.sh/role:{role}-{namespace}" for role in ("train", "serving"))
    scheduler = installed.start("--plain-pods", "direct", *selectors).wait_leading()
    installed.make_pods(namespace, [installed.pod(f"p{i}", cpu="1") for i in range(5)])

    assert sorted(installed.wait_bound(namespace, 4).values()) == [serving, serving, train, train]
    [waiting] = [name for name, pod in installed.pods(namespace).items() if "nodeName" not in pod["spec"]]
    assert "0/2 nodes are available" in installed.wait_event(namespace, waiting, "FailedScheduling")["message"]

    installed.api.patch(f"/api/v1/nodes/{other}", {"metadata": {"labels": {"volcano.sh/role": f"train-{namespace}"}}})

    assert installed.wait_bound(namespace, 5)[waiting] == other
    assert scheduler.process.poll() is None


def test_a_controller_that_is_switched_off_leaves_its_objects_alone(controlled: Controlled, namespace: str) -> None:
    process = controlled.control("--controllers=*,-job-controller")
    process.wait_for(AT_WORK)
    after_looks(process, "Job", lambda: controlled.job(namespace, "train", [controlled.task("worker", 1)]))
    controlled.make_pods(namespace, [controlled.pod("plain", cpu="1")])

    eventually(lambda: GROUP_NAME in controlled.pods(namespace)["plain"]["metadata"].get("annotations", {}))

    after_work(process)
    assert len(controlled.groups(namespace)) == 1, controlled.groups(namespace)
    assert process.terminate() == 0
    controlled.control().wait_for(AT_WORK)
    assert len(controlled.wait_groups(namespace, 2)) == 2
