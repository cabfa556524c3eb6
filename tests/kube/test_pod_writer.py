"""The order of a binder's steps, by turns of the event loop; what the API server makes of them is in tests/cluster."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from volsched.kube.client.rest import Api
from volsched.kube.fence import Fence
from volsched.kube.write.pod_writer import PodWriter
from volsched.kube.write.views import Views
from volsched.model.plan import Evict


class Answers:
    """An API server whose answers come when the test gives them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def request(self, method: str, path: str, *_: Any, **__: Any) -> None:
        self.asked.append(f"{method} {path.rpartition('/')[2]}")
        await self.answer


def an_eviction(name: str) -> Evict:
    return Evict(f"uid-{name}", "default", name, "preempt", "default/p", "for p")


async def test_a_write_that_comes_while_the_last_worker_goes_is_carried_out() -> None:
    server = Answers()
    api = cast("Api", server)
    pod_writer = PodWriter(api, Fence.always_open(), Views(), print, print, lambda _: None, in_flight=1)
    pod_writer.add(an_eviction("first"))
    await asyncio.sleep(0)

    server.answer.set_result(None)  # the worker goes in this turn, and is counted until the next
    asyncio.get_running_loop().call_soon(pod_writer.add, an_eviction("second"))
    for _ in range(5):
        await asyncio.sleep(0)

    assert server.asked == ["PATCH status", "DELETE first", "PATCH status", "DELETE second"]
    assert (pod_writer.backlog, pod_writer.evicted) == (0, 2)
