"""Draw the scenarios anew, or record what comes of them: ``python -m tests.plans draw`` and ``record``."""

from __future__ import annotations

import argparse
import gc
from concurrent.futures import ProcessPoolExecutor

import click

from tests.plans import examples
from tests.plans.differences import Difference, differences, told
from tests.plans.drawing.scenarios import drawn_scenarios
from tests.plans.measures import measured
from tests.plans.scenarios import (
    CHUNKS,
    plans_of,
    record_plans,
    recorded_plans,
    store_scenarios,
    stored_scenarios,
)


def draw() -> None:
    """Store scenarios that were drawn anew, from the same seed."""
    with ProcessPoolExecutor() as pool:
        count = sum(pool.map(_draw_chunk, range(CHUNKS)))
    click.echo(f"{count} scenarios are stored; record their plans next")


def _draw_chunk(chunk: int) -> int:
    scenarios = drawn_scenarios(chunk)
    store_scenarios(chunk, scenarios)
    return len(scenarios)


def record() -> None:
    """Record the plans of the stored scenarios and of the examples, and tell what changed."""
    with ProcessPoolExecutor() as pool:
        found = [difference for of_chunk in pool.map(_record_chunk, range(CHUNKS)) for difference in of_chunk]
    results = examples.results()
    found += differences(examples.recorded(), results)
    examples.record(results)
    click.echo(told(found))


def _record_chunk(chunk: int) -> list[Difference]:
    gc.freeze()  # to look through the program itself again and again costs a seventh
    plans = plans_of(stored_scenarios(chunk))
    found = differences(recorded_plans(chunk), plans)
    record_plans(chunk, plans)
    return found


def measure() -> None:
    """Tell what the recorded plans have: how many bindings, evictions, refusals, and of which reasons."""
    click.echo(measured())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.plans", description=__doc__)
    verbs = {"draw": draw, "record": record, "measure": measure}
    parser.add_argument("verb", choices=verbs)
    verbs[parser.parse_args().verb]()
