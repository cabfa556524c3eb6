"""How fast the node map is in a browser: a real Chromium, and a cluster in memory that is followed.

For each size of the cluster (nodes of eight cards, of which seven are taken):

  view      from the request to the end of the layout of the first view, in milliseconds; the goal is 1,000
  filter    from a key in the field of holders to the filtered map, in milliseconds; the goal is 200
  longest   the longest task of the browser while pods move, 20 changes a second, in milliseconds; the goal is 100
  groups    groups on the map, and tiles of nodes; 5,000 nodes are groups without tiles at first

Times are of the clock on the wall: run it on a quiet machine, and look at the load beside the figures.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from playwright.sync_api import Page, sync_playwright

from bench import worlds
from bench.common import Report, parser
from bench.followed_page import GANG, ServedPage, a_runner, objects
from tools import chromium
from volsched.model.changes import Change, Deleted

CHANGES_PER_SECOND: Final = 20
TAKEN: Final = 7
"""Cards that are taken on each node, so that pods can move."""

_LONG_TASKS: Final = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
  }).observe({ type: "longtask", buffered: false });
  window.changed = 0;
  document.body.addEventListener("htmx:sseMessage", () => { window.changed += 1; });
}"""
_LAID_OUT: Final = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
_FILTERED: Final = """() => new Promise((done) => {
  const field = document.querySelector("input[name=holder]");
  document.body.addEventListener("htmx:afterSettle", () => requestAnimationFrame(() => setTimeout(() =>
    done(performance.now() - began))), { once: true });
  const began = performance.now();
  field.value = field.value ? "" : "run-00007";
  field.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def main() -> None:
    """Run the bench."""
    flags = parser(__doc__)
    flags.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000], help="sizes (default: 1000 5000)")
    flags.add_argument("--turns", type=int, default=5, help="how often each figure is taken (default: 5)")
    flags.add_argument("--seconds", type=float, default=10.0, help="how long pods move (default: 10)")
    given = flags.parse_args()
    report = Report("page_browser", "milliseconds of the node map in Chromium")
    for nodes in given.nodes:
        report.add(**measured(nodes, given.turns, given.seconds))
    report.finish()


def measured(nodes: int, turns: int, seconds: float) -> dict[str, Any]:
    """Return the figures of a cluster of so many nodes."""
    running = nodes * TAKEN // GANG * GANG
    everything = list(worlds.puts(objects(nodes, running, 20)))
    program, environment = chromium.find()
    with ServedPage(everything).running() as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, env={**environment}, args=["--no-sandbox"])
        page = browser.new_page(base_url=f"http://{served.address}", viewport={"width": 1440, "height": 900})
        page.goto(served.link)
        views = [viewed(page) for _ in range(turns)]
        filters = [float(page.evaluate(_FILTERED)) for _ in range(2 * turns)]
        page.goto("/nodes")
        page.evaluate(_LONG_TASKS)
        move(served, nodes, running, seconds)
        longest, changed = page.evaluate("() => [window.longest, window.changed]")
        groups, tiles = page.locator(".nodes").count(), page.locator(".node-tile").count()
        browser.close()
    figures = {"view_ms": median(views), "filter_ms": median(filters), "filter_most_ms": max(filters)}
    return {"nodes": nodes, **figures, "longest_ms": longest, "events": changed, "groups": groups, "tiles": tiles}


def viewed(page: Page) -> float:
    """Return the milliseconds from the request of the map to the end of its layout."""
    page.goto("/nodes")
    return float(page.evaluate(_LAID_OUT))


def move(served: ServedPage, nodes: int, running: int, seconds: float, turn: int = 0) -> int:
    """Move pods from node to node for some time, from a turn on. Return the next turn."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        served.push(moved(turn, nodes, running))
        turn += 1
        time.sleep(2 / CHANGES_PER_SECOND)
    return turn


def moved(turn: int, nodes: int, running: int) -> Sequence[Change]:
    """Return two changes: a pod is gone from its node, and one like it is on another node."""
    index = turn * 37 % running
    home = index // GANG % nodes
    pod = a_runner(index, home)
    meta = pod["metadata"]
    gone = Deleted("Pod", meta["namespace"], meta["name"], meta["uid"])
    return [gone, *worlds.puts([a_runner(index, (home + turn + 1) % nodes)])]


if __name__ == "__main__":
    main()
