"""What SIGUSR2 asks for: a look at the mirror, which ends nothing where it cannot be written."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.mirror.objects import Believer, node, pod
from volsched.run.loop import write_dump


def test_the_mirror_is_written_as_json(tmp_path: Path) -> None:
    believer = Believer(node("n1", cpu=8), pod("p", on="n1", phase="Running", cpu=1))

    write_dump(believer.cluster, str(tmp_path))

    [path] = tmp_path.iterdir()
    assert json.loads(path.read_text())["nodes"]["n1"]["pods"] == ["default/p"]


@pytest.mark.parametrize("folder", ["", "/proc/nowhere"], ids=["no folder for temporary files", "no such folder"])
def test_where_it_cannot_be_written_a_line_says_so(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with a read-only root there may be no /tmp."""

    def nowhere() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with capture_logs() as lines:
        write_dump(Believer().cluster, folder)

    [line] = lines
    assert line["event"] == "the mirror could not be dumped"
