"""Layers of an image are used again after no change, and made anew after one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.manifests.dockerfile import Builder, read
from tests.manifests.layers import Layers

DOCKERFILE = """
FROM base AS build
WORKDIR /src
COPY pins .
RUN echo pins >> /src/runs && mkdir -p /src/bin && echo /src/bin/tool > /src/bin/tool
COPY source source
RUN echo source >> /src/runs
FROM base
COPY --from=build /src /opt/own
"""

Build = Callable[[str], Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    source = tmp_path / "context"
    (source / "source").mkdir(parents=True)
    (source / ".dockerignore").write_text("*\n!pins\n!source\n")
    (source / "pins").write_text("a==1")
    (source / "source" / "module.py").write_text("one")
    layers = Layers(tmp_path / "layers")

    def built(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        return Builder(source, folder, layers).build(read(DOCKERFILE)).root / "opt" / "own"

    return built


def count_runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ran: list[str] = []
    run = Builder._run

    def noted(self: Builder, text: str, here: Path) -> None:
        ran.append(text.split()[1])
        run(self, text, here)

    monkeypatch.setattr(Builder, "_run", noted)
    return ran


def test_steps_run_again_only_after_a_change_before_them(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = count_runs(monkeypatch)
    build("first")
    assert ran == ["pins", "source"]
    again = build("second")
    assert ran == ["pins", "source"]
    assert (again / "runs").read_text() == "pins\nsource\n"
    assert (again / "bin" / "tool").read_text() == "/src/bin/tool\n"
    (tmp_path / "context" / "source" / "module.py").write_text("two")
    third = build("third")
    assert ran == ["pins", "source", "source"]
    assert (third / "source" / "module.py").read_text() == "two"
    (tmp_path / "context" / "pins").write_text("a==2")
    build("fourth")
    assert ran == ["pins", "source", "source", "pins", "source"]


def test_the_layers_that_were_not_used_for_longest_are_removed(build: Build, tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / "context" / "source" / "module.py").write_text(str(number))
        build(str(number))
    assert len(list((tmp_path / "layers").iterdir())) == 6
