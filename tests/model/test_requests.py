"""Requests of pods, case by case after `PodRequests` of k8s.io/component-helpers/resource."""

from typing import Any

import pytest

from tests.model.objects import container, pod, sidecar
from volsched.model.errors import FieldError
from volsched.model.pods import requests
from volsched.model.pods.requests import PodRequests
from volsched.model.values.resources import Resources

MIB = 2**20
NONZERO_MEMORY = 200 * MIB


def asked(spec: dict[str, Any]) -> dict[str, str]:
    return requests.of_pod(pod(spec)).request.human()


def one(**fields: Any) -> list[dict[str, Any]]:
    return [container(**fields)]


def gpus(count: int) -> dict[str, int]:
    return {"nvidia.com/gpu": count}


@pytest.mark.parametrize(
    ("spec", "request_"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param(
            {
                "containers": [
                    container(requests={"cpu": "500m", "memory": "256Mi"}),
                    container(requests={"cpu": "250m", "memory": "512Mi"}),
                ],
                "initContainers": one(requests={"cpu": "1000m", "memory": "128Mi"}),
                "overhead": {"cpu": "100m", "memory": "64Mi"},
            },
            {"cpu": "1100m", "memory": "832Mi"},
            id="an init container larger in one resource, and overhead",
        ),
        pytest.param(
            {
                "containers": one(requests={"cpu": "1"}),
                "initContainers": [
                    container(requests={"cpu": "3"}),
                    sidecar("s1", requests={"cpu": "2"}),
                    container(requests={"cpu": "2"}),
                    sidecar("s2", requests={"cpu": "1"}),
                ],
            },
            {"cpu": "4"},
            id="sidecars count for what comes after them",
        ),
        pytest.param(
            {
                "containers": one(requests={"cpu": "1"}),
                "initContainers": [
                    sidecar("s1", requests={"cpu": "2"}),
                    container(requests={"cpu": "3"}),
                    sidecar("s2", requests={"cpu": "1"}),
                ],
            },
            {"cpu": "5"},
            id="an init container beside the sidecar before it",
        ),
        pytest.param(
            {
                "containers": [
                    container(requests={"cpu": "500m", "memory": "256Mi"}),
                    container(requests={"cpu": "500m", "memory": "256Mi", "nvidia.com/gpu": 1}),
                ],
                "resources": {"requests": {"cpu": "2000m", "memory": "600Mi", "nvidia.com/gpu": 7}},
                "overhead": {"cpu": "100m", "memory": "20Mi"},
            },
            {"cpu": "2100m", "memory": "620Mi", "nvidia.com/gpu": "1"},
            id="pod-level requests, extended resources still from the containers",
        ),
        pytest.param(
            {"containers": one(requests={"cpu": "1"}), "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}},
            {"cpu": "1", "memory": "1Gi"},
            id="a pod-level limit counts only where no container asks",
        ),
        pytest.param(
            {
                "containers": one(requests={"hugepages-2Mi": "2Mi"}),
                "resources": {"limits": {"hugepages-2Mi": "8Mi"}},
            },
            {"hugepages-2Mi": "8Mi"},
            id="huge pages are not overcommitted",
        ),
        pytest.param(
            {"containers": one(limits={"cpu": "2", "nvidia.com/gpu": 1}, requests={"cpu": "1"})},
            {"cpu": "1", "nvidia.com/gpu": "1"},
            id="a limit without a request is a request",
        ),
        pytest.param(
            {"containers": one(requests={"cpu": "0.0001", "memory": "1500m"})},
            {"cpu": "1m", "memory": "2"},
            id="rounded up",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "0.5m"}), container(requests={"cpu": "0.5m"})]},
            {"cpu": "2m"},
            id="rounded up for each container",
        ),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], request_: dict[str, str]) -> None:
    assert asked(spec) == request_


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        pytest.param({"containers": one()}, 100, NONZERO_MEMORY, id="nothing said"),
        pytest.param({"containers": [container(), container()]}, 200, 2 * NONZERO_MEMORY, id="for each container"),
        pytest.param({"containers": one(requests={"cpu": "0", "memory": "0"})}, 0, 0, id="an explicit zero counts"),
        pytest.param(
            {"containers": [container(requests={"cpu": "1"}), container()]}, 1100, 2 * NONZERO_MEMORY, id="one of two"
        ),
        pytest.param(
            {"containers": one(), "initContainers": [sidecar("s"), container(requests={"cpu": "1"})]},
            1100,
            2 * NONZERO_MEMORY,
            id="init containers too",
        ),
        pytest.param({"containers": one(), "overhead": {"cpu": "1"}}, 1100, NONZERO_MEMORY, id="beside overhead"),
        pytest.param(
            {"containers": [container(), container()], "resources": {"requests": {"cpu": "1"}}},
            1000,
            2 * NONZERO_MEMORY,
            id="the pod says one of two",
        ),
        pytest.param(
            {"containers": [container(requests={"cpu": "1"}), container()], "resources": {"requests": {"memory": 1}}},
            1000,
            1,
            id="no assumptions where pod or container say something",
        ),
    ],
)
def test_scores_assume_something_for_silent_containers(spec: dict[str, Any], cpu: int, memory: int) -> None:
    found = requests.of_pod(pod(spec))

    assert (found.nonzero_cpu, found.nonzero_memory) == (cpu, memory)


