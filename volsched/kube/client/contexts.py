"""The contexts of a kubeconfig file, for shell completion."""

from __future__ import annotations

from volsched.kube.errors import CredentialsError


def context_names(kubeconfig: str = "") -> list[str]:
    """Return the contexts of a file, by default of the files in KUBECONFIG. Raises CredentialsError."""
    from kubernetes_asyncio.config import ConfigException, list_kube_config_contexts  # noqa: PLC0415 - takes long

    try:
        contexts, _ = list_kube_config_contexts(kubeconfig or None)
    except (ConfigException, OSError, ValueError) as error:
        raise CredentialsError(f"cannot read the contexts: {error}") from error
    return [str(context["name"]) for context in contexts]
