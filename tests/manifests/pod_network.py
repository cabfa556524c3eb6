"""The network of one pod: a namespace with loopback and, at the address of the Service `kubernetes`, the API server.

Ports in it are the pod's own, so that processes can be given the very addresses of the manifests.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_SIOCSIFADDR: Final = 0x8916
_UP_AND_RUNNING: Final = 0x41
_CHUNK: Final = 65536

Address = tuple[str, int]
P = ParamSpec("P")
T = TypeVar("T")


class PodNetwork:
    """What `inside` calls has this network, and so has a process that it starts.

    Connections to `service` in it are connections to `server` outside.
    """

    def __init__(self, service: Address, server: Address) -> None:
        self._inside = ThreadPoolExecutor(1, initializer=_leave)
        self.inside(_bring_up, service[0])
        listening = self.inside(socket.create_server, service)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._is_over = asyncio.Event()
        self._forwarding = threading.Thread(target=self._forward, args=(listening, server), daemon=True)
        self._forwarding.start()

    def inside(self, call: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        """Call something in this network."""
        return self._inside.submit(call, *args, **keywords).result()

    def close(self) -> None:
        """End the way out; the network goes with the last process in it."""
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._forwarding.join()
        self._inside.shutdown()

    def _forward(self, listening: socket.socket, server: Address) -> None:
        with self._runner:
            self._runner.run(self._serve(listening, server))

    async def _serve(self, listening: socket.socket, server: Address) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                answers, requests = await asyncio.open_connection(*server)
            except OSError:  # the API server is down
                writer.transport.abort()
                return
            with contextlib.suppress(asyncio.CancelledError):  # streams would call it a failure
                await asyncio.gather(_pump(reader, requests), _pump(answers, writer))

        await asyncio.start_server(connected, sock=listening)
        await self._is_over.wait()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


def _leave() -> None:
    """Take this thread out of the machine's network into a new one."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _bring_up(address: str) -> None:
    """Have loopback work, and one more address on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _UP_AND_RUNNING))
        sockaddr = struct.pack("HH4s16x", socket.AF_INET, 0, socket.inet_aton(address))
        fcntl.ioctl(control, _SIOCSIFADDR, struct.pack("16s", b"lo:0") + sockaddr)
