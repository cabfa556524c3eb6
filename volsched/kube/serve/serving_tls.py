"""TLS for a server without a certificate: one is made when it starts, as kube-scheduler does.

It keeps tokens from being read on the way. It does not prove the server's identity: no known authority has signed it.
"""

from __future__ import annotations

import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from typing import Final

from volsched.kube.serve.certificates import Pair

LIFETIME: Final = timedelta(days=3650)
"""Longer than any process lives: each start makes a new one."""


def self_signed_context() -> ssl.SSLContext:
    """Return a context with a certificate of its own. The key is in memory alone, never in a file."""
    pair = Pair.made([socket.gethostname() or "volsched", "localhost"], datetime.now(UTC), LIFETIME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    descriptor = os.memfd_create("serving", os.MFD_CLOEXEC)  # the library reads certificates from files only
    try:
        os.write(descriptor, pair.key + pair.certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context
