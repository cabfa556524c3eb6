"""The result of a replay as the public, versioned JSON object of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from volsched.replay.records import JobRecord
from volsched.replay.runner import Replay
from volsched.replay.summary import CARDS, Json, summary_of

API_VERSION: Final = "volsched.io/v1alpha1"
KIND: Final = "ReplayResult"


def result_of(replay: Replay, cards: str = CARDS) -> Json:
    """Return the whole result. Jobs in the order in which they were given."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "jobs": _jobs(replay.records),
        "summary": {**summary_of(replay.records, replay.cluster, cards), "sessions": replay.sessions},
    }


def _jobs(records: Sequence[JobRecord]) -> list[Json]:
    return [
        {
            "name": record.job.name,
            "namespace": record.job.namespace,
            "queue": record.job.queue,
            "submit": record.job.submit,
            "start": record.start,
            "end": record.end,
            "nodes": sorted(record.nodes),
            "promised": [list(promise) for promise in record.promised],
            "evicted": record.evicted,
        }
        for record in records
    ]
