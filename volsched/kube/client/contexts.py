"""The contexts of a kubeconfig file: for shell completion, and for the name of a cluster."""

from __future__ import annotations

from typing import Any

from volsched.kube.errors import CredentialsError


def context_names(kubeconfig: str = "") -> list[str]:
    """Return the contexts of a file, by default of the files in KUBECONFIG. Raises CredentialsError."""
    contexts, _ = _contexts(kubeconfig)
    return [str(context["name"]) for context in contexts]


def current_context(kubeconfig: str = "") -> str:
    """Return the name of the current context of a file, by default of the files in KUBECONFIG; empty: none.

    Raises CredentialsError.
    """
    _, current = _contexts(kubeconfig)
    return str(current["name"]) if current is not None else ""


def _contexts(kubeconfig: str) -> tuple[list[Any], Any]:
    from kubernetes_asyncio.config import ConfigException, list_kube_config_contexts  # noqa: PLC0415 - takes long

    try:
        contexts, current = list_kube_config_contexts(kubeconfig or None)
    except (ConfigException, OSError, ValueError) as error:
        raise CredentialsError(f"cannot read the contexts: {error}") from error
    return contexts, current