def resized(
    wanted: int, actual: int, allocated: int | None = None, kind: str = "containers", **status: Any
) -> PodRequests:
    reported: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": actual}}}
    if allocated is not None:
        reported["allocatedResources"] = {"cpu": allocated}
    field = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[kind]
    containers = [
        sidecar("main", requests={"cpu": wanted}) if kind != "containers" else container(requests={"cpu": wanted})
    ]
    return requests.of_placed_pod(pod({kind: containers}, status={field: [reported], **status}))


INFEASIBLE: dict[str, Any] = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED: dict[str, Any] = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("found", "cpu"),
    [
        pytest.param(resized(2, 2), 2000, id="as asked"),
        pytest.param(resized(4, 2), 4000, id="growing"),
        pytest.param(resized(1, 2), 2000, id="shrinking"),
        pytest.param(resized(1, 2, 3), 3000, id="the kubelet granted most"),
        pytest.param(resized(4, 2, 3, **INFEASIBLE), 3000, id="infeasible: what was asked does not count"),
        pytest.param(resized(4, 2, 3, resize="Infeasible"), 3000, id="infeasible as older kubelets say it"),
        pytest.param(resized(4, 2, 3, **DEFERRED), 4000, id="deferred"),
        pytest.param(resized(1, 2, kind="initContainers"), 2000, id="a sidecar"),
    ],
)
def test_a_placed_pod_takes_the_most_of_what_it_asked_got_and_uses(found: PodRequests, cpu: int) -> None:
    assert found.request == {"cpu": cpu}


def test_a_waiting_pod_asks_only_for_what_its_spec_says() -> None:
    found = pod(
        {"containers": one(requests={"cpu": "1"})},
        status={"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    )

    assert requests.of_pod(found).request == {"cpu": 1000}
    assert requests.is_resizing(found)


def test_an_ordinary_init_container_is_not_resized() -> None:
    found = pod(
        {"initContainers": one(requests={"cpu": "1"})},
        status={"initContainerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    )

    assert requests.of_placed_pod(found).request == {"cpu": 1000}


def test_pod_level_resources_are_resized_too() -> None:
    found = pod(
        {"containers": one(requests={"cpu": "1"}), "resources": {"requests": {"cpu": "2"}}},
        status={"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "4", "memory": "1Gi"}},
    )

    assert requests.of_placed_pod(found).request == {"cpu": 4000}


def test_a_kubelet_that_reports_what_was_asked_is_no_resize() -> None:
    found = pod(
        {"containers": one(requests={"cpu": "1"}, limits={"nvidia.com/gpu": 1})},
        status={
            "containerStatuses": [
                {
                    "name": "main",
                    "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": 1}},
                    "allocatedResources": {"cpu": "1", "nvidia.com/gpu": 1},
                }
            ]
        },
    )

    assert not requests.is_resizing(found)
    assert requests.of_placed_pod(found).request == Resources.of({"cpu": 1, **gpus(1)})


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"containers": [container(), container(requests={"cpu": "one"})]},
            "spec.containers[1].resources.requests[cpu]",
        ),
        ({"containers": one(limits={"cpu": "-1"})}, "spec.containers[0].resources.limits[cpu]"),
        ({"initContainers": one(requests={"gpu": "x"})}, "spec.initContainers[0].resources.requests[gpu]"),
        ({"overhead": {"memory": "1gb"}}, "spec.overhead[memory]"),
        ({"resources": {"limits": {"cpu": ""}}}, "spec.resources.limits[cpu]"),
    ],
)
def test_a_bad_quantity_is_named_by_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(FieldError) as caught:
        requests.of_pod(pod(spec))

    assert caught.value.path == path


def test_a_container_that_the_kubelet_does_not_report_counts_as_asked() -> None:
    reported = [{"name": "other", "resources": {"requests": {"cpu": "9"}}}, {"name": "bare"}]
    found = pod(
        {"containers": [container(requests={"cpu": "1"}), container("bare", requests={"cpu": "2"})]},
        status={"containerStatuses": reported, "resources": {"requests": {}}},
    )

    assert not requests.is_resizing(found)
    assert requests.of_placed_pod(found).request == {"cpu": 3000}


def test_a_pod_level_resize_alone_is_a_resize() -> None:
    found = pod({"resources": {"requests": {"cpu": "1"}}}, status={"resources": {"requests": {"cpu": "2"}}})

    assert requests.is_resizing(found)
    assert requests.of_placed_pod(found).request == {"cpu": 2000}
