"""The address of the API server and our credentials.

kubernetes-asyncio reads the configuration (in-cluster files, kubeconfig with tokens, certificates, exec plugins, OIDC);
this module turns its result into aiohttp's form, and reads everything again when the server refuses our credentials.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import structlog

from volsched.garbage import little_garbage
from volsched.kube.client.home import have_a_home
from volsched.kube.errors import CredentialsError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_RELOAD_PAUSE_SECONDS: Final = 5.0
"""The shortest time between two reads of credentials: a plugin may ask a person or a network."""

_FILE_SECONDS: Final = 60.0
"""The time between two checks of files (a mounted token, authorities, certificates, the kubeconfig).

They change without notice, and are renewed long before they expire.
"""

LOAD_SECONDS: Final = 30.0
"""The longest time for reading the configuration, with plugins and their requests."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Source:
    """The configuration to read. All empty means: in-cluster inside a pod, else the user's kubeconfig.

    `master` replaces the address of the API server, whatever the configuration states.
    """

    kubeconfig: str = ""
    context: str = ""
    master: str = ""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files that decide how a connection is made. Equal values need no new connections.

    `digest` stands for what is in the files.
    """

    ca_file: str | None
    certificate: str | None
    key: str | None
    verify: bool
    strict: bool
    digest: str = ""

    def looked_at(self) -> Tls:
        """Return the same with what is in the files now."""
        return replace(self, digest=_digest(filter(None, (self.ca_file, self.certificate, self.key))))

    def context(self) -> ssl.SSLContext:
        """Make the settings for connections. Raises CredentialsError when a file cannot be used."""
        try:
            made = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate:
                made.load_cert_chain(self.certificate, keyfile=self.key)
        except (OSError, ssl.SSLError) as error:
            raise CredentialsError(f"the certificates of the configuration cannot be used: {error}") from error
        if not self.verify:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        if not self.strict:
            made.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return made


def is_there(source: Source) -> bool:
    """Return whether there is any configuration to read, without reading it, which takes half a second."""
    files = _kubeconfig_path(source).split(os.pathsep)
    return bool(source.master) or _is_in_cluster(source) or any(Path(file).expanduser().exists() for file in files)


class Credentials:
    """The API server's address, TLS files and the value of the Authorization header, kept fresh.

    Use `await Credentials.load(source)`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._in_cluster = _is_in_cluster(source)
        self._lock = asyncio.Lock()
        self._loaded_at = 0.0
        self._looked_at = 0.0
        self._look_every = _FILE_SECONDS
        self._config_digest = ""
        self.host = ""
        self.tls = Tls(None, None, None, verify=True, strict=True)
        self.server_name: str | None = None
        self.proxy: str | None = None
        self.authorization = ""

    @classmethod
    async def load(cls, source: Source) -> Credentials:
        """Read the configuration. Raises CredentialsError."""
        made = cls(source)
        await made._read()
        return made

    @property
    def origin(self) -> str:
        """Return where the configuration came from, for a log line."""
        return "in-cluster" if self._in_cluster else _kubeconfig_path(self._source)

    def doubt(self) -> None:
        """Look at the files soon: a connection failed as if they had changed."""
        self._look_every = _RELOAD_PAUSE_SECONDS

    async def refresh(self) -> None:
        """Look at the files when that is due, and read again what has changed. Others do not wait for it meanwhile."""
        if time.monotonic() - self._looked_at < self._look_every or self._lock.locked():
            return
        async with self._lock:
            self._looked_at, self._look_every = time.monotonic(), _FILE_SECONDS
            if self._in_cluster or self._config_digest != self._digest_of_config():
                await self._renew()
            else:
                self.tls = self.tls.looked_at()

    async def reload(self) -> bool:
        """Read the configuration again and return True if the header changed; at most once in 5 s.

        If it cannot be read now the old credentials stay: a plugin or a file may be back in a moment.
        """
        before = self.authorization
        async with self._lock:
            if self.authorization == before and time.monotonic() - self._loaded_at >= _RELOAD_PAUSE_SECONDS:
                await self._renew()
        return self.authorization != before

    async def _renew(self) -> None:
        self._loaded_at = time.monotonic()
        try:
            await self._read()
        except CredentialsError as error:
            _log.warning("credentials could not be renewed", error=str(error))

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                await self._load()
        except TimeoutError as error:
            message = f"cannot read the configuration ({self.origin}): it took longer than {LOAD_SECONDS:g}s"
            raise CredentialsError(message) from error

    async def _load(self) -> None:
        have_a_home()
        _import_library()
        from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
        from kubernetes_asyncio.config import load_incluster_config, load_kube_config  # noqa: PLC0415

        from volsched.kube.client import exec_plugin  # noqa: PLC0415

        exec_plugin.use()
        found = Configuration()
        digest = self._digest_of_config()
        try:
            if self._in_cluster:
                load_incluster_config(  # type: ignore[no-untyped-call]
                    client_configuration=found,
                    token_filename=str(SERVICE_ACCOUNT / "token"),
                    cert_filename=str(SERVICE_ACCOUNT / "ca.crt"),
                )
            else:
                path = _kubeconfig_path(self._source)
                await load_kube_config(
                    config_file=path, context=self._source.context or None, client_configuration=found
                )
        except Exception as error:  # its own, those of YAML, of files, of plugins: all mean the same
            raise CredentialsError(f"cannot read the configuration ({self.origin}): {error}") from error
        self._loaded_at = self._looked_at = time.monotonic()
        self._config_digest = digest
        self._take(found)

    def _digest_of_config(self) -> str:
        return "" if self._in_cluster else _digest(_kubeconfig_path(self._source).split(os.pathsep))

    def _take(self, found: Any) -> None:
        host = (self._source.master or found.host).rstrip("/")
        self.host = host if "://" in host else f"https://{host}"
        self.tls = Tls(
            found.ssl_ca_cert,
            found.cert_file,
            found.key_file,
            bool(found.verify_ssl),
            not found.disable_strict_ssl_verification,
        ).looked_at()
        self.server_name = found.tls_server_name
        self.proxy = found.proxy or _environment_proxy(self.host)
        self.authorization = " ".join(found.api_key.get("BearerToken", "").split())  # files end with a newline


@cache
def _import_library() -> None:
    """Import kubernetes-asyncio: 0.4 s and 40 MB, which only commands with a cluster need.

    Only the first time, at the start of a process: later, thresholds of the garbage collector are set elsewhere.
    """
    with little_garbage():
        import kubernetes_asyncio.config  # noqa: F401, PLC0415


def namespace_of_service_account() -> str:
    """Return the namespace that this process runs in, empty outside a cluster."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError:
        return ""


def _digest(paths: Iterable[str]) -> str:
    """Return a fingerprint of some files. An unreadable file has an empty part."""
    made = hashlib.sha256()
    for path in paths:
        try:
            content = Path(path).read_bytes()
        except OSError:
            content = b""
        made.update(len(content).to_bytes(8, "big") + content)
    return made.hexdigest()


def _is_in_cluster(source: Source) -> bool:
    asked = source.kubeconfig or source.context or os.environ.get("KUBECONFIG")
    return not asked and "KUBERNETES_SERVICE_HOST" in os.environ and (SERVICE_ACCOUNT / "token").is_file()


def _kubeconfig_path(source: Source) -> str:
    return os.path.expanduser(source.kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config")


def _environment_proxy(host: str) -> str | None:
    """Return the proxy that the environment names for this address; asked once, not at every request."""
    parts = urlsplit(host)
    if not parts.hostname or urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)
