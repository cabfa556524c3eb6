"""CPU time: children count while they run and after they have ended."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.suite import cpu
from tests.suite.cpu import cpu_seconds
from tests.suite.results import Results, busiest

BURNS = 0.3

GRANDCHILD = f"import time\nwhile time.process_time() < {BURNS}: pass"

CHILD = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {GRANDCHILD!r}])
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_descendants_count_while_their_parent_runs_and_after_the_parent_has_ended() -> None:
    before = cpu_seconds()
    command = [sys.executable, "-c", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert cpu_seconds() - before >= BURNS
        child.communicate()

    assert cpu_seconds() - before >= BURNS
    assert cpu_seconds(child.pid) == 0
    assert list(cpu._family(child.pid)) == [child.pid]


def test_the_own_cpu_time_counts() -> None:
    before, began = cpu_seconds(), time.process_time()
    while time.process_time() - began < BURNS:
        pass

    assert cpu_seconds() - before >= BURNS - 0.05  # the kernel counts in ticks


def test_the_busiest_files_come_first_with_the_sum_of_their_tests() -> None:
    results = Results()
    for test, seconds in (("a.py::1", 1.0), ("b.py::1", 1.5), ("a.py::2", 1.0)):
        results.read({"test": test, "marks": (), "outcome": "passed", "cpu": seconds})

    assert [line.split() for line in busiest([results])] == [["2.0", "s", "a.py"], ["1.5", "s", "b.py"]]
