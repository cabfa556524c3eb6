"""Key pairs for the plugin `ssh` of Volcano Jobs, as a Secret has them."""

from __future__ import annotations

import base64
from typing import Final

from volsched.controllers.job_plugins.ssh import AUTHORIZED, PRIVATE, PUBLIC

KEY_BITS: Final = 3072
"""As ssh-keygen's; NIST SP 800-57 part 1 counts on it beyond 2030."""


def new_pair() -> dict[str, str]:
    """Return the data of a Secret, base64: a new private key (PKCS #1, PEM), its public key, and that as trusted."""
    # 0.1 CPU seconds and 10 MB, which only clusters with Jobs of this plugin need
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = generate_private_key(65537, KEY_BITS)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    return {
        name: base64.b64encode(content).decode()
        for name, content in ((PRIVATE, private), (PUBLIC, public), (AUTHORIZED, public))
    }
