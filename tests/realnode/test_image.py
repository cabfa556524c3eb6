"""The image as ``make archive`` writes it: its labels, its size, and what Syft says that it is made of."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.realnode.cluster import PROJECT, Json
from tools import syft
from tools.controlplane.binaries import cache_root

LARGEST_MIB = 250.0
"""Of what is put on the base image; two thirds are numpy, CEL and the client of Kubernetes."""


@pytest.fixture(scope="module")
def archive() -> Path:
    """The image that runs on the node."""
    [found] = (cache_root() / "realnode-images").glob("volsched-*.tar")
    return found


@pytest.fixture(scope="module")
def opened(archive: Path) -> Iterator[tarfile.TarFile]:
    with tarfile.open(archive) as opened:
        yield opened


def read(opened: tarfile.TarFile, name: str) -> Json | list[Json]:
    found = opened.extractfile(name)
    assert found is not None
    return json.load(found)  # type: ignore[no-any-return]


def test_it_says_which_version_of_what_it_is_and_whose_rights_it_has(opened: tarfile.TarFile) -> None:
    [manifest] = read(opened, "manifest.json")
    config = read(opened, manifest["Config"])["config"]
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}

    assert manifest["RepoTags"] == [f"docker.io/library/volsched:{labels['version']}"]
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", labels["revision"])
    assert labels["source"].startswith("http") or labels["source"] == "unknown"
    assert config["User"] == "65532:65532"


def test_it_is_as_large_as_its_libraries(opened: tarfile.TarFile, figure: Callable[[str, float], None]) -> None:
    [manifest] = read(opened, "manifest.json")
    [_, *ours] = manifest["Layers"]
    size = sum(opened.getmember(layer).size for layer in ours) / 2**20
    figure("size of the image above its base, MiB", round(size))
    assert 0 < size < LARGEST_MIB


def test_the_sbom_names_every_pinned_package_and_those_of_the_base(archive: Path, tmp_path: Path) -> None:
    assert syft.main(["scan", f"docker-archive:{archive}", "--output", f"spdx-json={tmp_path / 'sbom'}"]) == 0
    packages = json.loads((tmp_path / "sbom").read_text())["packages"]
    named = {(package["name"].lower().replace("_", "-"), package.get("versionInfo")) for package in packages}

    lock = (PROJECT / "requirements" / "run.lock").read_text()
    pinned = set(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, re.MULTILINE))
    assert pinned
    assert pinned <= named
    names = {name for name, _ in named}
    assert {"volsched", "libc6"} <= names
