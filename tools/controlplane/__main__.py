"""The control plane from a terminal: build its programs, leave one running, stop it, use it in a shell.

python -m tools.controlplane up --nodes 5
eval "$(python -m tools.controlplane env)"
kubectl get nodes
python -m tools.controlplane down
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from tools.controlplane.binaries import cache_folder, find_binaries, print_progress
from tools.controlplane.errors import ControlPlaneError, StartError
from tools.controlplane.objects import a_node
from tools.controlplane.plane import READY_WITHIN_SECONDS, ControlPlane

DEFAULT_FOLDER = Path(".volsched-cluster")

_MODULE = "tools.controlplane"
_DOWN_WITHIN_SECONDS = 60.0
_LOCK_WITHIN_SECONDS = 2.0

_locks: list[IO[str]] = []
"""Kept open, so that only the end of this process releases them."""


@dataclass(frozen=True)
class BackgroundState:
    """What ``down`` and ``env`` need to know of a control plane in the background; kept in ``state.json``."""

    pid: int
    kubeconfig: str
    url: str
    bin: str

    @classmethod
    def read(cls, folder: Path) -> BackgroundState | None:
        """Return the state of the control plane that runs in a folder, or None when none does."""
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            state = cls(**json.loads((folder / "state.json").read_text()))
            return state if _is_locked(folder) else None
        return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 failed, 2 wrong usage."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except ControlPlaneError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}",
        description="A real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager, "
        "and KWOK in place of kubelets. Loopback only, random port, its own certificates.",
        epilog="The programs come from KUBEBUILDER_ASSETS or PATH when there, else they are built once from Go modules "
        f"(some minutes) into {cache_folder()}; VOLSCHED_CACHE moves that.",
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, run: object, text: str, *, folder: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        made.set_defaults(run=run)
        if folder:
            made.add_argument(
                "--folder",
                type=Path,
                default=DEFAULT_FOLDER,
                help="where its state and logs are (default: %(default)s)",
            )
        return made

    command("build", _build, "find or build the programs, and print where each is", folder=False)
    up = command("up", _up, "start a control plane in the background and print the path of its kubeconfig")
    up.add_argument("--nodes", type=int, default=0, help="create this many nodes of 32 CPU and 128 GiB (default: none)")
    command("down", _down, "stop the control plane and remove its data; its logs stay")
    command("env", _env, 'print shell lines that make kubectl use it: eval "$(... env)"')
    serve = command("serve", _serve, "run a control plane in the foreground, until SIGINT or SIGTERM")
    serve.add_argument("--nodes", type=int, default=0, help="create this many nodes (default: none)")
    return parser


def _build(_: argparse.Namespace) -> int:
    for program, path in find_binaries().paths.items():
        sys.stdout.write(f"{program}\t{path}\n")
    return 0


def _up(chosen: argparse.Namespace) -> int:
    folder = chosen.folder.absolute()
    state = BackgroundState.read(folder)
    if state:
        print_progress(f"already running, pid {state.pid}")
    else:
        find_binaries()  # a build shows its progress here, not in a log file
        state = _start_in_background(folder, chosen.nodes)
        print_progress(f"running, pid {state.pid}, {state.url}; logs in {folder / 'logs'}")
    sys.stdout.write(f"{state.kubeconfig}\n")
    return 0


def _down(chosen: argparse.Namespace) -> int:
    folder = chosen.folder.absolute()
    state = BackgroundState.read(folder)
    if state is None:
        print_progress(f"no control plane is running in {folder}")
        return 0
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_WITHIN_SECONDS
    while _is_locked(folder):
        if time.monotonic() > deadline:
            os.kill(state.pid, signal.SIGKILL)  # its guard ends the rest
        time.sleep(0.05)
    print_progress("stopped")
    return 0


def _env(chosen: argparse.Namespace) -> int:
    state = BackgroundState.read(chosen.folder.absolute())
    if state is None:
        raise StartError(f"no control plane is running in {chosen.folder.absolute()}; start one with: up")
    sys.stdout.write(f"export KUBECONFIG={shlex.quote(state.kubeconfig)}\n")
    sys.stdout.write(f'export PATH={shlex.quote(state.bin)}:"$PATH"\n')
    return 0


def _serve(chosen: argparse.Namespace) -> int:
    folder: Path = chosen.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    _lock((folder / "lock").open("w"), folder)
    (folder / "state.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "logs", ignore_errors=True)
    with ControlPlane(folder=folder, checks_policies=True) as cluster:
        cluster.create_nodes([a_node(f"node-{index}") for index in range(1, chosen.nodes + 1)])
        state = BackgroundState(
            os.getpid(), str(cluster.kubeconfig), cluster.url, str(cluster.binaries["kubectl"].parent)
        )
        _publish(folder / "state.json", state)
        while not ended.wait(1.0):
            cluster.check()
    (folder / "state.json").unlink(missing_ok=True)
    return 0


def _start_in_background(folder: Path, nodes: int) -> BackgroundState:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "serve.log"
    command = [sys.executable, "-m", _MODULE, "serve", "--folder", str(folder), "--nodes", str(nodes)]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this module again
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    deadline = time.monotonic() + READY_WITHIN_SECONDS + 60
    while not (state := BackgroundState.read(folder)):
        if process.poll() is not None or time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise StartError(f"the control plane did not start; {log} ends:\n{log.read_text()[-4000:]}")
        time.sleep(0.05)
    return state


def _publish(path: Path, state: BackgroundState) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(state)))
    unfinished.replace(path)


def _lock(handle: IO[str], folder: Path) -> None:
    """Take the lock for the life of this process; `_is_locked` in another process may hold it for a moment."""
    deadline = time.monotonic() + _LOCK_WITHIN_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StartError(f"a control plane is running in {folder} already") from None
            time.sleep(0.02)
        else:
            _locks.append(handle)
            return


def _is_locked(folder: Path) -> bool:
    """Tell whether the process that serves this folder lives; the kernel drops its lock with it."""
    try:
        with (folder / "lock").open("r") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
