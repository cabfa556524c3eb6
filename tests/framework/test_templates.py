"""What is kept of templates has an end, however many there were."""

from __future__ import annotations

import pytest

from plugins.mgpu.usage import Requests
from tests.model.objects import pod
from tests.simulation.clusters import Manifest, node, result
from tests.simulation.clusters import pod as a_pod
from volsched.framework import templates
from volsched.framework.templates import keep
from volsched.model.pods.template import PodTemplate, TemplateTable

EVERY_CACHE = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: predicates}
  - {name: binpack}
  - {name: nodeorder}
  - {name: mgpu, arguments: {predicate.MGPUEnable: true}}
  - {name: crossquota, arguments: {gpu-resource-names: nvidia.com/gpu, quota.cpu: 8}}
"""


def some_templates(count: int) -> list[PodTemplate]:
    table = TemplateTable()
    specs = ({"containers": [{"name": "a", "resources": {"requests": {"cpu": n + 1}}}]} for n in range(count))
    return [table.intern(pod(spec)) for spec in specs]


def test_too_many_are_forgotten_and_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_KEPT", 3)
    known: dict[int, str] = {}
    made = some_templates(4)

    assert [keep(known, template, str(template.id)) for template in made] == [str(t.id) for t in made]

    assert known == {made[-1].id: str(made[-1].id)}


def test_a_plugin_keeps_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_KEPT", 3)
    requests = Requests()

    for template in some_templates(10):
        requests.of(template)

    assert len(requests._known) <= 3


def test_what_is_decided_does_not_depend_on_how_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu_node = node("gpu-1", cpu=16)
    gpu_node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    world: list[Manifest] = [gpu_node, *(node(f"n{number}", cpu=6) for number in range(3))]
    world += [a_pod(f"p{number}", cpu=1 + number % 5) for number in range(12)]

    usual = result(*world, config=EVERY_CACHE)
    monkeypatch.setattr(templates, "MOST_KEPT", 1)

    assert result(*world, config=EVERY_CACHE) == usual
