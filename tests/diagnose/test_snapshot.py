"""Snapshots: nothing that decides is lost, and nothing else is in them."""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diagnose.test_explain import CONFIGURATION, cluster, known
from volsched.diagnose import snapshot
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.diagnose.records import API_VERSION
from volsched.simulation.documents import read_documents
from volsched.simulation.manifests import read_inventory
from volsched.simulation.result import result_of

EXAMPLES = Path(__file__).resolve().parents[2] / "manifests" / "examples"


def example() -> ClusterSnapshot:
    inventory = read_inventory(read_documents([str(EXAMPLES)]))
    return ClusterSnapshot(tuple(inventory.objects), inventory.configuration or "")


def test_a_snapshot_replays_to_the_same_result() -> None:
    before = example()
    after = snapshot.read(snapshot.written(before), "file")
    assert result_of(after.stage().run()) == result_of(before.stage().run())


def test_what_decides_nothing_is_left_out() -> None:
    word = "secret-word"
    text = cluster().replace("- {name: main,", f"- {{name: main, command: [{word}], env: [{{name: A, value: {word}}}],")
    noted = f"annotations: {{kubectl.kubernetes.io/last-applied-configuration: {word}}}"
    text = text.replace("{name: n1}", f"{{name: n1, {noted}}}")
    text = text.replace("group-name: runs}", f"group-name: runs, a.b/c: {word}}}")
    assert text.count("secret-word") > 4
    written = gzip.decompress(snapshot.written(known(text)))
    assert b"secret-word" not in written
    assert b"scheduling.k8s.io/group-name" in written


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(snapshot.SnapshotError, match="is no snapshot"):
        snapshot.read(gzip.compress(b"[]"), "file")


@pytest.mark.parametrize(
    "data",
    [
        b"\x1f\x8b",
        gzip.compress(b'{"a":' * 5000),
        gzip.compress(b'{"apiVersion": "\xed\xa0\x80"}'),
        bytes([*gzip.compress(bytes(range(256)) * 9)[:20], *(b"\xff" * 30)]),
    ],
    ids=["cut off", "nested too deep", "no text", "not compressed like this"],
)
def test_a_file_that_is_spoilt_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(snapshot.SnapshotError, match="file is no snapshot"):
        snapshot.read(data, "file")


def packed(*rows: dict[str, Any]) -> bytes:
    tree = {"apiVersion": API_VERSION, "kind": snapshot.KIND, "configuration": "", "origin": "o", "objects": rows}
    return gzip.compress(json.dumps({**tree, "schedulerNames": ["volsched"], "defaultQueue": "default"}).encode())


def row(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "items": items}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b" " * (snapshot.SMALL + 1)), "it holds more than 200 times its size"),
        (gzip.compress(b"{}")[:-9], "it ends too early"),
        (packed(row("Pod", {})), "metadata.name: is missing"),
        (packed(row("Pod", {"metadata": {"name": "a"}}, {"metadata": {"name": "a"}})), "is there twice"),
        (packed(row("Deployment", {"metadata": {"name": "d"}, "spec": {"replicas": 2**31 - 1}})), "spec.replicas"),
        (
            packed(
                row("Deployment", *({"metadata": {"name": f"d{n}"}, "spec": {"replicas": 10**5}} for n in range(3)))
            ),
            "workloads have 300000 pods together",
        ),
    ],
    ids=["spaces", "cut off", "no name", "twice", "replicas of one", "replicas of all"],
)
def test_a_file_that_would_fill_the_memory_is_refused(data: bytes, said: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(snapshot.SnapshotError, match=re.escape(said)):
            snapshot.read(data, "file")
        assert tracemalloc.get_traced_memory()[1] < 4 * snapshot.SMALL
    finally:
        tracemalloc.stop()


def test_times_that_are_none_do_not_stop_a_run() -> None:
    stamps = ("garbage", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-13-45T00:00:00Z", "")
    pods = [{"metadata": {"name": f"p{n}", "creationTimestamp": stamp}} for n, stamp in enumerate(stamps)]
    found = snapshot.read(packed(row("Pod", *pods)), "file")
    replace(found, configuration=CONFIGURATION).stage().run()
