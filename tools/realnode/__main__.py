"""A real node from a terminal: bring it up, look around inside, take it down, or run one command in a new one.

python -m tools.realnode up
python -m tools.realnode enter kubectl get pods -A
python -m tools.realnode down
python -m tools.realnode run pytest tests/realnode
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.controlplane.errors import ControlPlaneError, StartError
from tools.realnode import namespaces, node
from tools.realnode.images import PROJECT, Images
from tools.realnode.parts import Parts, find_parts, problems

DEFAULT_FOLDER = Path(".volsched-real-node")
_MODULE = "tools.realnode"
_UP_SECONDS = 420.0
_DOWN_SECONDS = 30.0


def print_progress(line: str) -> None:
    """Write one line of progress to standard error, at once."""
    sys.stderr.write(f"[realnode] {line}\n")
    sys.stderr.flush()


def up(folder: Path) -> None:
    """Make what is missing, and bring a node up; raises ControlPlaneError."""
    if _pid(folder) is not None:
        print_progress(f"a node runs in {folder} already")
        return
    if lacks := problems():
        raise StartError("this machine can have no real node; it lacks " + "; ".join(lacks))
    parts = find_parts(print_progress)
    archives = Images(parts, print_progress).archives()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print_progress("bringing up the control plane and the node")
    began = time.monotonic()
    _start(folder, parts, archives)
    print_progress(f"the node is Ready ({time.monotonic() - began:.0f} s); logs in {folder / 'logs'}")


def down(folder: Path) -> None:
    """End the node, and remove what is left of it but its logs."""
    pid = _pid(folder)
    if pid is not None:
        os.kill(namespaces.first_process(pid), signal.SIGTERM)
        deadline = time.monotonic() + _DOWN_SECONDS
        while _pid(folder) is not None and time.monotonic() < deadline:
            time.sleep(0.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    (folder / "pid").unlink(missing_ok=True)
    (folder / "ready.json").unlink(missing_ok=True)
    shutil.rmtree(folder / "containerd", ignore_errors=True)
    node.remove_cgroups()
    print_progress("the node is gone")


def enter(folder: Path, command: Sequence[str]) -> int:
    """Run a command inside, where kubectl speaks to the node's cluster; return its exit status."""
    pid = _pid(folder)
    if pid is None:
        raise StartError(f"no node runs in {folder}; start one with: python -m {_MODULE} up")
    ready = node.Ready(**json.loads((folder / "ready.json").read_text()))
    environment = os.environ | ready.environment | {"PATH": f"{ready.programs}:{os.environ['PATH']}"}
    words = namespaces.entering(pid, command, Path.cwd())
    return subprocess.run(words, env=environment, check=False).returncode  # noqa: S603 - what the user asked for


def _start(folder: Path, parts: Parts, archives: Sequence[Path]) -> None:
    inside = [sys.executable, "-m", f"{_MODULE}.node", "--folder", str(folder), *map(str, archives)]
    script = f'{parts.overlay}; cd {PROJECT}; PATH={parts.containerd}:$PATH; exec "$@"'
    process = namespaces.start(["/bin/sh", "-euc", script, "-", *inside], folder / "node.log")
    (folder / "pid").write_text(str(process.pid))
    deadline = time.monotonic() + _UP_SECONDS
    while not (folder / "ready.json").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            log = (folder / "node.log").read_text()[-3000:]
            process.kill()
            process.wait()
            down(folder)
            raise StartError(f"the node did not come up; its log ends:\n{log}")
        time.sleep(0.1)


def _pid(folder: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
        pid = int((folder / "pid").read_text())
        namespaces.first_process(pid)
        return pid
    return None


def _run(folder: Path, command: Sequence[str]) -> int:
    up(folder)
    try:
        return enter(folder, command)
    finally:
        down(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; 1 when there can be no node."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {_MODULE}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where its logs are (%(default)s)")
    commands = parser.add_subparsers(required=True, metavar="command", dest="verb")
    commands.add_parser("up", help="bring a node up and leave it running")
    commands.add_parser("down", help="take it down")
    for name, text in {"enter": "run a command inside", "run": "bring a node up for one command"}.items():
        commands.add_parser(name, help=text).add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    folder = given.folder.absolute()
    try:
        if given.verb == "up":
            up(folder)
        elif given.verb == "down":
            down(folder)
        else:
            return (enter if given.verb == "enter" else _run)(folder, given.command)
    except ControlPlaneError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
