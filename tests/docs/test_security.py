"""docs/security.md has every right of manifests/rbac, and no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.docs.pages import DOCS, ROOT, codes, headings, rows, section
from tools.documents import yaml_documents
from volsched.model.pods.limits import DEFAULT

PAGE = DOCS / "security.md"
RIGHTS = ROOT / "manifests/rbac"
NAMES = ("Scheduler", "Controllers", "Webhooks", "SSH", "Queues", "Certificates", "UI")
PROCESSES = {name: name.lower() for name in NAMES}
READERS = {"Readers of queues": "volsched-queue-reader", "Readers of explanations": "volsched-explain-reader"}

Right = tuple[str, str, str, str, str]
"""Where, API group, resource, the only name that it is for (or empty), verb."""


def granted(process: str, named: str = "") -> Iterator[Right]:
    """Every right of a process; of one role alone when that is named."""
    for found in yaml_documents((RIGHTS / process / "rights.yaml").read_text()):
        if named not in ("", found["metadata"]["name"]):
            continue
        where = {"Role": "own", "ClusterRole": "all"}.get(found["kind"])
        for rule in found.get("rules", ()) if where else ():
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        yield from ((where or "", group, resource, name, verb) for verb in rule["verbs"])


def documented(heading: str) -> Iterator[Right]:
    for where, group, resources, verbs, why in rows(section(PAGE, heading)):
        assert why
        named, _, name = resources.partition(" named ")
        for resource in codes(named):
            for verb in codes(verbs):
                yield where, "" if group == "core" else next(codes(group)), resource, "".join(codes(name)), verb


@pytest.mark.parametrize("heading", PROCESSES)
def test_rights_of_a_process_are_those_of_the_page(heading: str) -> None:
    assert Counter(documented(heading)) == Counter(granted(PROCESSES[heading]))


@pytest.mark.parametrize("heading", READERS)
def test_rights_of_readers_are_those_of_the_page(heading: str) -> None:
    assert Counter(documented(heading)) == Counter(granted("users", READERS[heading]))


def test_every_process_with_rights_has_its_section() -> None:
    folders = {path.parent.name for path in RIGHTS.glob("*/rights.yaml")}
    others = {*READERS, "Readers of metrics"}
    sections = {text.lower() for level, text in headings(PAGE) if level == 3 and text not in others}

    assert folders - {"users"} == sections


def test_nothing_is_granted_by_a_wildcard() -> None:
    for process in PROCESSES.values():
        for right in granted(process):
            assert "*" not in "".join(right), right


def test_service_accounts_of_the_page_exist() -> None:
    listed = {next(codes(identity)) for _, identity, _ in rows(section(PAGE, "Identities")) if "Account" in identity}
    accounts = {
        found["metadata"]["name"]
        for process in PROCESSES.values()
        for found in yaml_documents((RIGHTS / process / "rights.yaml").read_text())
        if found["kind"] == "ServiceAccount"
    }

    assert listed == accounts


def test_limits_of_a_pod_are_those_of_the_code() -> None:
    limits = [(most, by.split("=")) for _, most, by, _ in rows(section(PAGE, "How much one object may cost"))]
    documented = {words[1]: int(most) for most, words in limits if words[0] == "`--pod-limit"}

    assert documented == DEFAULT.by_name()
