"""Certificates of the webhooks for clusters without cert-manager.

Each pair has a certificate authority of its own, whose key is dropped after it has signed. A reader of the Secret can
serve as the webhooks, but cannot sign. So a renewal brings a new authority, and the API server has to trust the one
before as well until every replica has the new files: `bundle_with` keeps both.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY, CERTIFICATE, KEY = "ca.crt", "tls.crt", "tls.key"
"""Keys of a Secret, as cert-manager writes them."""

SKEW: Final = timedelta(minutes=5)
"""Clocks of the API server may be behind by this much."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A serving certificate and its key, with the certificate of the authority that signed it; all PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def made(cls, names: Sequence[str], begin: datetime, lifetime: timedelta) -> Pair:
        """Make one for these DNS names and IP addresses. The first is its subject."""
        signer, served = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        issuer = _named(f"volsched, {begin:%Y-%m-%dT%H:%M:%SZ}")
        span = (begin - SKEW, begin + lifetime)
        authority = _unsigned(issuer, issuer, signer.public_key(), *span)
        authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        authority = authority.add_extension(_usage(signs=True), critical=True)
        leaf = _unsigned(_named(names[0]), issuer, served.public_key(), *span)
        leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        leaf = leaf.add_extension(_usage(signs=False), critical=True)
        leaf = leaf.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        leaf = leaf.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        return cls(
            authority.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
            leaf.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
            served.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    @classmethod
    def from_secret(cls, data: Mapping[str, str]) -> Pair | None:
        """Return the one in a Secret's data, None when parts are missing or no base64."""
        try:
            parts = [base64.b64decode(data.get(key) or "", validate=True) for key in (AUTHORITY, CERTIFICATE, KEY)]
        except ValueError:
            return None
        return cls(*parts) if all(parts) else None

    def as_data(self) -> dict[str, str]:
        """Return it as a Secret's data."""
        parts = {AUTHORITY: self.authority, CERTIFICATE: self.certificate, KEY: self.key}
        return {key: base64.b64encode(part).decode() for key, part in parts.items()}

    def problem(self, names: Sequence[str], now: datetime, renew_before: timedelta) -> str:
        """Return why it should be made again, empty when it is good for longer than `renew_before`."""
        try:
            leaf, authority = x509.load_pem_x509_certificate(self.certificate), _certificates(self.authority)[0]
            key = load_pem_private_key(self.key, None)
            leaf.verify_directly_issued_by(authority)
        except Exception as error:  # whatever is in a Secret, by whomever
            return f"it cannot be used ({type(error).__name__})"
        if key.public_key() != leaf.public_key():
            return "its key belongs to another certificate"
        missing = [name for name in names if _general(name) not in _alternatives(leaf)]
        if missing:
            return f"it is not for {', '.join(missing)}"
        ends = min(leaf.not_valid_after_utc, authority.not_valid_after_utc)
        return f"it ends at {ends:%Y-%m-%dT%H:%M:%SZ}" if ends - now <= renew_before else ""


def bundle_with(authority: bytes, known: bytes, now: datetime) -> bytes:
    """Return a bundle of an authority and the newest former one, if that has not expired."""
    [newest] = _certificates(authority)[:1]
    others = [found for found in _certificates(known) if found != newest and found.not_valid_after_utc > now]
    return b"".join(found.public_bytes(Encoding.PEM) for found in (newest, *others[:1]))


def trusts(bundle: bytes, authority: bytes) -> bool:
    """Return whether a bundle has an authority."""
    return _certificates(authority)[0] in _certificates(bundle)


def name_problem(name: str) -> str:
    """Return why a certificate cannot be for this name, empty when it can."""
    try:
        _general(name)
    except ValueError as error:
        return f"{name!r} is neither a DNS name nor an IP address: {error}"
    return "" if name else "it is empty"


def ends_of(certificate: bytes) -> datetime:
    """Return until when a certificate is valid. Raises ValueError when it is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []


def _alternatives(leaf: x509.Certificate) -> Sequence[Any]:
    try:
        return list(leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        return []


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
