"""``python -m bench NAME [options]`` runs a bench; without a name it lists them."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = {
    "decisions": "how many placements a second the engine decides, from 1,000 to 50,000 nodes",
    "opcodes": "Python opcodes and NumPy elements for each pod that is placed, beside their record",
    "sessions": "what a session costs when little or nothing changed; memory; restart",
    "preemption": "room for 500 preemptors on full clusters: sessions, victims, callbacks",
    "sharing": "the best cards of a node for all containers of a pod",
    "packing": "how much of a real cluster's cards is given out: a public trace, pods that stay and pods that leave",
    "latency": "from a pod's creation to its binding, on a real control plane",
    "controllers": "from a pod's creation to its PodGroup, for a burst of pods on a real control plane",
    "page": "what the page costs when something changes: CPU seconds, and bytes sent to browsers",
    "page_browser": "how fast the node map is in a real Chromium: first view, filter, longest task while pods move",
    "page_crowd": "what ten browsers of ten readers cost: the part of a core, and memory of those that do not read",
    "page_live": "how soon a browser hears of a change: a page of 5,000 nodes and 20,000 pods on a real control plane",
    "explain": "how long volsched explain takes on a real control plane, with and without what would help",
    "dra": "pods with a ResourceClaim each, on a real control plane",
    "time": "how long the jobs of a trace wait under several policies, replayed at a load",
    "trace": "write a synthetic trace for the above, and for volsched replay",
    "race": "a backlog on a real control plane: a bare binder, kube-scheduler and volsched",
}


def main() -> int:
    """Run one bench."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print("usage: python -m bench NAME [options]      (NAME -h says more)\n")
        for name, what in NAMES.items():
            print(f"  {name:<12} {what}")
        return 0 if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") else 2
    name = sys.argv[1]
    sys.argv[:2] = [f"python -m bench {name}"]
    import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
