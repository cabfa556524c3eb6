"""docs/memory.md lists every table that is kept, and how it ends."""

from __future__ import annotations

from typing import cast

from tests.docs.pages import DOCS, codes, prose, rows
from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.watch.inbox import Inbox
from volsched.kube.write.executor import ClusterExecutor
from volsched.kube.write.views import Views
from volsched.mirror.apply import Mirror
from volsched.operator.engine import ControllerEngine
from volsched.operator.options import ControllerOptions
from volsched.operator.writer import Writer
from volsched.run.gauges import tables_of

NOBODY = cast("Api", None)


async def test_every_table_is_listed_with_how_it_ends() -> None:
    executor = ClusterExecutor(NOBODY, Fence(), Views(), lambda _: None)
    engine = ControllerEngine(ControllerOptions(), Writer(NOBODY, Fence()), lambda _: None)
    parts = [part.tables() for part in (executor, Views(), Inbox(), Mirror(), engine)]
    known = {name for part in (*parts, tables_of([], list)) for name in part} | {"decisions.engine", "accounts.*"}

    lines = [line for _, line in prose(DOCS / "memory.md")]
    section = lines[lines.index("## What is kept") + 1 :]
    section = section[: next(number for number, line in enumerate(section) if line.startswith("#"))]

    assert sorted(name for names, *_ in rows(section) for name in codes(names)) == sorted(known)
