"""Kustomizations as kubectl renders them, and how to find things in them."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import find_binaries
from tools.documents import yaml_documents

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "manifests"
OVERLAYS = ("standalone", "beside-volcano", "dev")
SYSTEM = "volsched-system"

Json = dict[str, Any]


@functools.cache
def kubectl() -> Path:
    return find_binaries(["kubectl"])["kubectl"]


def kustomize(folder: Path) -> str:
    """What `kubectl apply -k` would apply."""
    done = subprocess.run([kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(folder: Path) -> list[Json]:
    return yaml_documents(kustomize(folder))


@functools.cache
def overlay(name: str) -> list[Json]:
    return rendered(MANIFESTS / "overlays" / name)


def of_kind(objects: list[Json], kind: str) -> dict[str, Json]:
    """The objects of a kind by their names."""
    return {found["metadata"]["name"]: found for found in objects if found["kind"] == kind}


def the(objects: list[Json], kind: str, name: str = "") -> Json:
    """The only object of a kind, or the one of that name."""
    found = of_kind(objects, kind)
    if name:
        return found[name]
    [only] = found.values()
    return only


def identity(found: Json) -> tuple[str, str, str, str]:
    metadata = found["metadata"]
    return found["apiVersion"].partition("/")[0], found["kind"], metadata.get("namespace", ""), metadata["name"]


def container(deployment: Json) -> Json:
    [only] = deployment["spec"]["template"]["spec"]["containers"]
    return dict(only)


def a_kustomization(folder: Path, resources: list[Path], components: list[Path] | None = None, **fields: Any) -> Path:
    """A kustomization as a user would write one on top of ours; kustomize wants paths that are relative."""
    body = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(path, folder.resolve()) for path in resources],
        "components": [os.path.relpath(path, folder.resolve()) for path in components or ()],
        **fields,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return folder
