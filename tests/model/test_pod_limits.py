"""A pod that says too much is refused with words, and costs nobody anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model import api
from volsched.model.pods.limits import DEFAULT, PodLimits, exceeded
from volsched.model.pods.template import TemplateTable
from volsched.model.values.resources import Resources

Json = dict[str, Any]
FEW = PodLimits(**dict.fromkeys((name.replace("-", "_") for name in DEFAULT.by_name()), 2))
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


def pod(**spec: Any) -> api.Pod:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default", "uid": "u"}}
    return api.decode_as(api.Pod, {**body, "spec": {"containers": [{"name": "c"}], **spec}})


def conditions(count: int, values: int = 1) -> list[Json]:
    return [{"key": f"k{n}", "operator": "In", "values": [str(v) for v in range(values)]} for n in range(count)]


def node_affinity(terms: int, each: int = 1, values: int = 1) -> Json:
    term = {"matchExpressions": conditions(each, values)}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term] * terms}}}}


def pod_affinity(count: int) -> Json:
    term = {"topologyKey": "zone"}
    both = {REQUIRED: [term] * (count - 1), PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}
    return {"affinity": {"podAntiAffinity": both}}


def asking(count: int) -> Json:
    requests = {f"example.com/r{n}": "1" for n in range(count)}
    return {"containers": [{"name": "c", "resources": {"requests": requests}}, {"name": "d"}]}


TOO_MUCH: list[tuple[str, Json]] = [
    ("containers", {kind: [{"name": kind[0]}] for kind in ("containers", "initContainers", "ephemeralContainers")}),
    ("resources", asking(3)),
    ("node-terms", node_affinity(3, 0)),
    ("pod-terms", pod_affinity(3)),
    ("expressions", {"nodeSelector": {"a": "", "b": "", "c": ""}}),
    ("values", node_affinity(1, 1, 3)),
    ("tolerations", {"tolerations": [{"operator": "Exists"}] * 3}),
    ("volumes", {"volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(3)]}),
    ("resource-claims", {"resourceClaims": [{"name": f"c{n}", "resourceClaimName": "c"} for n in range(3)]}),
    ("ports", {"containers": [{"name": "c", "ports": [{"containerPort": n} for n in (1, 2, 3)]}]}),
]


@pytest.mark.parametrize(("name", "spec"), TOO_MUCH, ids=[name for name, _ in TOO_MUCH])
def test_what_is_too_much_is_named_with_the_argument_that_would_let_it(name: str, spec: Json) -> None:
    field = name.replace("-", "_")
    [said] = exceeded(pod(**spec).spec, replace(DEFAULT, **{field: 2}))

    assert said.path.startswith("spec.")
    assert said.message.startswith("has 3 ")
    assert said.message.endswith(f"more than the 2 of --pod-limit={name}")
    assert exceeded(pod(**spec).spec, replace(DEFAULT, **{field: 3})) == ()


def test_every_limit_is_tried() -> None:
    assert {name for name, _ in TOO_MUCH} == set(DEFAULT.by_name())


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_conditions_and_values_of_all_terms_are_counted(terms: int, each: int, values: int) -> None:
    limits = replace(DEFAULT, expressions=6, values=12)
    said = {error.message.split("=")[-1] for error in exceeded(pod(**node_affinity(terms, each, values)).spec, limits)}

    assert said == {
        name for name, is_over in (("expressions", terms * each > 6), ("values", terms * each * values > 12)) if is_over
    }


def test_such_a_pod_is_not_placed_and_its_terms_are_not_kept_while_what_it_asks_for_counts() -> None:
    table = TemplateTable(limits=FEW)
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    template = table.intern(pod(containers=[container], **node_affinity(10_000)))

    assert [refusal.path for refusal in template.refusals] == [
        "spec.affinity.nodeAffinity",
        "spec.affinity",
        "spec.affinity",
    ]
    assert template.required_nodes is None
    assert template.request["cpu"] == 2000


@pytest.mark.parametrize("count", [2, 3])
def test_of_too_many_containers_the_sum_counts_and_nothing_of_each_is_kept(count: int) -> None:
    containers = [
        {"name": f"c{n}", "image": f"i{n}", "resources": {"requests": {"cpu": "2", "example.com/r": "1"}}}
        for n in range(count)
    ]
    template = TemplateTable(limits=FEW).intern(pod(containers=containers))

    is_much = count == 3
    assert [refusal.path for refusal in template.refusals] == (["spec.containers"] if is_much else [])
    assert template.request == Resources({"cpu": 2000 * count, "example.com/r": 1000 * count})
    assert template.containers == count
    assert (len(template.images), len(template.container_amounts)) == ((0, 0) if is_much else (2, 2))


def test_what_real_pods_say_is_within_the_limits() -> None:
    spec = pod(**asking(12), **node_affinity(20, 10, 20), tolerations=[{"key": f"t{n}"} for n in range(40)]).spec
    assert exceeded(spec, DEFAULT) == ()
