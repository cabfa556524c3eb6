"""Certificates, tokens and kubeconfig files of one control plane; all of them die with it."""

from __future__ import annotations

import json
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tools.controlplane.errors import StartError

if TYPE_CHECKING:
    import trustme

SERVICE_ADDRESS = "10.0.0.1"
"""That of the Service `kubernetes`: the first one of the API server's range."""

SERVER_NAMES = (
    *("127.0.0.1", "::1", SERVICE_ADDRESS, "localhost"),
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
)


@dataclass(frozen=True)
class ControlPlaneCredentials:
    """The files that the control plane's programs are given, and the tokens of its built-in users."""

    ca_file: Path
    """PEM certificate of the authority that signed the server's certificate."""
    server_certificate: Path
    server_key: Path
    """Also used by the fault proxy, so that its clients need no other authority."""
    service_account_key: Path
    """The key that signs service account tokens, and verifies them."""
    token_file: Path
    """Static tokens, as kube-apiserver's ``--token-auth-file`` reads them."""
    admin_token: str
    controller_manager_token: str
    scheduler_token: str

    @classmethod
    def create(cls, folder: Path) -> ControlPlaneCredentials:
        """Make all of them in a folder that only this user may enter."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = cls(
            ca_file=folder / "ca.crt",
            server_certificate=folder / "server.crt",
            server_key=folder / "server.key",
            service_account_key=folder / "service-account.key",
            token_file=folder / "tokens.csv",
            admin_token=secrets.token_urlsafe(24),
            controller_manager_token=secrets.token_urlsafe(24),
            scheduler_token=secrets.token_urlsafe(24),
        )
        made._write()
        return made

    def server_context(self) -> ssl.SSLContext:
        """Return TLS settings to serve with the server's certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.server_certificate, self.server_key)
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return TLS settings that trust this authority only."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def _write(self) -> None:
        authority = _new_authority()
        server = authority.issue_cert(*SERVER_NAMES, common_name="kube-apiserver")
        authority.cert_pem.write_to_path(str(self.ca_file))
        self.server_certificate.write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
        server.private_key_pem.write_to_path(str(self.server_key))
        signer = authority.issue_cert(common_name="service-accounts")
        signer.private_key_pem.write_to_path(str(self.service_account_key))
        self.token_file.write_text(
            f'{self.admin_token},admin,admin,"system:masters"\n'
            f"{self.controller_manager_token},system:kube-controller-manager,system:kube-controller-manager\n"
            f"{self.scheduler_token},system:kube-scheduler,system:kube-scheduler\n"
        )
        for secret in (self.server_key, self.service_account_key, self.token_file):
            secret.chmod(0o600)


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, token: str, namespace: str = "default") -> Path:
    """Write a kubeconfig file of one cluster and one user, readable by this user only, and return its path."""
    context = {"cluster": "volsched", "user": "user", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "volsched", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "volsched", "context": context}],
        "current-context": "volsched",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2) + "\n")
    return path


def _new_authority() -> trustme.CA:
    try:
        import trustme  # noqa: PLC0415 - only those who run the control plane need it
    except ImportError as error:
        raise StartError("certificates are made with the package trustme: pip install -e '.[dev]'") from error
    return trustme.CA(organization_name="volsched test control plane")
