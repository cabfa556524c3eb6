"""Annotations of pods that plugins name: part of what pods are alike in, from the moment that one asks for them."""

from __future__ import annotations

from typing import Any

from tests.plugins.capacity_card.clusters import A, H, cards, configuration, rig
from volsched.mirror.apply import Mirror
from volsched.model.annotations import LONGEST
from volsched.model.changes import Put
from volsched.model.errors import FieldError
from volsched.registry import load_profile
from volsched.testing.builders import a_cluster

KEY, OTHER = "example.com/model", "example.com/mode"


def a_mirror(*annotations: dict[str, str]) -> Mirror:
    cluster = a_cluster().group("g")
    for number, found in enumerate(annotations):
        cluster.pod(f"p{number}", "g", annotations={"scheduling.k8s.io/group-name": "g", **found}, cpu=1)
    mirror = Mirror()
    mirror.apply(cluster.changes())
    return mirror


def templates(mirror: Mirror) -> list[dict[str, Any]]:
    """The annotations in each pod's template."""
    return [
        dict(task.template.annotations) for task in sorted(mirror.cluster.tasks.values(), key=lambda task: task.name)
    ]


def test_pods_differ_in_annotations_that_are_named_and_in_no_others() -> None:
    mirror = a_mirror({KEY: "a", OTHER: "x"}, {KEY: "b"}, {OTHER: "y"})
    assert len({task.template.id for task in mirror.cluster.tasks.values()}) == 1

    mirror.keep_annotations([KEY])

    assert templates(mirror) == [{KEY: "a"}, {KEY: "b"}, {}]
    assert len({task.template.id for task in mirror.cluster.tasks.values()}) == 3


def test_a_name_with_a_star_is_a_family_and_what_nobody_names_any_more_is_forgotten() -> None:
    mirror = a_mirror({KEY: "a", OTHER: "x"}, {KEY: "b"})

    mirror.keep_annotations(["example.com/*"])
    assert templates(mirror) == [{KEY: "a", OTHER: "x"}, {KEY: "b"}]

    mirror.keep_annotations([])
    assert templates(mirror) == [{}, {}]
    assert len({task.template.id for task in mirror.cluster.tasks.values()}) == 1


def test_a_pod_that_asks_for_something_by_an_annotation_alone_is_no_best_effort_pod_while_that_is_named() -> None:
    cluster = a_cluster().group("g").pod("p", "g", annotations={KEY: "a"})
    mirror = Mirror()
    mirror.apply(cluster.changes())
    best_effort = mirror.cluster.queue_cache.best_effort
    assert [job.name for job in best_effort.values()] == ["g"]

    mirror.keep_annotations([KEY], asking=[KEY])
    assert not best_effort

    mirror.keep_annotations([])
    assert [job.name for job in best_effort.values()] == ["g"]


def test_a_pod_whose_annotation_is_too_long_is_refused_while_that_is_named() -> None:
    mirror = a_mirror({KEY: "a" * 10 * LONGEST}, {KEY: "a" * LONGEST})
    first, second = sorted(mirror.cluster.tasks.values(), key=lambda task: task.name)
    refused = (FieldError(f"metadata.annotations[{KEY}]", "has more than 4096 characters"),)
    for keys, expected in (([KEY], refused), ([], ()), ([KEY], refused)):
        mirror.keep_annotations(keys)
        assert first.template.refusals == expected
        assert second.template.refusals == ()
    assert len(first.template.annotations[KEY]) == LONGEST + 1


def test_pods_that_come_later_are_read_alike() -> None:
    mirror = a_mirror({KEY: "a"})
    mirror.keep_annotations([KEY])

    mirror.apply([change for change in a_cluster().pod("late", "g", annotations={KEY: "a"}, cpu=1).changes()
                  if isinstance(change, Put)])  # fmt: skip

    assert len({task.template.id for task in mirror.cluster.tasks.values()}) == 1


def test_another_configuration_names_other_annotations() -> None:
    """Reloaded to quotas by card, a scheduler knows the cards of pods that it has seen before."""
    cluster = cards().cards("a1", A).cards("h1", H).quota("q", {H: 1}).gang("j", 3, card=H)
    scheduling = rig(cluster)
    plain, _ = load_profile(configuration().replace('  - {"name": "capacity-card", "arguments": {}}\n', ""))
    with_quotas = scheduling.scheduler.profile

    scheduling.scheduler.reconfigure(plain)
    assert templates(scheduling.mirror) == [{}, {}, {}]
    scheduling.scheduler.reconfigure(with_quotas)

    assert list(scheduling.cycle().bindings.values()) == ["h1"]
