"""What one object of many parts costs grows no faster than the parts: calls are counted, from its text to its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, Final

import pytest

from drills.fuzz_decisions import decide_about
from volsched.model import api

Json = dict[str, Any]

FEW, MANY = 300, 1_200
SELECTOR: Final = {"matchLabels": {"app": "web"}}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def a_pod(metadata: Json | None = None, **spec: Any) -> Json:
    meta = {"name": "x", "namespace": "default", "uid": "x", "resourceVersion": "5", **(metadata or {})}
    return {"metadata": meta, "spec": {"schedulerName": "volsched", "containers": [a_container("c")], **spec}}


def a_container(name: str, **fields: Any) -> Json:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": "1m"}}, **fields}


def a_group(**spec: Any) -> Json:
    meta = {"name": "g", "namespace": "default", "uid": "g", "resourceVersion": "5"}
    return {"metadata": meta, "spec": {"minMember": 1, **spec}}


def amounts(count: int) -> dict[str, str]:
    return {f"x.io/r{number}": "1" for number in range(count)}


def expressions(count: int) -> list[Json]:
    return [{"key": f"k{number}", "operator": "In", "values": ["a"]} for number in range(count)]


def node_affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


PODS: Final[dict[str, Callable[[int], Json]]] = {
    "tolerations": lambda n: a_pod(tolerations=[{"key": f"t{i}", "operator": "Exists"} for i in range(n)]),
    "bad tolerations": lambda n: a_pod(tolerations=[{"key": f"t{i}", "operator": "Odd"} for i in range(n)]),
    "containers": lambda n: a_pod(containers=[a_container(f"c{i}") for i in range(n)]),
    "init containers": lambda n: a_pod(initContainers=[a_container(f"i{i}", restartPolicy="Always") for i in range(n)]),
    "ports": lambda n: a_pod(containers=[a_container("c", ports=[{"hostPort": 1 + i} for i in range(n)])]),
    "volumes": lambda n: a_pod(
        volumes=[{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"p{i}"}} for i in range(n)]
    ),
    "node selector": lambda n: a_pod(nodeSelector={f"k{i}": "v" for i in range(n)}),
    "terms": lambda n: a_pod(affinity=node_affinity(*({"matchExpressions": [one]} for one in expressions(n)))),
    "keys": lambda n: a_pod(affinity=node_affinity({"matchExpressions": expressions(n)})),
    "pod affinity": lambda n: a_pod(
        affinity={"podAffinity": {REQUIRED: [{"topologyKey": f"k{i}", "labelSelector": SELECTOR} for i in range(n)]}}
    ),
    "spreading": lambda n: a_pod(
        topologySpreadConstraints=[
            {"maxSkew": 1, "topologyKey": f"k{i}", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR}
            for i in range(n)
        ]
    ),
    "claims": lambda n: a_pod(resourceClaims=[{"name": f"c{i}", "resourceClaimName": f"c{i}"} for i in range(n)]),
    "resources": lambda n: a_pod(containers=[a_container("c", resources={"requests": amounts(n)})]),
    "overhead": lambda n: a_pod(overhead=amounts(n)),
    "annotations": lambda n: a_pod({"annotations": {f"volcano.sh/k{i}": "v" for i in range(n)}}),
}
GROUPS: Final[dict[str, Callable[[int], Json]]] = {
    "minResources": lambda n: a_group(minResources=amounts(n)),
    "minTaskMember": lambda n: a_group(minTaskMember={f"t{i}": 1 for i in range(n)}),
    "subGroupPolicy": lambda n: a_group(subGroupPolicy=[{"name": f"s{i}"} for i in range(n)]),
}
WAYS = [(api.Pod, name, make) for name, make in PODS.items()] + [(api.PodGroup, n, make) for n, make in GROUPS.items()]


def calls_of(kind: type[api.ApiObject], written: Json) -> int:
    """How many functions are called to read an object, to decide about it in each configuration, and to lose it."""
    calls, text = 0, json.dumps(written)

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decide_about([api.decode_text(kind, text)])
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.slow(reason="each of some twenty kinds of broad objects is decided about three times")
@pytest.mark.parametrize(("kind", "what", "make"), WAYS, ids=[name for _, name, _ in WAYS])
def test_what_an_object_costs_grows_no_faster_than_it_does(
    kind: type[api.ApiObject], what: str, make: Callable[[int], Json]
) -> None:
    calls_of(kind, make(1))  # what is worked out but once
    one, few, many = (calls_of(kind, make(parts)) for parts in (1, FEW, MANY))

    assert many - one <= 1.5 * (MANY / FEW) * max(few - one, FEW), what
