"""Credential plugins of kubeconfigs (`user.exec`), with a time limit.

kubernetes-asyncio waits for a plugin for ever, lets it read our standard input, and leaves it running when the waiting
task is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import Any, Final

from kubernetes_asyncio.config import kube_config
from kubernetes_asyncio.config.config_exception import ConfigException
from kubernetes_asyncio.config.exec_provider import ExecProvider

from volsched.model.errors import shortened

PLUGIN_SECONDS: Final = 20.0
"""The time limit of a plugin. It may have to ask a network, and no person."""

LAST_SECONDS: Final = 1.0
"""The time in which a killed plugin must end."""


class ExecPlugin(ExecProvider):
    """One plugin as the kubeconfig names it. Raises ConfigException, which never holds what it printed."""

    async def run(self, previous_response: str | None = None) -> Any:
        """Run it and return the status that it prints. It is killed after the time limit."""
        spec: dict[str, Any] = {"interactive": False}
        if previous_response:
            spec["response"] = previous_response
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        code, printed, errors = await self._output(json.dumps(info))
        if code != 0:
            raise ConfigException(f"exec: {self.args[0]} ended with status {code}: {shortened(errors.strip(), 500)}")
        return self._status(printed)

    async def _output(self, info: str) -> tuple[int | None, bytes, str]:
        process = await asyncio.create_subprocess_exec(
            *self.args,
            env={**self.env, "KUBERNETES_EXEC_INFO": info},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                printed, errors = await process.communicate()
        except TimeoutError as error:
            raise ConfigException(f"exec: {self.args[0]} has not answered for {PLUGIN_SECONDS:g}s") from error
        finally:
            if process.returncode is None:
                await _kill(process)
        return process.returncode, printed, errors.decode(errors="replace")

    def _status(self, printed: bytes) -> Any:
        try:
            credential = json.loads(printed)
            version, status = credential["apiVersion"], credential["status"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ConfigException(f"exec: {self.args[0]} printed no ExecCredential with a status") from None
        if version != self.api_version:
            raise ConfigException(f"exec: {self.args[0]} speaks {version}, and {self.api_version} was asked for")
        return status


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a plugin with all its child processes, which may hold its pipes, and close these."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_SECONDS):
            await process.communicate()


def use() -> None:
    """Have kubernetes-asyncio run plugins in this way."""
    kube_config.ExecProvider = ExecPlugin  # type: ignore[attr-defined]
