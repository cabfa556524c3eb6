"""Write the files of `manifests/grafana` and `manifests/prometheus` that are made: `make monitoring`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from monitoring.cards import CARDS
from monitoring.cpu_pods import CPU_PODS
from monitoring.devices import DEVICES
from monitoring.overview import OVERVIEW
from monitoring.queues import QUEUES
from monitoring.shared_cards import SHARED_CARDS

MANIFESTS = Path(__file__).resolve().parents[1] / "manifests"
RULES = MANIFESTS / "prometheus" / "rules.yaml"
DASHBOARDS = (OVERVIEW, QUEUES, CARDS, DEVICES, CPU_PODS, SHARED_CARDS)
"""What has a file of its own in `manifests/grafana`; files that others put there are left as they are."""

_HEAD = "# Made from rules.yaml by `make monitoring`, for the Prometheus operator.\n"


def files() -> dict[Path, str]:
    """Return what the made files must hold."""
    found = {
        MANIFESTS / "grafana" / f"{dashboard.name}.json": json.dumps(dashboard.json(), indent=1) + "\n"
        for dashboard in DASHBOARDS
    }
    found[MANIFESTS / "prometheus" / "prometheus-rule.yaml"] = _HEAD + yaml.safe_dump(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {
                "name": "volsched",
                "namespace": "volsched-system",
                "labels": {"app.kubernetes.io/name": "volsched"},
            },
            "spec": yaml.safe_load(RULES.read_text()),
        },
        sort_keys=False,
        width=1000,
    )
    return found


def main() -> None:
    """Write them."""
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
