"""Write a synthetic trace for `volsched replay`: three teams on a cluster with cards, the same for the same seed.

  research  many jobs of one card, few of them long
  vision    jobs of two to eight cards, in working hours
  language  gangs of several nodes of eight cards

Durations are log-normal, as those of real clusters are; jobs declare between one and three times their duration, and a
fifth of them nothing. `manifests/examples/replay/jobs.csv` was made by it: `python -m bench trace --days 3`.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from volsched.replay.summary import CARDS

HOUR, DAY = 3600, 86400
COLUMNS = ("name", "namespace", "queue", "submit_s", "duration_s", "declared_s", "pods", "min_pods", CARDS)


@dataclass(frozen=True)
class Team:
    """How a team works: jobs a day, median hours and their spread, and (pods, cards of each) to choose from."""

    name: str
    jobs: int
    hours: float
    spread: float
    shapes: tuple[tuple[int, int], ...]
    by_day: bool = False


TEAMS = (
    Team("research", 60, 0.6, 1.4, ((1, 1),)),
    Team("vision", 14, 1.5, 1.0, ((1, 2), (1, 4), (1, 8)), by_day=True),
    Team("language", 3, 3.0, 0.6, ((2, 8), (3, 8))),
)


def jobs(days: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield the jobs of all teams, by time."""
    rng = random.Random(seed)  # noqa: S311 - a trace, no secret
    rows = [row for team in TEAMS for row in _of_team(team, days, rng)]
    return iter(sorted(rows, key=lambda row: (row["submit_s"], row["name"])))


def _of_team(team: Team, days: int, rng: random.Random) -> Iterator[dict[str, object]]:
    for number in range(team.jobs * days):
        hour = rng.gauss(13, 3) % 24 if team.by_day else rng.uniform(0, 24)
        duration = max(60, round(HOUR * team.hours * rng.lognormvariate(0, team.spread)))
        pods, cards = rng.choice(team.shapes)
        declared = "" if rng.random() < 0.2 else round(duration * rng.uniform(1, 3))
        yield {
            "name": f"{team.name}-{number}",
            "namespace": team.name,
            "queue": team.name,
            "submit_s": round(rng.randrange(days) * DAY + hour * HOUR),
            "duration_s": duration,
            "declared_s": declared,
            "pods": pods,
            "min_pods": pods,
            CARDS: cards,
        }


def main() -> None:
    """Write the trace to standard output."""
    options = argparse.ArgumentParser(
        prog=sys.argv[0], description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--days", type=int, default=3, help="how many days jobs come")
    options.add_argument("--seed", type=int, default=1, help="another seed, another trace")
    given = options.parse_args()
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(jobs(given.days, given.seed))


if __name__ == "__main__":
    main()
