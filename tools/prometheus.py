"""A real Prometheus for tests of metrics, dashboards and alert rules, and its promtool.

Whether a query has data, and whether an alert fires, is decided by Prometheus and by nobody else. First answer counts:

1. ``prometheus`` and ``promtool`` on ``PATH``;
2. the cache (see ``tools.controlplane.binaries``), in a folder named after the package's version;
3. Debian's package ``prometheus``, downloaded by ``apt-get`` and unpacked into the cache: nothing is installed and no
   root is needed. Where the machine's package lists do not do, apt is given lists of its own.

``python -m tools.prometheus`` does that and prints where the programs are.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tools import debian
from tools.controlplane.binaries import Report
from tools.controlplane.errors import BuildError, ControlPlaneError, StartError
from tools.controlplane.plane import free_port
from tools.controlplane.processes import ProcessSet

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")
READY_WITHIN_SECONDS = 180.0


class PrometheusError(ControlPlaneError):
    """Prometheus refused a query; the message is its own."""


@dataclass(frozen=True)
class Programs:
    """Where the two programs are."""

    prometheus: Path
    promtool: Path


def print_progress(line: str) -> None:
    """Write one line of progress to standard error, at once."""
    sys.stderr.write(f"[prometheus] {line}\n")
    sys.stderr.flush()


def find_programs(report: Report = print_progress) -> Programs:
    """Return the programs; fetch Debian's package when they are nowhere. Raises BuildError, which states what to do."""
    on_path = [shutil.which(program) for program in PROGRAMS]
    if all(on_path):
        return Programs(*(Path(path) for path in on_path if path))
    try:
        folder = debian.unpacked(PACKAGE, [PACKAGE], report)
    except BuildError as error:
        raise BuildError(f"{error}; install Prometheus 2.42 or newer and put both programs on PATH") from None
    return Programs(*(folder / "usr" / "bin" / program for program in PROGRAMS))


class Prometheus:
    """A server of its own data on loopback, which scrapes ``targets`` (``host:port`` by job) every ``interval``.

        with Prometheus(folder, {"volsched-scheduler": ["127.0.0.1:8080"]}) as prometheus:
            prometheus.query('up{job="volsched-scheduler"}')

    ``rules`` are files of alert rules that it evaluates.
    """

    def __init__(
        self,
        folder: Path,
        targets: dict[str, list[str]],
        *,
        rules: Sequence[Path] = (),
        interval: str = "1s",
        programs: Programs | None = None,
    ) -> None:
        self._folder = folder
        self._targets = targets
        self._rules = rules
        self._interval = interval
        self._programs = programs or find_programs()
        self._port = free_port()
        self._processes = ProcessSet(folder / "logs", folder, ())

    def __enter__(self) -> Prometheus:
        self._folder.mkdir(parents=True, exist_ok=True)
        configuration = self._folder / "prometheus.json"  # JSON is YAML
        configuration.write_text(json.dumps(self._configuration()))
        process = self._processes.start(
            "prometheus",
            [
                self._programs.prometheus,
                f"--config.file={configuration}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
        )
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while not self._is_ready():
            process.check()
            if time.monotonic() > deadline:
                raise StartError(f"prometheus is not ready; its log ends:\n{process.log_tail()}")
            time.sleep(0.05)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.stop_all()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the present vector of an expression; raises PrometheusError when it is refused."""
        result: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return result

    def query_since(self, expression: str, begun: float) -> list[dict[str, Any]]:
        """Return the series of an expression, second by second since `begun` (seconds since the epoch)."""
        window = {"start": f"{begun:.3f}", "end": f"{time.time():.3f}", "step": "1"}
        result: list[dict[str, Any]] = self._get("query_range", query=expression, **window)["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules with their health and alerts."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """Return what is scraped, with the last error of each."""
        active: list[dict[str, Any]] = self._get("targets")["activeTargets"]
        return active

    def _configuration(self) -> dict[str, Any]:
        return {
            "global": {"scrape_interval": self._interval, "evaluation_interval": self._interval},
            "rule_files": [str(path.absolute()) for path in self._rules],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": addresses}]}
                for job, addresses in self._targets.items()
            ],
        }

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError), self._open("/-/ready") as answer:
            return bool(answer.status == 200)
        return False

    def _get(self, what: str, **parameters: str) -> Any:
        try:
            with self._open(f"/api/v1/{what}?{urllib.parse.urlencode(parameters)}") as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{parameters}: {error.read().decode()[:1000]}") from error

    def _open(self, path: str) -> Any:
        return urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10)


def main() -> int:
    """Find or fetch the programs and print where each is."""
    try:
        programs = find_programs()
    except ControlPlaneError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"prometheus\t{programs.prometheus}\npromtool\t{programs.promtool}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
