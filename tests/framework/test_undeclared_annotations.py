"""A plugin that reads an annotation which nobody declares: who it is, and what is to be done, is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from volsched import registry
from volsched.framework.boundary import Bounds
from volsched.framework.columns.views import NodePropertiesView
from volsched.framework.config.configuration import PluginOption
from volsched.framework.config.entries import declared_annotations
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.framework.registration import Registrar
from volsched.framework.rules import Predicate
from volsched.mirror.apply import Mirror
from volsched.mirror.kept import kept_annotations
from volsched.model.nodes.node import NodeInfo
from volsched.model.plan import StepRecorder
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodTemplate
from volsched.scheduler import Scheduler
from volsched.testing.builders import Rig, SteadyClock, a_cluster

KEY, OTHER = "example.com/rack", "example.com/undeclared"

Read = Callable[[TaskInfo, NodeInfo], Mapping[str, str]]
READS: dict[str, Read] = {
    "TASK_ANNOTATIONS": lambda task, node: task.spec.annotations,
    "GROUP_ANNOTATIONS": lambda task, node: task.job.spec.annotations if task.job is not None else {},
    "QUEUE_ANNOTATIONS": lambda task, node: {},
    "NODE_ANNOTATIONS": lambda task, node: node.annotations,
}


class Reader:
    """A plugin that lets pods go where an annotation is what it reads."""

    name = "reader"
    TASK_ANNOTATIONS: ClassVar[tuple[str, ...]] = (KEY,)
    GROUP_ANNOTATIONS: ClassVar[tuple[str, ...]] = (KEY,)
    QUEUE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (KEY,)
    NODE_ANNOTATIONS: ClassVar[tuple[str, ...]] = (KEY,)

    def __init__(self, read: Read, key: str) -> None:
        self._read = read
        self._key = key
        self.found: set[str | None] = set()

    def on_session_open(self, registrar: Registrar) -> None:
        queues = registrar.cluster.queues

        def look(task: TaskInfo, node: NodeInfo) -> None:
            annotations = self._read(task, node) or (
                queues[task.job.queue].spec.annotations if task.job is not None else {}
            )
            self.found.add(annotations.get(self._key))

        registrar.register(Predicate(look))


def a_rig(plugin: Any) -> Rig:
    cluster = a_cluster().node("n", cpu=8, metadata={"annotations": {KEY: "a", OTHER: "b"}})
    cluster.queue("q", annotations={KEY: "a", OTHER: "b"})
    cluster.group("g", "q", 1, annotations={KEY: "a", OTHER: "b"})
    cluster.pod("p", "g", cpu=1, annotations={KEY: "a", OTHER: "b"})
    mirror = Mirror()
    mirror.apply(cluster.changes())
    profile, _ = registry.load_profile(DEFAULT_CONFIGURATION)
    profile = replace(profile, plugins=(*profile.plugins, ((PluginOption("reader"), plugin),)))
    recorder, clock = StepRecorder(), SteadyClock()
    scheduler = Scheduler(mirror, profile, recorder, clock, bounds=Bounds(contains_faults=True))
    return Rig(mirror, scheduler, recorder, clock)


@pytest.mark.parametrize("attribute", READS)
def test_what_a_plugin_declares_it_finds(attribute: str) -> None:
    plugin = Reader(READS[attribute], KEY)
    rig = a_rig(plugin)
    placed = {name for _ in range(2) for name in rig.cycle().bindings}
    assert placed == {"p"}
    assert plugin.found == {"a"}


@pytest.mark.parametrize("attribute", READS)
def test_what_nobody_declares_fails_with_the_plugin_and_the_remedy(attribute: str) -> None:
    rig = a_rig(Reader(READS[attribute], OTHER))
    for _ in range(2):
        assert not rig.cycle().bindings
    refusal = rig.cluster.jobs["default/g"].refusal
    assert refusal is not None
    assert refusal.plugin == "reader"
    assert 'plugin "reader" failed' in refusal.message
    assert f'reads the annotation "{OTHER}" without declaring it' in refusal.message
    assert attribute in refusal.message


def test_views_that_record_what_is_read_and_templates_tell_it_too() -> None:
    class OfFacts:
        name = "properties"

        def on_session_open(self, registrar: Registrar) -> None:
            def look(template: PodTemplate, node: NodePropertiesView) -> None:
                node.annotations.get(OTHER)

            registrar.register(Predicate(look))

    class OfTemplates:
        name = "templates"

        def on_session_open(self, registrar: Registrar) -> None:
            def look(template: PodTemplate, node: NodePropertiesView) -> None:
                template.annotations.get(OTHER)

            registrar.register(Predicate(look))

    for plugin, remedy in ((OfFacts(), "NODE_ANNOTATIONS"), (OfTemplates(), "POD_ANNOTATIONS")):
        rig = a_rig(plugin)
        rig.cycle(), rig.cycle()
        refusal = rig.cluster.jobs["default/g"].refusal
        assert refusal is not None
        assert f"add it to {remedy} of its class" in refusal.message


def test_another_configuration_finds_what_its_plugins_declare() -> None:
    rig = a_rig(Reader(READS["NODE_ANNOTATIONS"], KEY))

    class Later(Reader):
        NODE_ANNOTATIONS = (OTHER,)

    later = Later(READS["NODE_ANNOTATIONS"], OTHER)
    profile = replace(
        rig.scheduler.profile, plugins=(*rig.scheduler.profile.plugins[:-1], ((PluginOption("reader"), later),))
    )
    rig.scheduler.reconfigure(profile)
    rig.cycle(), rig.cycle()
    assert later.found == {None}  # what was dropped before comes back with the object


def test_every_installed_plugin_and_action_declares_what_others_may_rely_on() -> None:
    kept = kept_annotations(registry.installed_annotations())
    assert kept.of_kind("PodGroup").covers("volcano.sh/card.request")
    assert kept.of_kind("Queue").covers("volsched.io/default-duration")
    assert kept.of_kind("Node").covers("volcano.sh/crossquota-cpu")
    assert kept.of_kind("Pod").covers("vke.volcengine.com/gpu-index-container-main")
    assert not kept.of_kind("Pod").covers("example.com/x")
    assert not kept.of_kind("VolumeAttachment").covers("a")


def test_one_text_is_taken_for_a_tuple_of_one() -> None:
    class Sloppy:
        GROUP_ANNOTATIONS = KEY

    assert declared_annotations(Sloppy())["GROUP_ANNOTATIONS"] == (KEY,)
