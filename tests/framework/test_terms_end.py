"""What is counted for terms about other pods ends with the pods that have them, however few pods these were."""

from __future__ import annotations

from typing import Any

from volsched.mirror.settings import MirrorSettings
from volsched.model.changes import Deleted
from volsched.testing.builders import Rig, a_cluster, a_pod, a_rig, put

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: predicates
  - name: nodeorder
"""
PLAIN = MirrorSettings(plain_pods=True)
TERMS, PODS, SWEEP = 40, 20, 64


def a_term(number: int, pod: int) -> dict[str, Any]:
    """Return a term like no other, about a topology like no other."""
    selector = {"matchLabels": {f"label-{pod}-{number}": "x"}}
    return {"topologyKey": f"topology-{pod}-{number}", "labelSelector": selector}


def a_pod_of_many_terms(number: int) -> dict[str, Any]:
    """Return a pod that is far from many kinds of pods, and likes to be near as many."""
    terms = [a_term(n, number) for n in range(TERMS)]
    rule = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms[::2]},
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": term} for term in terms[1::2]
            ]
        },
    }
    return a_pod(f"odd-{number}", spec={"affinity": rule}, cpu="1")


def kept(rig: Rig) -> int:
    """How many entries the tables about neighbours have."""
    return rig.scheduler.table_sizes()["accounts.framework.domains"]


def test_terms_of_pods_that_are_gone_are_forgotten() -> None:
    rig = a_rig(a_cluster().node("n1", cpu="1000").node("n2", cpu="1000"), CONFIGURATION, settings=PLAIN)
    rig.cycle(*(put(a_pod(f"plain-{number}", cpu="1")) for number in range(4)))
    before = kept(rig)

    rig.cycle(*(put(a_pod_of_many_terms(number)) for number in range(PODS)))
    assert kept(rig) > PODS * TERMS
    rig.cycle(*(Deleted("Pod", "default", f"odd-{number}", f"pod-default-odd-{number}") for number in range(PODS)))
    rig.cycle(*(put(a_pod(f"later-{number}", cpu="1")) for number in range(SWEEP)))

    assert kept(rig) == before
