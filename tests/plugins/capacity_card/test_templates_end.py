"""What is kept by template ends when most templates are gone: a burst of odd pods leaves nothing behind."""

from __future__ import annotations

from tests.plugins.capacity_card.clusters import A, cards, rig
from volsched.model.changes import Deleted, Put
from volsched.testing.builders import put

ODD = 300


def odd(number: int) -> Put:
    """A pod like no other, which no node takes."""
    name = f"odd-{number}"
    container = {"name": "c", "resources": {"requests": {"cpu": "1", f"odd.example/r{number}": "1"}}}
    spec = {"schedulerName": "volsched", "containers": [container], "nodeSelector": {f"key-{number}": "x"}}
    annotations = {"scheduling.volcano.sh/queue-name": "q"}
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "annotations": annotations}
    return put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def test_a_burst_of_odd_pods_leaves_nothing_by_template() -> None:
    on = rig(cards().cards("a1", A, 8).quota("q", {A: 2}))
    on.cycle()
    kept = ("decisions.engine", "accounts.capacity-card.ledger")
    before = {name: on.scheduler.table_sizes()[name] for name in kept}

    on.cycle(*map(odd, range(ODD)))
    assert on.scheduler.table_sizes()["accounts.capacity-card.ledger"] >= ODD
    on.cycle(*(Deleted("Pod", "default", f"odd-{number}", f"odd-{number}") for number in range(ODD)))

    after = on.scheduler.table_sizes()
    assert all(after[name] <= before[name] + 64 for name in kept), after
