"""Programs from Go modules, such as Helm, are taken from PATH, else built once from the versions that are pinned."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.monitoring import linter
from tests.tools.fake_go import builds, write_program
from tools import helm, krew, syft
from tools.controlplane.binaries import KUBERNETES_VERSION, GoModule, Report, cache_root, go_arch

pytestmark = pytest.mark.usefixtures("elsewhere")

Find = Callable[[Report], Path]
PROGRAMS: dict[str, tuple[Find, GoModule, str]] = {
    "helm": (helm.find, helm.MODULE, "helm.sh/helm/v4/cmd/helm"),
    "krew": (krew.find, krew.MODULE, "sigs.k8s.io/krew/cmd/krew"),
    "syft": (syft.find, syft.MODULE, "github.com/anchore/syft/cmd/syft"),
    "dashboard-linter": (linter.find_linter, linter.MODULE, "github.com/grafana/dashboard-linter"),
}
"""How each is found, its module, and the package that is built."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_on_path_is_taken(elsewhere: Path, name: str) -> None:
    write_program(elsewhere, name, "#!/bin/sh\n")

    assert PROGRAMS[name][0](print) == elsewhere / name


@pytest.mark.parametrize("name", PROGRAMS)
def test_else_it_is_built_once_in_its_pinned_version(traces: Path, name: str) -> None:
    find, module, package = PROGRAMS[name]
    lines: list[str] = []

    found = [find(lines.append), find(lines.append)]

    folder = cache_root() / f"{name}-{module.version}-{go_arch()}"
    assert found == [folder / name] * 2
    assert builds(traces) == [package.rpartition("/")[2]]
    words = shlex.split((traces / "builds").read_text())
    assert words[-1] == package
    assert {f"{variable}={value}" for variable, value in module.stamps.items()} <= set(words)
    assert f"require {module.requirement} {module.version}\n" in (folder / "src/go.mod").read_text()
    assert (folder / "src/go.sum").read_text().splitlines() == list(module.sums)
    assert [line for line in lines if line.startswith("built ")]


def test_helm_renders_for_the_version_of_the_control_plane(elsewhere: Path, tmp_path: Path) -> None:
    write_program(elsewhere, "helm", '#!/bin/sh\necho "$@"\n')

    done = helm.rendered(tmp_path / "chart", "--set", "a=b", namespace="there")

    assert done.stdout.split() == [
        *("template", "volsched", str(tmp_path / "chart"), "--namespace", "there"),
        *("--kube-version", KUBERNETES_VERSION, "--set", "a=b"),
    ]
