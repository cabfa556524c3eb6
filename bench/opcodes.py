"""How many Python opcodes a session executes for each pod that it places, and how many elements NumPy processes.

  python -m bench opcodes                    all variants, beside the record
  python -m bench opcodes base card          some variants
  python -m bench opcodes --record           write the record; the message of the commit says why the figures changed

The variants are those of `python -m bench decisions`, on small clusters, and `idle`: one session in which nothing has
changed since the last one. Figures of `idle` are for the whole session, all other figures for each placed pod.

The figures depend neither on the machine nor on its load, as CPU time does. So a test holds them. Each minor version of
Python has a record, bench/opcodes-VERSION.json. A figure more than 3 % above the record is a loss, and fails; the
packages that grew are named. A figure more than 3 % below fails too: while a gain is not recorded, a later loss of the
same size is not seen.

What counts: opcodes of the project and of Python libraries, for the package that has them, and elements of NumPy arrays
for the package that asks for an operation (bench/elements.py says how). What does not count: other work in C, such as
built-in functions, msgspec and re2. A change that moves work there lowers the figures; `decisions` judges that change.

Each variant has a process of its own, with PYTHONHASHSEED=0. Its first session, on 100 nodes, is not counted: that
session makes imports, and fills caches that outlive a cluster. Opcodes and elements are counted in two more sessions,
on equal clusters. The command exits with 1 when a figure is not the recorded one.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Final

import numpy as np

from bench import decisions, elements
from bench.common import garbage_as_in_run, parser
from bench.figures import MEASURES, RECORD, TOLERANCE, Amounts, Figures, Record, differences, percent, read, write
from volsched.framework.engine.fast import FastEngine
from volsched.model.plan import Bind, StepRecorder
from volsched.scheduler import Scheduler

ROOT: Final = Path(__file__).parent.parent
NODES: Final = {
    "base": 500,
    "default": 500,
    "own": 500,
    "card": 500,
    "packed": 500,
    "affinity": 200,
    "spreading": 100,
    "devices": 100,
    "idle": 500,
}
"""The variants, and how many nodes each one has: constraints and devices take more opcodes, and tracing is slow."""
WARM_UP_NODES: Final = 100
HOW_TO_RECORD: Final = "python -m bench opcodes --record"
REASON: Final = "The message of the commit that changes the record says why the figures changed."
PACKAGES_SHOWN: Final = 8


def measure(variant: str) -> Figures:
    """Count opcodes and elements of one variant, in a process that does nothing else."""
    decisions.decide(WARM_UP_NODES, origin(variant), FastEngine)
    scheduler, recorder = ready(variant)
    with garbage_as_in_run():
        executed = opcodes_of(scheduler.cycle)
    placed = placements(recorder)
    elements.in_modules(module for module in list(sys.modules.values()) if is_of_project(vars(module).get("__file__")))
    scheduler, recorder = ready(variant)
    elements.asked.clear()
    scheduler.cycle()
    if placements(recorder) != placed:
        raise SystemExit(f"{variant}: pods go elsewhere while elements are counted; repair bench/elements.py")
    return Figures(
        NODES[variant], len(placed), by_package(executed, len(placed)), by_package(elements.asked, len(placed))
    )


def origin(variant: str) -> str:
    """Return the variant of bench.decisions that a variant is made of."""
    return "default" if variant == "idle" else variant


def ready(variant: str) -> tuple[Scheduler, StepRecorder]:
    """Return a scheduler whose next session is the one to count, and what takes its steps."""
    scheduler, recorder = decisions.waiting(NODES[variant], origin(variant))
    if variant == "idle":
        for _ in range(3):
            scheduler.cycle()
        recorder.take()
    return scheduler, recorder


def placements(recorder: StepRecorder) -> dict[str, str]:
    """Return the node of each pod that was placed."""
    return {step.name: step.node for step in recorder.steps if isinstance(step, Bind)}


def opcodes_of(call: Callable[[], object]) -> Counter[str]:
    """Return how many opcodes this thread executes in a call, by file."""
    tracers: dict[str, tuple[Callable[..., None], Callable[[], int]]] = {}

    def on_call(frame: FrameType, _event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        found = tracers.get(file)
        if found is None:
            found = tracers[file] = _tracer()
        frame.f_trace = found[0]  # comes first, or else Python 3.13 misses the first call of each function
        frame.f_trace_lines, frame.f_trace_opcodes = False, True

    sys._getframe().f_trace_opcodes = True  # or else Python 3.12 sends no events of opcodes
    before = sys.gettrace()  # what measures coverage
    sys.settrace(on_call)
    try:
        call()
    finally:
        sys.settrace(before)
    return Counter({file: executed() for file, (_, executed) in tracers.items()})


def _tracer() -> tuple[Callable[..., None], Callable[[], int]]:
    """Return what counts the opcodes of one file, and what says how many there were."""
    number = 0

    def on_event(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal number
        if event == "opcode":
            number += 1

    return on_event, lambda: number


def by_package(by_file: Mapping[str, int], pods: int) -> Amounts:
    """Return amounts by package, for each of so many pods."""
    totals: Counter[str] = Counter()
    for file, number in by_file.items():
        totals[package_of(file)] += number
    shares = {name: round(total / (pods or 1), 1) for name, total in sorted(totals.items())}
    return {name: share for name, share in shares.items() if share}


def package_of(file: str) -> str:
    """Return volsched/PACKAGE/PART, plugins/PLUGIN, actions/ACTION, the name of a library, or "Python"."""
    path = Path(file)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    if not path.is_relative_to(ROOT):
        return "Python"
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "/".join(parts[: 3 if parts[0] == "volsched" else 2])


def is_of_project(file: str | None) -> bool:
    """Say whether a module with this file is part of what users run."""
    return file is not None and package_of(file).partition("/")[0] in ("volsched", "plugins", "actions")


def environment() -> dict[str, str]:
    """Return the environment in which figures are comparable: without Python's and coverage's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV"))}
    return kept | {"PYTHONHASHSEED": "0"}


