"""A command that is forked is what it would be if it was started: for its tests nothing differs but the time."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import pytest

from tests.cluster.checkout import command_of_checkout
from tests.cluster.controlling import ControllersProcess
from tests.cluster.forks import HAVE_FORKS, Fork, ForkServer, run_volsched
from tests.cluster.scheduling import Installed, SchedulerProcess, VolschedProcess, eventually

pytest_plugins = ["tests.cluster.scheduling_fixtures"]
pytestmark = pytest.mark.skipif(not HAVE_FORKS, reason="forks are for Linux")

KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: me, user: {token: secret}}]
"""
Kind = TypeVar("Kind", SchedulerProcess, ControllersProcess)
LIMITS: Final = (
    *("Uid", "Gid", "Groups", "NoNewPrivs", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("SigBlk", "SigIgn", "SigCgt", "Seccomp"),
)
"""Lines of `/proc/PID/status` about what a process may do, and about the signals that it handles."""


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of an API server that never answers: processes are there and do nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        path = tmp_path / "kubeconfig"
        path.write_text(KUBECONFIG.replace("PORT", str(listening.getsockname()[1])))
        yield path


def started(kind: type[Kind], kubeconfig: Path, name: str, forks: ForkServer | None) -> Kind:
    folder = kubeconfig.parent / name
    folder.mkdir()
    process = kind(kubeconfig, folder / "log", forks=forks)
    process.wait_for("serving")
    return process


def facts(process: VolschedProcess) -> dict[str, object]:
    """What the system says of a process, but for what is its own in any case."""
    proc = Path("/proc", str(process.process.pid))
    lines = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
    mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
    root, own = (proc / "root").readlink(), str(process.log.parent)
    return {
        "limits": {name: lines[name] for name in LIMITS},
        "variables": (proc / "environ").read_bytes(),
        "folder": (proc / "cwd").readlink().relative_to(root),
        "group": (os.getpgid(process.process.pid), os.getsid(process.process.pid)),
        "standard input": (proc / "fd/0").readlink(),
        "files": {kind_of(path).removeprefix(str(root)) for path in (proc / "fd").iterdir()} - {"", str(process.log)},
        "writable": {mount[4] for mount in mounts if mount[5].startswith("rw") and own.startswith(mount[4])} != set(),
        "writes to": [(proc / "fd" / number).readlink() == process.log for number in ("1", "2")],
    }


def kind_of(descriptor: Path) -> str:
    """The file, `socket`, `pipe`, `anon_inode:[eventpoll]` and so on; empty if the process has just closed it."""
    try:
        return re.sub(r":\[\d+\]$", "", str(descriptor.readlink()))
    except FileNotFoundError:
        return ""


def test_a_fork_is_what_the_command_is(silent: Path, fork_server: ForkServer) -> None:
    """Its only thread fewer is an idle one of numpy, which ends when a process forks."""
    earlier = started(SchedulerProcess, silent, "earlier", fork_server)
    fork = started(SchedulerProcess, silent, "fork", fork_server)
    command = started(SchedulerProcess, silent, "command", None)

    with contextlib.suppress(AssertionError):  # each opens its files in its own time
        eventually(lambda: facts(fork) == facts(command), timeout=10)

    found, expected = facts(fork), facts(command)
    for process in (earlier, fork, command):
        process.close()
    assert isinstance(fork.process, Fork)
    assert isinstance(command.process, subprocess.Popen)
    assert found == expected


def test_a_fork_is_told_signals_and_tells_how_it_ended(silent: Path, fork_server: ForkServer) -> None:
    killed = started(SchedulerProcess, silent, "killed", fork_server)
    ended = started(ControllersProcess, silent, "ended", fork_server)

    assert (killed.process.poll(), ended.process.poll()) == (None, None)
    with pytest.raises(subprocess.TimeoutExpired):
        killed.process.wait(0.01)
    killed.kill()
    assert (killed.process.poll(), killed.process.returncode) == (-9, -9)
    assert ended.terminate() == 0
    assert ended.said("stopped by SIGTERM")
    ended.process.terminate()  # nothing is there any more, and so nothing is hit


def test_a_command_is_run_with_its_streams_and_status() -> None:
    fine, wrong = run_volsched("version"), run_volsched("simulat")

    assert (fine.returncode, fine.stdout.split()[0], fine.stderr) == (0, "volsched", "")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Did you mean 'simulate'?" in wrong.stderr


def test_random_numbers_are_not_shared(silent: Path, fork_server: ForkServer) -> None:
    """The identity of a replica is random, and two with one identity would both lead."""
    pair = [started(SchedulerProcess, silent, name, fork_server) for name in ("one", "other")]

    identities = {process.wait_for("waiting for leadership")["identity"] for process in pair}

    for process in pair:
        process.close()
    assert len(identities) == 2


def test_a_process_with_a_prelude_is_started(
    silent: Path, fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SchedulerProcess, "prelude", "print('before')")

    process = started(SchedulerProcess, silent, "prelude", fork_server)

    assert isinstance(process.process, subprocess.Popen)
    assert process.said("before")
    process.close()


def test_replicas_of_a_pair_have_different_hash_seeds(installed: Installed) -> None:
    """They are forks of two processes, and Python gives each process that is started a seed of its own."""
    pair = installed.start(), installed.start()

    assert {type(each.process) for each in pair} == {Fork}
    assert len({parent_of(each.process.pid) for each in pair}) == 2


def parent_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1]


def test_commands_die_with_their_server(silent: Path, tmp_path: Path) -> None:
    server = ForkServer(tmp_path / "server.log", lambda words: command_of_checkout(words, tmp_path))
    process = started(SchedulerProcess, silent, "left", server)

    server.close()

    eventually(lambda: not Path("/proc", str(process.process.pid)).exists())
    with pytest.raises(RuntimeError, match="the fork server is gone"):
        process.process.poll()
