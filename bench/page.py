"""What the page costs when something changes: CPU seconds for the look at a cluster that is followed, and bytes sent.

The cluster: 5,000 nodes with eight cards, 20 queues, 8,000 running pods in gangs of eight, and 2,500 gangs of eight
that wait for more cards than any node has. Ten browsers show the views: queues, cards, all jobs, and the list of jobs
with filters and orders. What is measured, each the median of some turns:

  first      everything that was listed is taken in and looked at, and each view is rendered whole
  status     a pod says something else of itself that decides nothing
  bound      a pod that is new was bound to a node
  finished   a pod that ran is gone
  gang       a gang of eight that nobody can place has come
  quota      the quota of a queue became another one
  burst      50 pods are gone, and as many are bound
  nothing    nothing has happened
  recounted  the same as bound, for a picture that is made anew from all objects (as the page did at first)

``bytes`` is what is sent to all browsers together, ``whole`` what their tables are; ``lists_s`` is the part of the CPU
that filters, orders and renders the lists of jobs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from bench import worlds
from bench.common import Report, Stopwatch, garbage_as_in_run, memory_mib, parser
from volsched.diagnose.cluster_snapshot import ClusterSnapshot
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model.changes import Change, Deleted
from volsched.ui.access import WHOLE
from volsched.ui.jobs_page import JobQuery, JobsView
from volsched.ui.pages import VIEWS, Pages, View
from volsched.ui.picture import Live
from volsched.ui.redaction import seen_by

GANG: Final = 8
QUEUES: Final = 20
NOW: Final = 2_000_000_000.0
CONFIGURATION: Final = DEFAULT_CONFIGURATION.replace("- name: predicates", "- name: proportion\n  - name: predicates")

QUERIES: Final[Sequence[Mapping[str, str]]] = (
    *({}, {"state": "waiting"}, {"state": "running"}, {"state": "ended"}, {"state": "waiting", "sort": "-cards"}),
    *({"text": "run-00001"}, {"reason": "insufficient", "sort": "job"}, {"queue": "queue-7", "page": "2"}),
)
"""What the browsers with lists of jobs ask for."""

Changes = Callable[[int], Sequence[Change]]


class Browsers:
    """Ten of them, each with one view of a cluster that is followed. ``lists_s``: CPU seconds of the lists of jobs."""

    def __init__(self, live: Live) -> None:
        self._live = live
        pages = Pages()
        self._views: list[View] = [pages.view(name, {}) for name in VIEWS]
        self._lists = [JobsView(pages, JobQuery.of(query)) for query in QUERIES]
        self.lists_s = 0.0

    def show(self) -> int:
        """Look, and return how many bytes are sent to all."""
        picture = self._live.look(NOW)
        seen = seen_by(WHOLE, picture)
        sent = sum(len(html) for view in self._views for _, html in view.show(seen, picture.history))
        watch = Stopwatch()
        sent += sum(len(html) for view in self._lists for _, html in view.show(seen, picture.history))
        self.lists_s = watch.cpu()
        return sent

    def whole(self) -> int:
        """Return how large their tables are."""
        tables = (*(view.table for view in self._views), *(view.table for view in self._lists))
        return sum(len(table.everything()[1]) for table in tables)


def objects(nodes: int, running: int, waiting: int) -> Iterator[worlds.Json]:
    """Return the cluster; uids, versions and times as an API server gives them play no part."""
    yield from (worlds.a_queue(index) for index in range(QUEUES))
    yield from worlds.nodes(nodes)
    for index in range(running):
        gang = f"run-{index // GANG:05}"
        if index % GANG == 0:
            group = worlds.a_group(gang, f"queue-{index // GANG % QUEUES}", GANG, "Running")
            group["status"]["running"] = GANG
            yield group
        yield a_runner(f"{gang}-{index % GANG}", gang, index % nodes)
    for index in range(waiting):
        yield from a_hopeless_gang(f"wait-{index:05}", index % QUEUES)


def a_runner(name: str, gang: str, node: int) -> worlds.Json:
    """Return a pod that runs with a card."""
    return worlds.a_pod(name, gang, 1, "2", 16, worlds.MODELS[node % 4], on=f"node-{node:05}")


def a_hopeless_gang(name: str, queue: int) -> Iterator[worlds.Json]:
    """Return a gang that no node has the cards for."""
    yield worlds.a_group(name, f"queue-{queue}", GANG)
    for member in range(GANG):
        yield worlds.a_pod(f"{name}-{member}", name, 2 * worlds.CARDS_PER_NODE, "4", 32, worlds.MODELS[queue % 4])


def changes(nodes: int) -> dict[str, Changes]:
    """Return what happens, by name, each as a function of the turn."""

    def status(turn: int) -> Sequence[Change]:
        pod = a_runner(f"run-00000-{turn % GANG}", "run-00000", turn % GANG)
        pod["metadata"]["resourceVersion"] = f"status-{turn}"
        return list(worlds.puts([pod]))

    def bound(turn: int) -> Sequence[Change]:
        return list(worlds.puts([a_runner(f"new-{turn}", "run-00001", (7 * turn) % nodes)]))

    def finished(turn: int) -> Sequence[Change]:
        name = f"run-{turn + 10:05}-0"
        return [Deleted("Pod", "default", name, f"pod-{name}")]

    def gang(turn: int) -> Sequence[Change]:
        return list(worlds.puts(a_hopeless_gang(f"late-{turn:05}", turn % QUEUES)))

    def quota(turn: int) -> Sequence[Change]:
        queue = worlds.a_queue(turn % QUEUES)
        queue["spec"]["capability"] = {worlds.CARDS: str(1000 + turn)}
        queue["metadata"]["resourceVersion"] = f"quota-{turn}"
        return list(worlds.puts([queue]))

    def burst(turn: int) -> Sequence[Change]:
        pods = [a_runner(f"burst-{turn}-{each}", "run-00002", (50 * turn + each) % nodes) for each in range(50)]
        names = [f"run-{500 + each:05}-{turn % GANG}" for each in range(50)]
        return [*(Deleted("Pod", "default", name, f"pod-{name}") for name in names), *worlds.puts(pods)]

    def nothing(_: int) -> Sequence[Change]:
        return []

    found = (nothing, status, bound, finished, gang, quota, burst)
    return {change.__name__: change for change in found}


def main() -> None:
    """Run the bench."""
    flags = parser(__doc__)
    flags.add_argument("--nodes", type=int, default=5000, help="how many nodes there are (default: 5000)")
    flags.add_argument("--running", type=int, default=8_000, help="how many pods run (default: 8000)")
    flags.add_argument("--waiting", type=int, default=2500, help="how many gangs of eight wait (default: 2500)")
    flags.add_argument("--turns", type=int, default=9, help="how often each change is made (default: 9)")
    given = flags.parse_args()
    report = Report("page", "CPU seconds of the page for a change, and bytes sent to ten browsers")
    everything = list(worlds.puts(objects(given.nodes, given.running, given.waiting)))
    live = Live(ClusterSnapshot((), CONFIGURATION))
    browsers = Browsers(live)
    watch = Stopwatch()
    live.take(everything)
    sent = browsers.show()
    report.add(
        change="first", cpu_s=watch.cpu(), most_s=watch.cpu(), lists_s=browsers.lists_s, bytes=sent,
        whole=browsers.whole(),
    )  # fmt: skip
    report.note(f"{memory_mib():,.0f} MiB resident after the first look.")
    with garbage_as_in_run():
        for name, made in changes(given.nodes).items():
            report.add(**_measured(name, live, browsers, made, given.turns))
    watch = Stopwatch()
    again = Live(ClusterSnapshot((), CONFIGURATION))
    again.take(everything)
    Browsers(again).show()
    took = watch.cpu()
    report.add(change="recounted", cpu_s=took, most_s=took, lists_s=0.0, bytes=sent, whole=browsers.whole())
    report.note(f"{memory_mib():,.0f} MiB resident with both clusters and what they were made of.")
    report.finish()


def _measured(name: str, live: Live, browsers: Browsers, made: Changes, turns: int) -> dict[str, Any]:
    took, lists, sent = [], [], []
    for turn in range(turns):
        found = made(turn)
        gc.collect(0)
        watch = Stopwatch()
        live.take(found)
        sent.append(browsers.show())
        took.append(watch.cpu())
        lists.append(browsers.lists_s)
    return {
        "change": name,
        "cpu_s": median(took),
        "most_s": max(took),
        "lists_s": median(lists),
        "bytes": int(median(sent)),
        "whole": browsers.whole(),
    }


if __name__ == "__main__":
    main()
