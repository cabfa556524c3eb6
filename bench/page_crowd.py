"""What ten browsers cost: ten readers, each of one namespace, with the node map, jobs, queues and the overview open.

The cluster is in memory: 5,000 nodes of eight cards, 8,000 running pods, and 20,000 waiting pods in gangs of eight. The
browsers are processes of their own that read streams. ``core`` is the used part of a CPU core:

  quiet      nothing changes; the goal is 0.02
  moving     pods move, 20 changes a second; the goal is 0.33
  unread     the same while ten more browsers open the node map and do not read; ``mib`` is the growth for each of
             them at most, in MiB; the goal is 1
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from bench import worlds
from bench.common import Report, cpu_seconds, memory_mib, parser
from bench.followed_page import TEAMS, ServedPage, objects
from bench.page_browser import move

PATHS: Final = ("/events/nodes", "/events/jobs", "/events/queues", "/events/overview", "/events/nodes?open=a100")
"""What browsers have open; the last one has 1,024 nodes of a group."""
BROWSERS: Final = 10
_SMALL: Final = 4096
"""Bytes that the socket of a browser that does not read can take."""


def main() -> None:
    """Run the bench."""
    flags = parser(__doc__)
    flags.add_argument("--nodes", type=int, default=5000, help="how many nodes there are (default: 5000)")
    flags.add_argument("--running", type=int, default=8000, help="how many pods run (default: 8000)")
    flags.add_argument("--waiting", type=int, default=2500, help="how many gangs of eight wait (default: 2500)")
    flags.add_argument("--seconds", type=float, default=20.0, help="how long each state lasts (default: 20)")
    given = flags.parse_args()
    report = Report("page_crowd", "the part of a core that ten browsers cost, and MiB")
    everything = list(worlds.puts(objects(given.nodes, given.running, given.waiting)))
    with ServedPage(everything, by_team=True).running() as served, ExitStack() as stack:
        for number in range(BROWSERS):
            stack.enter_context(reading(served, number))
        time.sleep(min(5.0, given.seconds))
        for state in ("quiet", "moving", "unread"):
            before = memory_mib()
            if state == "unread":
                for number in range(BROWSERS):
                    stack.enter_context(not_reading(served, number))
            core, most = used(served, given.nodes, given.running, given.seconds, moves=state != "quiet")
            growth = (most - before) / BROWSERS if state == "unread" else 0.0
            report.add(state=state, core=core, mib=growth, resident_mib=memory_mib())
    report.finish()


def used(served: ServedPage, nodes: int, running: int, seconds: float, *, moves: bool) -> tuple[float, float]:
    """Return the used part of a core during some seconds, and the most resident MiB."""
    began, before, most, turn = time.monotonic(), cpu_seconds(), 0.0, 0
    while time.monotonic() - began < seconds:
        if moves:
            turn = move(served, nodes, running, 1.0, turn)
        else:
            time.sleep(1.0)
        most = max(most, memory_mib())
    return (cpu_seconds() - before) / (time.monotonic() - began), most


@contextmanager
def reading(served: ServedPage, number: int) -> Iterator[None]:
    """Read a stream in a process of its own."""
    url = f"http://{served.address}{PATHS[number % len(PATHS)]}"
    command = ["curl", "--silent", "--no-buffer", "--header", f"Authorization: Bearer team-{number % TEAMS}", url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def not_reading(served: ServedPage, number: int) -> Iterator[Sequence[object]]:
    """Open a stream of the node map with many nodes, and read nothing of it."""
    host, _, port = served.address.partition(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
        connection.connect((host, int(port)))
        line, token = "GET /events/nodes?open=a100 HTTP/1.1", f"Authorization: Bearer team-{number}"
        head = (line, f"Host: {served.address}", token, "", "")
        connection.sendall("\r\n".join(head).encode())
        yield (connection,)


if __name__ == "__main__":
    main()
