"""How a process is started from the checkout as nearly as the image would start it.

It has the user, the group and the variables of the image, and a read-only file system. What differs: the program is the
checkout's, so that nothing has to be built; the network is the machine's; and it may read everything, since folders of
tests are closed to other users.
"""

from __future__ import annotations

import functools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.container import Container, Mount, why_not
from tests.manifests.dockerfile import Stage, read

ROOT: Final = Path(__file__).resolve().parents[2]


def command_of_checkout(words: Sequence[str], writable: Path) -> list[str]:
    """The command of such a process; `writable` is the only folder that the process can write to.

    Where there can be no containers (pytest says so at its start) it has the variables of the image, and no more.
    """
    stage = _final()
    variables = {**stage.environment, "PYTHONPATH": str(ROOT)}  # also where another checkout is installed
    if why_not():
        return ["env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words]
    writable.chmod(0o777)
    trees = [Path(tempfile.gettempdir()), ROOT, Path(sys.prefix).resolve()]
    mounts = [*map(Mount, trees), Mount(writable, writable=True)]
    container = Container(words, variables, stage.user, mounts, keeping=("dac_read_search",))
    return container.command(Path(tempfile.mkdtemp(prefix="root-", dir=writable)))


@functools.cache
def _final() -> Stage:
    return read((ROOT / "Dockerfile").read_text())[-1]
