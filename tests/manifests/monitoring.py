"""As much of the Prometheus operator's kinds as our components use; the API server would warn of any other field."""

from __future__ import annotations

from tests.manifests.rendering import Json

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
MONITORING = {
    "ServiceMonitor": {
        "selector": {"type": "object", "properties": {"matchLabels": TEXTS}},
        "endpoints": {
            "type": "array",
            "items": {"type": "object", "properties": {"port": {"type": "string"}, "interval": {"type": "string"}}},
        },
    },
    "PrometheusRule": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "rules": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "alert": {"type": "string"},
                                "expr": {"type": "string"},
                                "for": {"type": "string"},
                                "labels": TEXTS,
                                "annotations": TEXTS,
                            },
                        },
                    },
                },
            },
        }
    },
}
"""Of each kind, the fields of its spec."""


def a_crd(kind: str, spec: Json) -> Json:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec, "required": [*spec]}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    group = "monitoring.coreos.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
