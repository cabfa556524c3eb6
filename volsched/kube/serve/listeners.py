"""Sockets that listen from the first moment on, before the servers on them are imported.

Early clients, such as the kubelet's startup probe, wait for the answer and are not refused. So slow imports do not
belong into this module.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from volsched.kube.errors import KubeSetupError

BACKLOG: Final = 4096
"""Connections that wait to be accepted. A burst of idle ones must not keep the kubelet's out."""


class Listeners:
    """The addresses that the process listens on."""

    def __init__(self) -> None:
        self._open: dict[str, socket.socket] = {}

    def open(self, *addresses: str) -> None:
        """Listen on each `host:port` from now on; an empty one is nowhere.

        Wrong or taken addresses are left to `take`: contradicting flags are reported first.
        """
        for address in dict.fromkeys(filter(None, addresses)):
            with contextlib.suppress(KubeSetupError):
                self._open[address] = _listening(address)

    def take(self, address: str) -> socket.socket:
        """Return a socket that listens there: the one that was opened before, else a new one. Raises KubeSetupError."""
        return self._open.pop(address, None) or _listening(address)

    def close(self) -> None:
        """Stop listening on sockets that no server took."""
        while self._open:
            self._open.popitem()[1].close()


def parse_address(address: str) -> tuple[str, int]:
    """Split `host:port`, where the host may be absent or a bracketed IPv6 address. Raises KubeSetupError."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise KubeSetupError(f"{address!r} is no address to listen on; write host:port or :port")
    return host.strip("[]"), int(port)


def _listening(address: str) -> socket.socket:
    host, port = parse_address(address)
    try:
        if host:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        with contextlib.suppress(OSError):  # a machine without IPv6
            if socket.has_dualstack_ipv6():
                everywhere = ("", port)
                return socket.create_server(everywhere, family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
        return socket.create_server(("", port), backlog=BACKLOG)
    except OSError as error:
        raise KubeSetupError(f"cannot listen on {address}: {error.strerror or error}") from error
