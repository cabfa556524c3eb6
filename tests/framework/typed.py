"""Callbacks of tests with the annotations that say what they are shown: lambdas can have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from volsched.framework.columns.views import NodePropertiesView
from volsched.model.nodes.node import NodeAmounts, NodeInfo
from volsched.model.pods.task import TaskInfo
from volsched.model.pods.template import PodConstraints, PodRequest, PodTemplate

Callback: TypeAlias = Callable[[Any, Any], Any]


def shown(pod: type, node: type, fn: Callback) -> Callback:
    """A callback that is shown these of a pod and a node, under the name of the function that answers."""

    def asked(a_pod: Any, a_node: Any) -> Any:
        return fn(a_pod, a_node)

    asked.__annotations__ = {"a_pod": pod, "a_node": node}
    asked.__qualname__ = fn.__qualname__
    return asked


def by_facts(fn: Callback) -> Callback:
    """(template, what the node says of itself)."""
    return shown(PodTemplate, NodePropertiesView, fn)


def by_amounts(fn: Callback) -> Callback:
    """(template, amounts of the node)."""
    return shown(PodTemplate, NodeAmounts, fn)


def by_request(fn: Callback) -> Callback:
    """(how much the pod requests, amounts of the node)."""
    return shown(PodRequest, NodeAmounts, fn)


def by_constraints(fn: Callback) -> Callback:
    """(what the pod states about nodes, what the node says of itself)."""
    return shown(PodConstraints, NodePropertiesView, fn)


def by_node(fn: Callback) -> Callback:
    """(template, all of the node)."""
    return shown(PodTemplate, NodeInfo, fn)


def by_task(fn: Callback) -> Callback:
    """(this very pod, all of the node)."""
    return shown(TaskInfo, NodeInfo, fn)
