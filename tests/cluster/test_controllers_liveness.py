"""Controllers that hear nothing any more do not go on as if they did."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from tests.cluster.controlling import AT_WORK, Controlled, ControllersProcess
from tests.cluster.scheduling import GROUPS, eventually, still
from tools.controlplane.fault_rules import status
from tools.controlplane.faults import FaultProxy, Respond

pytest_plugins = ["tests.cluster.scheduling_fixtures", "tests.cluster.controlling_fixtures"]

IMPATIENT = """
from volsched.operator import kopf_thread
kopf_thread.PATIENCE_SECONDS, kopf_thread.SETTLED_SECONDS, kopf_thread._PAUSES = 12.0, 6.0, (0.5, 1.0)
kopf_thread.ENDING_SECONDS = 10.0
made = kopf_thread._settings
def settings():
    quick = made()
    quick.networking.error_backoffs = (0.1, 0.1, 0.1, 0.1)
    return quick
kopf_thread._settings = settings
"""

MORTAL = """
import asyncio
from volsched.operator.kopf_thread import kopf
async def dies(roots, **_):
    await asyncio.sleep(4)
    raise SystemExit("no more memory")
kopf.run_tasks = dies
"""

HANGING = """
import asyncio
from volsched.operator import kopf_thread
kopf_thread.ENDING_SECONDS = 5.0
async def dies(roots, **_):
    asyncio.get_running_loop().shutdown_asyncgens = asyncio.Event().wait
    await asyncio.sleep(4)
    raise ValueError("what kopf leaves behind does not end")
kopf_thread.kopf.run_tasks = dies
"""


def start(controlled: Controlled, prelude: str, proxy: FaultProxy | None = None) -> ControllersProcess:
    ControllersProcess.prelude = prelude
    try:
        return controlled.control(proxy=proxy)
    finally:
        ControllersProcess.prelude = ""


def has_ended(process: ControllersProcess) -> bool:
    """Whether kopf did not get to its end, so that the process has ended for it."""
    if process.process.poll() is None:
        return False
    assert process.wait() == 1
    assert process.said("kopf failed and does not end")
    return True


def liveness(process: ControllersProcess) -> str:
    """What the kubelet hears; nothing of a process that has just ended."""
    try:
        return process.page("/livez")[1]
    except OSError:
        return ""


def test_a_thread_that_dies_takes_the_process_with_it(controlled: Controlled) -> None:
    process = start(controlled, MORTAL)

    assert process.wait() == 1
    assert process.said("SystemExit: no more memory")


def test_a_loop_that_does_not_end_takes_the_process_with_it(controlled: Controlled) -> None:
    process = start(controlled, HANGING)

    assert process.wait() == 1
    assert process.said("kopf failed and does not end: ValueError: what kopf leaves behind does not end")


def test_a_watch_that_cannot_be_had_has_the_process_started_anew(
    controlled: Controlled, fault_proxy: FaultProxy
) -> None:
    process = start(controlled, IMPATIENT, fault_proxy)
    process.wait_for(AT_WORK)
    still(lambda: process.page("/livez") == (200, "ok\n"), 15.0)  # no signal: this is longer than its patience lasts

    forbidden = Respond(403, json.dumps(status(403, "Forbidden", "queues is forbidden")))
    fault_proxy.inject(forbidden, method="GET", path="/queues$", times=1000)
    controlled.control_plane.restart(down_seconds=0.5)  # so that watches end

    eventually(lambda: has_ended(process) or "kopf was not well for" in liveness(process))
    said = " ".join(line["event"] for line in process.lines()) if has_ended(process) else liveness(process)
    assert "queues is forbidden" in said


def test_queues_are_heard_of_after_an_outage_that_is_too_long_for_kopf(controlled: Controlled) -> None:
    process = start(controlled, IMPATIENT)
    process.wait_for(AT_WORK)

    controlled.control_plane.restart(down_seconds=5.0)
    queue = controlled.queue("after-outage")

    def is_heard_of() -> bool:
        be_a_kubelet(controlled)  # kopf has ended for good, or the Lease was lost meanwhile
        return "state" in controlled.api.get(f"{GROUPS}/queues/{queue}").get("status", {})

    with telling_what_was_said(controlled):
        eventually(is_heard_of)
    controlled.api.delete(f"{GROUPS}/queues/{queue}")


def be_a_kubelet(controlled: Controlled) -> None:
    """Start anew what has ended; end what says that it does not live."""
    process = controlled.controllers[-1]
    if process.process.poll() is None and "kopf was not well for" in liveness(process):
        process.kill()
        process.wait()
    if process.process.poll() is not None:
        start(controlled, IMPATIENT)


@contextlib.contextmanager
def telling_what_was_said(controlled: Controlled) -> Iterator[None]:
    """Show what every process said last when something does not come true."""
    try:
        yield
    except AssertionError as error:
        for process in controlled.controllers:
            error.add_note(f"{process.process.poll()} {liveness(process)}: {process.lines()[-40:]}")
        raise
