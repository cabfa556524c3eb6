"""The API server's own word on who may do what, against the tables of docs/security.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.pages import DOCS, codes, rows, section
from tests.manifests.applying import installed
from tests.manifests.rendering import MANIFESTS, SYSTEM
from tools.controlplane import ControlPlane

PAGE = DOCS / "security.md"
PROCESSES = ("volsched-scheduler", "volsched-controllers")
ELSEWHERE = "kube-system"


@pytest.fixture(scope="module")
def rights(cluster: ControlPlane) -> Iterator[ControlPlane]:
    with installed(cluster, MANIFESTS / "rbac"):
        yield cluster


def may(
    cluster: ControlPlane, user: str, verb: str, resource: str, namespace: str, groups: tuple[str, ...] = ()
) -> bool:
    """Whether a user may do something, as the API server sees it."""
    kind, _, subresource = resource.partition("/")
    plural, _, group = kind.partition(".")
    what = {"verb": verb, "resource": plural, "group": group, "subresource": subresource, "namespace": namespace}
    body = {"spec": {"user": user, "groups": [*groups, "system:authenticated"], "resourceAttributes": what}}
    answer = cluster.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def of_process(name: str) -> tuple[str, tuple[str, ...]]:
    """The user and the groups of a ServiceAccount."""
    return f"system:serviceaccount:{SYSTEM}:{name}", ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}")


@pytest.mark.parametrize(
    "row", [tuple(row) for row in rows(section(PAGE, "What they may not do"))], ids=lambda row: row[0].replace(" ", "-")
)
def test_processes_may_what_the_page_says_and_not_what_it_denies(rights: ControlPlane, row: tuple[str, ...]) -> None:
    _, verb, resource, *said = row
    assert set(said) <= {"yes", "no"}

    for process, answer in zip(PROCESSES, said, strict=True):
        user, groups = of_process(process)
        allowed = may(rights, user, next(codes(verb)), next(codes(resource)), ELSEWHERE, groups)
        assert allowed == (answer == "yes"), process


def test_each_process_has_its_own_lease_and_nobody_elses(rights: ControlPlane) -> None:
    for process, lease in zip(PROCESSES, ("volsched", "volsched-controllers"), strict=True):
        user, groups = of_process(process)
        for name in ("volsched", "volsched-controllers", "kube-scheduler"):
            what = {"verb": "update", "resource": "leases", "group": "coordination.k8s.io", "name": name}
            body = {"spec": {"user": user, "groups": groups, "resourceAttributes": what | {"namespace": SYSTEM}}}
            answer = rights.api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
            assert bool(answer["status"]["allowed"]) == (name == lease), (process, name)


@pytest.mark.parametrize(
    ("role", "verbs"), [("view", {"get", "list", "watch"}), ("edit", {"get", "list", "watch", "create", "delete"})]
)
def test_roles_of_people_cover_podgroups_and_volcano_jobs(rights: ControlPlane, role: str, verbs: set[str]) -> None:
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": f"somebody-with-{role}"}
    reference = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": role}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    rights.api.create(path, {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]})
    asked = ("get", "list", "watch", "create", "delete")
    try:
        for resource in ("podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"):
            rights.api.wait_for(
                f"{path}/{role}", lambda _, r=resource: may(rights, subject["name"], "get", r, "default")
            )  # the role is put together by a controller
            assert {verb for verb in asked if may(rights, subject["name"], verb, resource, "default")} == verbs
            assert not may(rights, subject["name"], "get", resource, ELSEWHERE)
        for verb in ("create", "patch", "delete"):
            assert not may(rights, subject["name"], verb, "queues.scheduling.volcano.sh", "default")
    finally:
        rights.api.delete(f"{path}/{role}")
