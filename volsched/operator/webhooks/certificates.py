"""`volsched certificates`: makes or renews the webhooks' certificate, and has the API server trust it.

The API server is told to trust the new authority before it is used, and goes on trusting the former one. So no review
fails while the new files find their way into the pods, and a run that ends halfway does no harm: the next one begins
with the present state.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api, path_segment
from volsched.kube.errors import ApiError
from volsched.kube.serve.certificates import Pair, bundle_with, trusts

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CertificateTarget:
    """The wanted objects: a Secret with a certificate for a Service, and hooks of one configuration that trust it."""

    namespace: str
    service: str
    secret: str
    configuration: str
    hosts: tuple[str, ...] = ()
    valid_for: timedelta = timedelta(days=365)
    renew_before: timedelta = timedelta(days=90)
    source: Source = field(default_factory=Source)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that the certificate is for. The API server uses the first."""
        service = f"{self.service}.{self.namespace}"
        return (f"{service}.svc", service, self.service, f"{service}.svc.cluster.local", *self.hosts)


async def ensure(wanted: CertificateTarget) -> list[str]:
    """Write what is missing or about to end. Return what was done in words. Raises CredentialsError and ApiError."""
    api = await Api.connect(wanted.source)
    try:
        return await _ensure(api, wanted, datetime.now(UTC))
    finally:
        await api.close()


async def _ensure(api: Api, wanted: CertificateTarget, now: datetime) -> list[str]:
    configuration = await _configuration(api, wanted)
    secret = await _found(api, _secret_path(wanted), "secrets")
    pair = Pair.from_secret((secret or {}).get("data") or {})
    reason = "there is none yet" if pair is None else pair.problem(wanted.names, now, wanted.renew_before)
    done: list[str] = []
    if pair is None or reason:
        pair = Pair.made(wanted.names, now, wanted.valid_for)
        done.append(f"made a certificate that is valid until {now + wanted.valid_for:%Y-%m-%d}: {reason}")
    if _trust(configuration, pair, now):
        await _put(api, _configuration_path(wanted), "validatingwebhookconfigurations", configuration)
        done.append(f"ValidatingWebhookConfiguration/{wanted.configuration} trusts it")
    if reason:
        await _write_secret(api, wanted, secret, pair)
        done.append(f"Secret/{wanted.namespace}/{wanted.secret} has it")
    return done


def _trust(configuration: Json, pair: Pair, now: datetime) -> bool:
    """Have every hook trust the pair's authority. Return whether anything had to be changed."""
    changed = False
    for hook in configuration.get("webhooks") or ():
        client = hook["clientConfig"]
        known = base64.b64decode(client.get("caBundle") or "")
        if not trusts(known, pair.authority):
            client["caBundle"] = base64.b64encode(bundle_with(pair.authority, known, now)).decode()
            changed = True
    return changed


async def _configuration(api: Api, wanted: CertificateTarget) -> Json:
    found = await _found(api, _configuration_path(wanted), "validatingwebhookconfigurations")
    if found is None:
        message = (
            f"there is no ValidatingWebhookConfiguration {wanted.configuration}; apply manifests/components/webhooks"
        )
        raise ApiError(404, "NotFound", message)
    return found


async def _write_secret(api: Api, wanted: CertificateTarget, secret: Json | None, pair: Pair) -> None:
    if secret is not None:
        data = {**(secret.get("data") or {}), **pair.as_data()}
        await _put(api, _secret_path(wanted), "secrets", {**secret, "data": data})
        return
    made = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": wanted.secret, "namespace": wanted.namespace},
        "data": pair.as_data(),
    }
    collection, _, _ = _secret_path(wanted).rpartition("/")
    await api.request("POST", collection, "secrets", body=json.dumps(made).encode())


async def _found(api: Api, path: str, resource: str) -> Json | None:
    try:
        found: Json = await api.get(path, resource)
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    return found


async def _put(api: Api, path: str, resource: str, body: Json) -> None:
    """Replace an object. A 409 if it was changed since it was read."""
    await api.request("PUT", path, resource, body=json.dumps(body).encode())


def _secret_path(wanted: CertificateTarget) -> str:
    return f"/api/v1/namespaces/{path_segment(wanted.namespace)}/secrets/{path_segment(wanted.secret)}"


def _configuration_path(wanted: CertificateTarget) -> str:
    group = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    return f"{group}/{path_segment(wanted.configuration)}"
