"""A cluster to look around in: a real local control plane, the example objects, and volsched scheduling them.

python -m tools.playground up
eval "$(python -m tools.controlplane env)"
kubectl get pods -A -o wide
python -m tools.playground down
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane.__main__ import BackgroundState
from tools.controlplane.__main__ import main as control_plane
from tools.controlplane.errors import ControlPlaneError
from tools.documents import yaml_documents

MANIFESTS = Path(__file__).resolve().parents[1] / "manifests"
NAMESPACE = "volsched-system"
PROCESSES = {"run": "volsched-scheduler", "controllers": "volsched-controllers"}
"""What runs, by verb, and whose rights it has."""

CONFIG_MAP = f"{NAMESPACE}/volsched-config"
_FIRST = ("Namespace", "PriorityClass", "Queue", "Node", "ConfigMap", "PodGroup")
_WAIT_SECONDS = 60.0


class Playground:
    """What runs in a folder: the control plane (its own commands keep its state), a scheduler and controllers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def up(self, examples: Path) -> None:
        """Start what is not running yet, and apply the manifests."""
        if control_plane(["up", "--folder", str(self.folder)]) != 0:
            raise ControlPlaneError("the control plane did not start")
        for part in ("crds", "rbac"):
            _report(f"applying manifests/{part}")
            self._kubectl("apply", "--server-side", "-k", str(MANIFESTS / part))
        self._kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        self._apply(_in_order(examples))
        for verb in PROCESSES:
            self._start_process(verb)
        self._show()

    def down(self) -> None:
        """Stop volsched, then the control plane."""
        for verb in PROCESSES:
            pid = self._pid(verb)
            if pid is not None:
                os.kill(pid, signal.SIGTERM)
            self._pid_file(verb).unlink(missing_ok=True)
        control_plane(["down", "--folder", str(self.folder)])

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        state = BackgroundState.read(self.folder)
        if state is None:
            raise ControlPlaneError(f"no control plane is running in {self.folder}")
        command = [f"{state.bin}/kubectl", "--kubeconfig", state.kubeconfig, *arguments]
        done = subprocess.run(  # noqa: S603 - the kubectl that we built
            command, input=stdin, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ControlPlaneError(f"kubectl {' '.join(arguments)} failed:\n{done.stderr.strip()}")
        return done.stdout

    def _apply(self, objects: Sequence[Mapping[str, Any]]) -> None:
        known = self._kinds()
        taken = [found for found in objects if (found["apiVersion"], found["kind"]) in known]
        for found in objects:
            if found not in taken:
                missing = f"this cluster has no {found['apiVersion']}"
                _report(f"left out {found['kind']}/{found['metadata']['name']}: {missing}")
        _report(f"applying {len(taken)} example objects")
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        self._kubectl(*apply, stdin=_list_of(taken))
        nodes = [_status_of(found) for found in taken if found["kind"] == "Node"]
        if nodes:
            self._kubectl(*apply, "--subresource=status", stdin=_list_of(nodes))

    def _kinds(self) -> set[tuple[str, str]]:
        lines = self._kubectl("api-resources", "--no-headers").splitlines()
        return {(fields[-3], fields[-1]) for fields in (line.split() for line in lines)}

    def _start_process(self, verb: str) -> None:
        if self._pid(verb) is not None:
            _report(f"volsched {verb} runs already")
            return
        kubeconfig, log = self.folder / f"volsched-{verb}.kubeconfig", self.folder / f"volsched-{verb}.log"
        kubeconfig.write_text(self._kubeconfig_for(PROCESSES[verb]))
        kubeconfig.chmod(0o600)
        command = [sys.executable, "-m", "volsched", verb, "--kubeconfig", str(kubeconfig)]
        command += ["--leader-elect-resource-namespace", NAMESPACE]
        command += ["--listen-address", "127.0.0.1:0", "--healthz-address", ""]
        command += ["--scheduler-configmap", CONFIG_MAP] if verb == "run" else []
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - volsched itself
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._pid_file(verb).write_text(str(process.pid))
        _report(f"volsched {verb} runs, pid {process.pid}; log in {log}")

    def _kubeconfig_for(self, account: str) -> str:
        """The admin's kubeconfig with a service account's token, so that a process has its own rights and no others."""
        state = BackgroundState.read(self.folder)
        if state is None:
            raise ControlPlaneError(f"no control plane is running in {self.folder}")
        token = self._kubectl("create", "token", account, "-n", NAMESPACE, "--duration=24h").strip()
        config = yaml.safe_load(Path(state.kubeconfig).read_text())
        for user in config["users"]:
            user["user"] = {"token": token}
        return str(yaml.safe_dump(config))

    def _pid_file(self, verb: str) -> Path:
        return self.folder / f"volsched-{verb}.pid"

    def _pid(self, verb: str) -> int | None:
        with contextlib.suppress(FileNotFoundError, ValueError, ProcessLookupError):
            pid = int(self._pid_file(verb).read_text())
            os.kill(pid, 0)
            return pid
        return None

    def _show(self) -> None:
        """Wait until pods have nodes, then show them and how to look around."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            pods = json.loads(self._kubectl("get", "pods", "-A", "-o", "json"))["items"]
            if any(pod["spec"].get("nodeName") for pod in pods):
                break
            time.sleep(0.5)
        time.sleep(1.0)
        sys.stdout.write(self._kubectl("get", "queues,podgroups", "-A"))
        sys.stdout.write(self._kubectl("get", "pods", "-A", "-o", "wide"))
        folder = os.path.relpath(self.folder)
        python = os.path.relpath(sys.executable)
        sys.stdout.write(
            "\nLook around:\n"
            f'  eval "$({python} -m tools.controlplane env --folder {folder})"\n'
            "  kubectl get pods -A -o wide\n"
            "  kubectl describe pod NAME        # why it waits stands at the end\n"
        )


def _in_order(folder: Path) -> list[dict[str, Any]]:
    """Return the objects of a folder's YAML files, those that others need first."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.yaml")):
        found.extend(yaml_documents(path.read_text()))
    rank = {kind: place for place, kind in enumerate(_FIRST)}
    return sorted(_flat(found), key=lambda item: rank.get(item["kind"], len(rank)))


def _flat(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for found in objects for item in (found["items"] if found["kind"] == "List" else [found])]


def _list_of(objects: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _status_of(node: Mapping[str, Any]) -> dict[str, Any]:
    named = {"name": node["metadata"]["name"]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": named, "status": node.get("status", {})}


def _report(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 failed, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m tools.playground", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--folder", type=Path, default=Path(".volsched-cluster"), help="where state and logs are")
    parser.add_argument("--examples", type=Path, default=MANIFESTS / "examples", help="what to apply")
    chosen = parser.parse_args(arguments)
    playground = Playground(chosen.folder)
    try:
        if chosen.command == "up":
            playground.up(chosen.examples)
        else:
            playground.down()
    except ControlPlaneError as error:
        _report(str(error))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
