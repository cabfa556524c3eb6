"""The package's file of fields beside a real API server: what it declares, and what it says under strict validation."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tools.controlplane import ApiServerError, ControlPlane
from tools.schemas import FILE, schemas_of, text_of
from volsched.validation.fields import field_faults

pytest_plugins = ["tests.cluster.scheduling_fixtures"]

TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "kubernetes.io/hostname"}
SPEC: dict[str, Any] = {
    "schedulerName": "volsched",
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    },
    "topologySpreadConstraints": [{**TERM, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    "schedulingGates": [{"name": "g"}],
    "resourceClaims": [{"name": "r", "resourceClaimTemplateName": "t"}],
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}, "claims": [{"name": "r"}]},
            "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        }
    ],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
}
WORKLOADS: dict[str, Any] = {
    "api/v1 pods": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}, "spec": SPEC},
    "apis/apps/v1 deployments": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1,
            "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC},
        },
    },
    "apis/batch/v1 jobs": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 1, "completions": 1, "template": {"spec": {**SPEC, "restartPolicy": "Never"}}},
    },
}


@pytest.fixture
def server(manifests_applied: ControlPlane) -> ControlPlane:
    return manifests_applied


def test_the_file_is_what_this_api_server_declares(server: ControlPlane) -> None:
    assert text_of(schemas_of(server.api)) == FILE.read_text(), "run `make schemas`"


def with_a_slip(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each way to misspell one key of an object: the path as Kubernetes writes it, and the object."""
    if isinstance(value, dict):
        for key in value:
            wrong = {(f"{name}Z" if name == key else name): inner for name, inner in value.items()}
            yield f"{path}.{key}Z", wrong
            for where, inner in with_a_slip(value[key], f"{path}.{key}"):
                yield where, {**value, key: inner}
    elif isinstance(value, list):
        for number, item in enumerate(value):
            for where, inner in with_a_slip(item, f"{path}[{number}]"):
                yield where, [*value[:number], inner, *value[number + 1 :]]


def asked(server: ControlPlane, path: str, body: Any) -> str:
    """What the API server says to `kubectl apply --dry-run=server --validate=strict`."""
    try:
        server.api.create(f"{path}?dryRun=All&fieldValidation=Strict", body)
    except ApiServerError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("resource", WORKLOADS)
def test_what_is_unknown_to_the_api_server_is_unknown_here_and_nothing_else(
    server: ControlPlane, namespace: str, resource: str
) -> None:
    prefix, plural = resource.split(" ")
    path = f"/{prefix}/namespaces/{namespace}/{plural}"
    right = WORKLOADS[resource]
    assert "unknown field" not in asked(server, path, right)
    assert list(field_faults(right)) == []
    slips = [(where.removeprefix("."), wrong) for where, wrong in with_a_slip(right)]
    slips = [(where, wrong) for where, wrong in slips if {"apiVersion", "kind", "metadata"} <= wrong.keys()]
    named = 0

    for where, wrong in slips:
        given = json.loads(json.dumps(copy.deepcopy(wrong)))
        theirs = re.findall(r'unknown field \\?"([^"\\]+)', asked(server, path, given))
        ours = [fault.field for fault in field_faults(given)]
        assert ours[:1] == theirs[:1], where
        assert theirs[:1] in ([], [where])
        named += len(theirs[:1])
    assert named > 40  # all but keys that are free, as those of labels