def measured_alone(variant: str) -> Figures:
    """Measure one variant in a process of its own, which inherits what is imported."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as process:
        return process.submit(measure, variant).result()


def show(variant: str, now: Figures, before: Figures | None) -> None:
    """Print the figures of one variant, and the packages that have most of them."""
    print(f"{variant}: {now.unit}; {now.placed:,} pods placed, {now.nodes:,} nodes")
    for measured in MEASURES:
        amounts: Amounts = getattr(now, measured)
        total = sum(amounts.values())
        was = 0.0 if before is None else sum(getattr(before, measured).values())
        beside = "not recorded" if before is None else f"recorded {was:,.1f}, {percent(was, total)}"
        most = sorted(amounts, key=lambda package: -amounts[package])[:PACKAGES_SHOWN]
        shares = ", ".join(f"{package} {amounts[package] * 100 / total:.0f} %" for package in most)
        print(f"  {total:10,.1f} {measured} ({beside}){': ' if shares else ''}{shares}", flush=True)


def conclude(record: Record | None, found: Record, *, write_it: bool) -> int:
    """Say how the figures differ from the record, and write them if that is wanted; return the exit status."""
    said = [] if record is None else differences(record, found)
    place = RECORD.relative_to(ROOT)
    print("", *said, sep="\n")
    if write_it:
        everything = (record or {}) | found
        write({name: everything[name] for name in NODES if name in everything})
        print(f"Written: {place}. {REASON}")
        return 0
    if record is None:
        print(f"No record for Python {platform.python_version()}: `{HOW_TO_RECORD}` writes {place}.")
    elif said:
        print(
            f"\nThese figures are more than {TOLERANCE:.0%} from {place}. A loss: repair the packages that are named."
        )
        print(f"A gain, or a loss that is worth its price: `{HOW_TO_RECORD}`. {REASON}")
    return 1 if said else 0


def main() -> None:
    options = parser(__doc__)
    options.add_argument("variants", nargs="*", metavar="variant", help=f"one of {', '.join(NODES)}; all by default")
    options.add_argument("--record", action="store_true", help=f"write {RECORD.name}")
    given = options.parse_args()
    if unknown := [name for name in given.variants if name not in NODES]:
        options.error(f"variant {unknown[0]}: name one of {', '.join(NODES)}")
    if sys.flags.hash_randomization or sys.flags.optimize:
        again = [sys.executable, "-m", "bench", "opcodes", *sys.argv[1:]]
        os.execve(sys.executable, again, environment())  # noqa: S606 - this command again
    if sys.gettrace() is not None:
        raise SystemExit("another tracer is active, such as that of coverage or of a debugger: run without that tracer")
    record, found = read(), {}
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, PYTHONHASHSEED=0", flush=True)
    for variant in given.variants or NODES:
        found[variant] = measured_alone(variant)
        show(variant, found[variant], None if record is None else record.get(variant))
    raise SystemExit(conclude(record, found, write_it=given.record))


if __name__ == "__main__":
    main()
