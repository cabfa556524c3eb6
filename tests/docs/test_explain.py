"""docs/explain.md and snapshots.md: what they list is what the code has, and the workflow does what it says."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.cli.calls import call
from tests.diagnose.test_explain import CONFIGURATION, cluster
from tests.docs.pages import DOCS, codes, prose, rows
from volsched.diagnose.records import Explanation
from volsched.diagnose.searches import SEARCHES


def section(page: str, title: str) -> list[str]:
    """Return the lines below a heading."""
    lines = [line for _, line in prose(DOCS / page)]
    found = lines[lines.index(title) + 1 :]
    return found[: next((number for number, line in enumerate(found) if line.startswith("#")), len(found))]


def test_every_field_of_an_explanation_is_listed() -> None:
    listed = [name for names, *_ in rows(section("explain.md", "## For programs")) for name in codes(names)]
    fields = [field.encode_name for field in msgspec.structs.fields(Explanation)]

    assert sorted(listed) == sorted(["apiVersion", "kind", *fields])


def test_every_sort_of_change_is_listed_in_the_order_in_which_it_is_tried() -> None:
    listed = [name for names, *_ in rows(section("explain.md", "## What would help")) for name in codes(names)]

    assert listed == list(SEARCHES)


@pytest.mark.parametrize(("quota", "status"), [(2, 1), (8, 0)])
def test_workflow_fails_on_a_quota_that_has_somebody_wait(
    quota: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DOCS / "snapshots.md").read_text().partition("## In a GitOps repository")[2]
    steps = yaml.safe_load(text.partition("```text\n")[2].partition("```")[0])["jobs"]["what-changes"]["steps"]
    program, *arguments = shlex.split(steps[-1]["run"])
    monkeypatch.chdir(tmp_path)
    for folder in ("snapshots", "queues"):
        Path(folder).mkdir()
    Path("volsched.conf").write_text(CONFIGURATION)
    Path("cluster.yaml").write_text(cluster(quota=8))
    call("snapshot", "-f", "cluster.yaml", "--config", "volsched.conf", "-o", "snapshots/cluster.snapshot")
    changed = next(found for found in yaml.safe_load_all(cluster(quota=quota)) if found["kind"] == "Queue")
    Path("queues/team.yaml").write_text(yaml.safe_dump(changed))

    done = call(*arguments)

    assert program == "volsched"
    assert done.exit_code == status, done.stderr
