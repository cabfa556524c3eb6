"""``python -m drills NAME [options]`` runs a drill; without a name it lists them."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

NAMES = {
    "hostile": "objects that a tenant may write to harm others: nobody else waits, nothing exits",
    "failover": "leaders are killed, stopped, cut off and robbed of their Lease: nothing is lost or bound twice",
    "faults": "the API server answers wrongly 10,000 times: everything is placed as without",
    "restarts": "the API server is killed and restarted; etcd is compacted, and restored from a backup",
    "configuration": "the configuration is broken and repaired again and again: the last good one is in force",
    "soak": "tens of thousands of pods come and go while others wait: no table grows, and no memory",
    "fuzz": "everything that reads what users write gets whatever they might write: nothing is raised",
}


def main() -> int:
    """Run one drill; 0 when every line is met, 1 when one is not, 2 when the command cannot be read."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        print("usage: python -m drills NAME [options]      (NAME -h says more)\n")
        for name, what in NAMES.items():
            print(f"  {name:<14} {what}")
        return 0 if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") else 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all that it started ends, too
    name = sys.argv[1]
    sys.argv[:2] = [f"python -m drills {name}"]
    status: int = import_module(f"drills.{name}").main()
    return status


if __name__ == "__main__":
    sys.exit(main())
