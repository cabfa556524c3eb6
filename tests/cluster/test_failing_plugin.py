"""A plugin that fails over the pods of one tenant stops nobody else; one that always fails is told to its owner."""

from __future__ import annotations

import pytest

from tests.cluster.control_plane import MakeNodes
from tests.cluster.scheduling import CONFIGMAP, CONFIGURATION, SYSTEM, Installed, SchedulerProcess
from tests.cluster.signals import after_sessions, touch

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

ODD = """
def fails(task, node):
    if task.name.startswith("odd"):
        raise ZeroDivisionError("over " + task.name)
"""
ALWAYS = """
def fails(task, node):
    raise ZeroDivisionError("always")
"""


def prelude(fails: str) -> str:
    """Give the plugin nodeorder a predicate, as if it were in its module."""
    return f"""
import plugins.nodeorder.plugin as plugin
from volsched.framework.rules import Predicate
exec({fails!r}, vars(plugin))
opened = plugin.NodeOrderPlugin.on_session_open
def on_session_open(self, registrar):
    opened(self, registrar)
    registrar.register(Predicate(plugin.fails))
plugin.NodeOrderPlugin.on_session_open = on_session_open
"""


def test_others_are_placed_and_the_pod_group_says_which_plugin_failed(
    installed: Installed, namespace: str, make_nodes: MakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SchedulerProcess, "prelude", prelude(ODD))
    make_nodes(2, cpu="8")
    scheduler = installed.start().wait_leading()

    installed.make_gang(namespace, "odd", 2, cpu="1")
    installed.make_gang(namespace, "good", 2, cpu="1")

    installed.wait_bound(namespace, 2)
    said = installed.wait_event(namespace, "odd", "PluginError")["message"]
    assert said.startswith('plugin "nodeorder" failed over this pod group (ZeroDivisionError: over odd-')
    assert {name[:4] for name, pod in installed.pods(namespace).items() if "nodeName" in pod["spec"]} == {"good"}
    assert scheduler.metric('volsched_plugin_errors_total{plugin="nodeorder"}') >= 1


def test_a_plugin_that_fails_again_and_again_is_told_on_the_configuration(
    installed: Installed, namespace: str, make_nodes: MakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SchedulerProcess, "prelude", prelude(ALWAYS))
    node, _ = make_nodes(2, cpu="8")
    installed.configure(CONFIGURATION)
    scheduler = installed.start("--scheduler-configmap", CONFIGMAP).wait_leading()
    for number in range(8):  # one after another has its session in which it fails
        installed.make_gang(namespace, f"gang-{number}", 1, cpu="1")
        installed.wait_event(namespace, f"gang-{number}", "PluginError")

    told = installed.wait_event(SYSTEM, CONFIGMAP.partition("/")[2], "PluginFailing")
    assert (
        'plugin "nodeorder" failed in 3 of the last 10 sessions, now with ZeroDivisionError: always' in told["message"]
    )
    after_sessions(scheduler, 2, lambda: touch(installed, node))  # what ends the process ends it in a session
    assert scheduler.process.poll() is None
