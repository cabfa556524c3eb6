"""Redacted messages: a message on an object names only objects of the same namespace, queues and nodes.

Refusals keep the whole message, for readers with the right (``volsched explain``, the page). Messages in conditions and
Events of a namespace are redacted here. Free texts of tenants, such as the name of a queue that does not exist, are
made visible here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from functools import cache
from typing import Final

from volsched.model.cluster import Cluster
from volsched.model.job import NATIVE
from volsched.model.values.visible import visible

ANOTHER: Final = "another job"
"""The replacement for an object of another namespace whose queue is not known."""

_DEVICES: Final = "deviceclass"
"""With which names of resources begin that stand for devices."""


@cache
def _key() -> re.Pattern[str]:
    """Return a namespace and a name as messages have them. Names of resources and labels have dots before the slash."""
    return re.compile(
        r"""(?P<kind>\b(?:pod|PodGroup|job|gang|claim|resourceclaim|persistentvolumeclaim)\s)?(?P<quote>["']?)"""
        r"(?<![\w./-])(?P<namespace>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/"
        rf"(?P<name>(?:{NATIVE})?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?![\w/-])(?P=quote)"
    )


def within(cluster: Cluster, namespace: str, text: str) -> str:
    """Return a visible text that names only objects of this namespace. "" is the namespace of nodes and queues."""

    def instead(other: str, name: str, *, is_named: bool) -> str | None:
        if other == namespace:
            return None
        job = cluster.jobs.get(f"{other}/{name}") or cluster.jobs.get(f"{other}/{NATIVE}{name}")
        if job is not None:
            return of_queue(job.queue)
        return ANOTHER if is_named or other in cluster.queue_cache.namespaces else None

    return _replaced(visible(text), instead)


def without(text: str, may_name: Callable[[str], bool], known: Container[str] = ()) -> str:
    """Return a text that names only objects of namespaces that the reader may see.

    For callers without a cluster: everything that looks like a namespace and a name counts as one, except ``known``
    resources.
    """

    def instead(namespace: str, name: str, *, is_named: bool) -> str | None:
        if may_name(namespace) or (not is_named and (namespace == _DEVICES or f"{namespace}/{name}" in known)):
            return None
        return ANOTHER

    return _replaced(text, instead)


def _replaced(text: str, instead: Callable[..., str | None]) -> str:
    """Return a text with other words for the keys in it, where there are some; None leaves a key as it is."""
    if "/" not in text:
        return text

    def shown(found: re.Match[str]) -> str:
        if (found["namespace"] + found["name"]).isdecimal():
            return found[0]
        words = instead(found["namespace"], found["name"], is_named=found["kind"] is not None)
        return found[0] if words is None else words

    return _key().sub(shown, text)


def of_queue(queue: str) -> str:
    """Return what stands for a job of another namespace."""
    return f'a job of queue "{queue}"' if queue else ANOTHER
