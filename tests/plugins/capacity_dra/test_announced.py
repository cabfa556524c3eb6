"""What PodGroups tell of their pods' claims before there are pods: quotas are minded when the group is admitted."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from plugins.capacity_dra.validation import validate
from tests.framework.dra.worlds import asking, claim, device_class, exactly, first_of
from tests.plugins.capacity_dra.test_capacity_dra import HIERARCHY, a_world, configuration, quota
from volsched.framework.validation import Surroundings
from volsched.model import api
from volsched.model.dra.announced import ANNOTATION, announced_by, announcement
from volsched.model.job import INQUEUE
from volsched.model.plan import RecordEvent
from volsched.model.pods.claim_use import ResourceClaimUse
from volsched.testing.builders import ClusterBuilder, Rig, a_rig, put

GPU = {"name": "gpu", "template": "one"}
SHARED = {"name": "nic", "claim": "shared"}


def template(name: str, *requests: Any) -> dict[str, Any]:
    spec = claim(name, *requests)["spec"]
    meta = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": meta,
        "spec": {"spec": spec},
    }


def telling(
    cluster: ClusterBuilder,
    name: str,
    roles: Any,
    minimum: int = 1,
    least: dict[str, int] | None = None,
    phase: str = "Pending",
    queue: str = "q",
    **spec: Any,
) -> ClusterBuilder:
    """A PodGroup without pods whose annotation says this."""
    notes = {ANNOTATION: roles if isinstance(roles, str) else json.dumps(roles)}
    told = {"minTaskMember": least} if least else {}
    return cluster.group(name, queue, minimum, phase, annotations=notes, **told, **spec)


def phases(rig: Rig) -> dict[str, str]:
    return {job.name: job.phase for job in rig.cluster.jobs.values()}


def is_admitted(cluster: ClusterBuilder, settings: str = "") -> bool:
    rig = a_rig(cluster, settings or configuration())
    rig.cycle()
    return phases(rig)["g"] == INQUEUE


@pytest.mark.parametrize(
    ("roles", "least", "minimum", "limit", "fits"),
    [
        ({"w": [GPU]}, {"w": 2}, 2, 2, True),
        ({"w": [GPU]}, {"w": 2}, 2, 1, False),
        ({"w": [GPU, {"name": "b", "template": "two"}]}, {"w": 2}, 2, 6, True),
        ({"w": [GPU, {"name": "b", "template": "two"}]}, {"w": 2}, 2, 5, False),
        ({"w": [GPU], "ps": []}, {"w": 1, "ps": 3}, 4, 1, True),
        ({"w": [GPU], "ps": [GPU]}, {"w": 1, "ps": 3}, 4, 3, False),
        ({"w": [GPU]}, {"w": 0, "ps": 3}, 3, 0, True),
        ({"": [GPU]}, None, 3, 3, True),
        ({"": [GPU]}, None, 3, 2, False),
        ({"": [GPU]}, {"w": 3}, 3, 2, False),
        ({"w": [GPU]}, None, 3, 2, True),  # of which role the three will be nobody says
        ({"w": [SHARED]}, {"w": 5}, 5, 2, True),  # once, for all of them
        ({"w": [SHARED]}, {"w": 5}, 5, 1, False),
        ({"w": [SHARED, GPU]}, {"w": 5}, 5, 7, True),
        ({"w": [SHARED, GPU]}, {"w": 5}, 5, 6, False),
        ({"w": [SHARED], "ps": [SHARED]}, {"w": 1, "ps": 1}, 2, 2, True),
        ({"w": [{"name": "gpu", "template": "not there"}]}, {"w": 5}, 5, 0, True),
        ({"w": [{"name": "gpu", "claim": "not there"}]}, {"w": 5}, 5, 0, True),
        ({"w": [{"name": "gpu", "template": "choice"}]}, {"w": 2}, 2, 2, True),  # one of each at least
        ({"w": [{"name": "gpu", "template": "choice"}]}, {"w": 2}, 2, 1, False),
        ({"w": [GPU]}, {"w": 3}, 2, 2, True),  # two of the three will do
        ({"w": [GPU]}, {"w": 3}, 2, 1, False),
        ({"w": [GPU], "ps": [GPU, {"name": "b", "template": "two"}]}, {"w": 2, "ps": 2}, 3, 3, True),
        ({"w": [GPU], "ps": [GPU, {"name": "b", "template": "two"}]}, {"w": 2, "ps": 2}, 3, 2, False),
        ({"w": [GPU], "ps": []}, {"w": 2, "ps": 2}, 2, 0, True),
        ({"w": [SHARED], "ps": [SHARED, GPU]}, {"w": 2, "ps": 2}, 2, 2, True),
        ({"w": [SHARED], "ps": [SHARED, GPU]}, {"w": 2, "ps": 2}, 2, 1, False),
        ({"w": [GPU]}, {"w": 2_000_000_000}, 2_000_000_000, 100, False),
    ],
)
def test_a_group_without_pods_is_admitted_when_what_it_tells_fits(
    roles: Any, least: dict[str, int] | None, minimum: int, limit: int, fits: bool
) -> None:
    cluster = a_world().queue("q", **quota(gpu=limit))
    cluster.add(template("one", exactly())).add(template("two", exactly(count=2))).add(
        claim("shared", exactly(count=2))
    )
    cluster.add(template("choice", first_of("r0", asking("a", count=2), asking("b", count=1))))
    began = time.process_time()

    assert is_admitted(telling(cluster, "g", roles, minimum, least)) is fits
    assert time.process_time() - began < 5, "by multiplication, and not pod by pod"


def test_the_refusal_names_what_is_short() -> None:
    cluster = a_world().queue("q", **quota(gpu=3)).add(template("one", exactly(count=2)))
    rig = a_rig(telling(cluster, "g", {"w": [GPU]}, 2, {"w": 2}), configuration())

    rig.cycle()

    refusal = rig.cluster.jobs["default/g"].refusal
    assert refusal is not None
    assert refusal.reason == "InsufficientDRAQuota"
    assert "requested 4, used 0, total would be 4, but capability is 3" in refusal.message


def test_what_was_promised_to_one_group_is_not_promised_to_another_and_pods_take_its_place() -> None:
    cluster = a_world().queue("q", **quota(gpu=2)).add(template("one", exactly()))
    telling(cluster, "a", {"w": [GPU]}, 2, {"w": 2}, INQUEUE)
    rig = a_rig(telling(cluster, "b", {"w": [GPU]}, 1, {"w": 1}), configuration())
    rig.cycle()
    assert phases(rig)["b"] == "Pending"

    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    came = ClusterBuilder().pod("a-0", "a", labels={"volcano.sh/task-spec": "w"}, cpu="1", spec=spec).changes()
    rig.cycle(*came)
    quotas = rig.scheduler._accounts.get("capacity-dra.quotas", lambda _: pytest.fail("no quotas"))
    assert {key.key: int(value) for key, value in quotas.reserved("q").items()} == {"deviceclass/gpu": 2}
    assert phases(rig)["b"] == "Pending"

    rig.cycle(*telling(ClusterBuilder(), "a", {"w": [GPU]}, 1, {"w": 1}, INQUEUE).changes())
    assert phases(rig)["b"] == INQUEUE


@pytest.mark.parametrize(("limit", "fits"), [(4, True), (3, False)])
def test_missing_pods_count_as_the_largest_that_is_there_whatever_is_announced(limit: int, fits: bool) -> None:
    cluster = a_world().queue("q", **quota(gpu=limit)).add(template("one", exactly(count=8))).add(claim("c", exactly()))
    telling(cluster, "g", {"w": [GPU]}, 4, {"w": 4})
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    cluster.pod("g-0", "g", labels={"volcano.sh/task-spec": "w"}, cpu="1", spec=spec)

    assert is_admitted(cluster) is fits


def test_gated_pods_count_nothing() -> None:
    cluster = a_world().queue("q", **quota(gpu=1)).add(claim("c", exactly(count=8))).group("g", "q", 1, "Pending")
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}], "schedulingGates": [{"name": "e.com/n"}]}

    assert is_admitted(cluster.pod("g-0", "g", cpu="1", spec=spec))


def test_a_template_that_asks_for_less_lets_the_group_in() -> None:
    cluster = a_world().queue("q", **quota(gpu=2)).add(template("one", exactly(count=2)))
    rig = a_rig(telling(cluster, "g", {"w": [GPU]}, 2, {"w": 2}), configuration())
    rig.cycle()
    assert phases(rig)["g"] == "Pending"

    rig.cycle(put(template("one", exactly(count=1))))

    assert phases(rig)["g"] == INQUEUE


def test_a_shared_claim_that_the_queue_holds_already_is_not_counted_again() -> None:
    cluster = a_world().queue("q", **quota(gpu=2)).add(claim("shared", exactly(count=2)))
    cluster.group("run", "q", 1, "Running").pod(
        "r", "run", on="n1", cpu="1", spec={"resourceClaims": [{"name": "nic", "resourceClaimName": "shared"}]}
    )

    assert is_admitted(telling(cluster, "g", {"w": [SHARED]}, 3, {"w": 3}))


def test_queues_above_count_too() -> None:
    cluster = a_world().queue("top", **quota(gpu=1)).queue("q", parent="top").add(template("one", exactly()))

    assert not is_admitted(telling(cluster, "g", {"w": [GPU]}, 2, {"w": 2}), HIERARCHY)


@pytest.mark.parametrize(("limit", "fits"), [(4, True), (3, False)])
@pytest.mark.parametrize("offered", [0, 8])
def test_extended_resources_count_by_min_resources_where_no_node_offers_them(
    limit: int, fits: bool, offered: int
) -> None:
    cluster = a_world().queue("q", **quota(gpu=limit))
    cluster.add(device_class("gpu", driver="gpu.example.com", extendedResourceName="example.com/gpu"))
    cluster.node("n2", **({"example.com/gpu": offered} if offered else {}))
    cluster.group("g", "q", 2, "Pending", minResources={"example.com/gpu": 4})

    assert is_admitted(cluster) is (fits or bool(offered))


# -- the annotation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["[", "[]", '{"w": 1}', '{"w": [{"name": "x"}]}', '{"w": [{"name": "x", "claim": "a", "template": "b"}]}',
     '{"w": [{"claim": "a"}]}', '{"w": [{"name": "x", "claim": "a", "count": 2}]}', "\ud800"],
)  # fmt: skip
def test_what_is_not_understood_is_told_once_and_keeps_nobody_out(text: str) -> None:
    cluster = a_world().queue("q", **quota(gpu=0))
    rig = a_rig(telling(cluster, "g", text), configuration())

    first, second = rig.cycle(), rig.cycle()

    told = [
        [s.name for s in d.steps if isinstance(s, RecordEvent) and s.reason == "InvalidDRARequest"]
        for d in (first, second)
    ]
    assert told == [["g"], []]
    assert phases(rig)["g"] == INQUEUE
    group = api.decode_as(api.PodGroup, {"metadata": {"name": "g", "annotations": {ANNOTATION: text}}})
    assert [fault.field for fault in validate(group, Surroundings([group]))] == [f"metadata.annotations[{ANNOTATION}]"]


def test_it_is_told_once_however_often_the_group_is_considered() -> None:
    cluster = telling(a_world().queue("q", **quota(gpu=0)), "g", "[").add(claim("c", exactly()))
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
    rig = a_rig(cluster.pod("g-0", "g", cpu="1", spec=spec), configuration())

    decisions = [rig.cycle(), *(rig.cycle(*ClusterBuilder().node(f"more-{n}").changes()) for n in range(2))]

    assert phases(rig)["g"] == "Pending"
    events = [
        s.name for d in decisions for s in d.steps if isinstance(s, RecordEvent) and s.reason == "InvalidDRARequest"
    ]
    assert events == ["g"]


def test_what_is_written_for_pods_is_what_is_read() -> None:
    entries = [
        {"name": "gpu", "resourceClaimTemplateName": "one"},
        {"name": "nic", "resourceClaimName": "shared"},
        {"name": "nothing"},
    ]
    spec = api.decode_as(api.Pod, {"metadata": {"name": "p"}, "spec": {"resourceClaims": entries}}).spec

    written = announcement([("w", spec), ("ps", api.PodSpec())])

    said = announced_by(written)
    assert said.of_role("w") == (ResourceClaimUse("gpu", template="one"), ResourceClaimUse("nic", claim="shared"))
    assert said.of_role("ps") == ()
    assert announcement([("ps", api.PodSpec())]) == {}
