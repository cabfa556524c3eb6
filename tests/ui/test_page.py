"""The page in a real Chromium, on a real control plane with the example cluster, scheduler and controllers."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.manifests.rendering import MANIFESTS
from tests.ui.links import headers_of, link_in
from tools import chromium
from tools.controlplane.plane import free_port
from tools.playground import Playground

pytestmark = pytest.mark.process

DIGITS = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: digits, namespace: vision}
spec: {minMember: 1, queue: vision}
---
apiVersion: v1
kind: Pod
metadata: {name: digits-0, namespace: vision, annotations: {scheduling.k8s.io/group-name: digits}}
spec:
  schedulerName: volsched
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: c, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""
OF_VISION = ("vision/", "segmenter", "digits", "recognise", "detector", "wants-l40s")
"""Beginnings of what only readers of the namespace may see."""
HOSTILE = ("<img src=x onerror=document.title='taken'>", "\u202egnp.exe")
LONG = "a" * 63
UNVERIFIED = ssl._create_unverified_context()
WITHIN = 30_000
"""Milliseconds: nothing here is a measurement."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of the README's tour, with the quota that it sets."""
    folder = tmp_path_factory.mktemp("examples")
    for path in (MANIFESTS / "examples").glob("*.yaml"):
        shutil.copy(path, folder)
    configuration, teams = folder / "00-configuration.yaml", folder / "20-teams.yaml"
    text = configuration.read_text()
    configuration.write_text(text.replace("- name: predicates", "- name: proportion\n      - name: predicates"))
    quota = 'spec: {weight: 1, capability: {nvidia.com/gpu: "8"}}'
    teams.write_text(teams.read_text().replace("spec: {weight: 1}", quota, 1))
    (folder / "60-digits.yaml").write_text(DIGITS)
    return folder


@pytest.fixture(scope="module")
def playground(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    made = Playground(tmp_path_factory.mktemp("playground"))
    made.up(folder)
    yield made
    made.down()


@contextmanager
def serving(playground: Playground, kubeconfig: str, *flags: str) -> Iterator[str]:
    """`volsched ui` as a process; yields its host and port once it answers."""
    address, log = f"127.0.0.1:{free_port()}", playground.folder / f"ui{len(flags)}.log"
    command = [sys.executable, "-m", "volsched", "ui", "--kubeconfig", kubeconfig, "--listen-address", address, *flags]
    scheme = "https" if "--auth" in flags else "http"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                urllib.request.urlopen(f"{scheme}://{address}/healthz", context=UNVERIFIED).close()
                break
            time.sleep(0.2)
        try:
            assert process.poll() is None, log.read_text()
            yield address
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def address(playground: Playground) -> Iterator[str]:
    """Where the page is, with the administrator's kubeconfig."""
    kubeconfig = json.loads((playground.folder / "state.json").read_text())["kubeconfig"]
    with serving(playground, kubeconfig) as address:
        yield f"http://{address}"


@pytest.fixture(scope="module")
def link(playground: Playground, address: str) -> str:
    return link_in(playground.folder / "ui0.log")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program, environment = chromium.find()
    expect.set_options(timeout=WITHIN)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, env=environment, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, address: str, link: str) -> Iterator[Page]:
    """A page in which nothing may go wrong unseen: no error of a script, nothing that the policy had to stop."""
    page = browser.new_page(base_url=address, viewport={"width": 1200, "height": 800})
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.set_default_timeout(WITHIN)
    page.goto(link)
    yield page
    page.close()
    assert said == []


def status(address: str, token: str = "", path: str = "/queues") -> int:
    request = urllib.request.Request(f"https://{address}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        return int(urllib.request.urlopen(request, context=UNVERIFIED).status)
    except urllib.error.HTTPError as error:
        return error.code


def quota(playground: Playground, cards: int) -> None:
    patch = {"spec": {"capability": {"nvidia.com/gpu": str(cards)}}}
    playground._kubectl("patch", "queue", "vision", "--type=merge", "-p", json.dumps(patch))


def test_job_that_waits_is_explained_and_starts_when_its_quota_is_edited(playground: Playground, page: Page) -> None:
    page.goto("/jobs?state=waiting&namespace=vision")
    row = page.locator("tbody tr", has_text="PodGroup/digits")
    expect(row).to_contain_text("nvidia.com/gpu: requested 1, used 8, limit 8")
    row.locator("th a").click()
    expect(page.locator("#suggestions")).to_contain_text("Each change was tried alone", timeout=60_000)
    expect(page.locator("#suggestions pre").first).to_contain_text("kubectl")

    page.goto("/jobs?state=waiting&namespace=vision")
    expect(row).to_have_count(1)
    quota(playground, 16)
    expect(row).to_have_count(0, timeout=WITHIN)


def test_hostile_names_are_text(playground: Playground, page: Page) -> None:
    page.goto("/queues")
    queue: Any = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": f"{LONG}.{LONG}.{LONG}.{'b' * 61}"},
        "spec": {"weight": 1, "capability": dict.fromkeys(HOSTILE, "1")},
    }
    playground._kubectl("apply", "-f", "-", stdin=json.dumps(queue))

    expect(page.get_by_text(queue["metadata"]["name"])).to_be_attached()
    for name in HOSTILE:
        expect(page.get_by_text(name, exact=True).first).to_be_attached()
    assert page.title().startswith("Queues - volsched")
    assert page.locator("img").count() == 0
    page.goto("/jobs?namespace=%22%3E%3Cscript%3Edocument.title=1%3C/script%3E")
    assert page.title().startswith("Jobs - volsched")
    playground._kubectl("delete", "queue", queue["metadata"]["name"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        *("/overview", "/queues", "/queue/vision", "/cards", "/nodes", "/node/a100-1"),
        *("/jobs", "/job/vision/segmenter", "/what-if"),
    ],
)
def test_everybody_can_use_it(page: Page, path: str, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(path)

    found = Axe().run(page).response["violations"]

    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def test_page_fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    for path in (
        *("/overview", "/queues", "/queue/vision", "/cards", "/nodes", "/node/a100-1"),
        *("/jobs", "/job/vision/segmenter", "/what-if"),
    ):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


def test_what_if_shows_differences(page: Page) -> None:
    page.goto("/what-if")
    page.locator('input[name="nodes:t4-1"]').fill("4")

    expect(page.locator("#result h2")).to_contain_text("nodes like t4-1: +4")
    expect(page.locator("label", has_text="t4-1").locator("output")).to_have_text("4")

    page.locator('input[name="nodes:t4-1"]').fill("0")
    page.get_by_label("Queue").select_option("vision")
    slider = page.locator('input[name="quota:capability:nvidia.com/gpu"]')
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator("#result h2")).to_contain_text("nvidia.com/gpu of queue vision: 0")


def test_keyboard_is_enough(page: Page) -> None:
    page.goto("/jobs")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(30):
        if page.evaluate("document.activeElement.closest('tbody') !== null"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/job/**")


def test_use_over_time_has_a_chart_and_words(playground: Playground, page: Page) -> None:
    page.goto("/queue/vision")
    quota(playground, 17)
    chart = page.locator(".histories figure").first
    expect(chart.locator("canvas")).to_have_count(1)
    expect(chart.locator("figcaption")).to_contain_text("now")


def test_only_what_differs_is_sent(playground: Playground, page: Page) -> None:
    """The rows of queues that nothing happened to stay the very elements that they were."""
    page.goto("/queues")
    mark_rows_at_rest(page)
    quota(playground, 18)
    changed = page.locator("tbody tr", has_text="limit 18")
    expect(changed).to_have_count(1)
    marked = rows_marked(page)
    assert marked.count(False) == 1
    assert len(marked) > 1


def mark_rows_at_rest(page: Page) -> None:
    """Mark all rows once none is replaced: the stream begins with all of them if any changed since the page."""
    deadline = time.monotonic() + WITHIN / 1000
    while time.monotonic() < deadline:
        page.evaluate("document.querySelectorAll('#rows tr').forEach(row => { row.marked = true; })")
        page.wait_for_timeout(2000)
        if all(rows_marked(page)):
            return
    raise AssertionError("rows are replaced again and again though nothing happens")


def rows_marked(page: Page) -> list[bool]:
    """Return of each row that is shown whether it is one that was marked."""
    found: list[bool] = page.evaluate("[...document.querySelectorAll('#rows tr')].map(row => row.marked === true)")
    return found


def test_configuration_is_followed(playground: Playground, page: Page) -> None:
    page.goto("/jobs")
    before = playground._kubectl("get", "configmap", "-n", "volsched-system", "volsched-config", "-o", "json")
    data = json.loads(before)["data"]
    [key] = [name for name, text in data.items() if "tiers" in text]

    def write(text: str) -> None:
        patch = json.dumps({"data": {key: text}})
        playground._kubectl("patch", "configmap", "-n", "volsched-system", "volsched-config", "-p", patch)

    write(data[key].replace("proportion", "proportoin"))
    wait_for_notice(page, "proportoin")
    write(data[key])
    wait_for_notice(page, "")


def wait_for_notice(page: Page, text: str) -> None:
    """Load the page until it says something of the configuration, or nothing."""
    deadline = time.monotonic() + WITHIN / 1000
    while time.monotonic() < deadline:
        page.goto("/jobs")
        notice = page.locator(".notice")
        if text in notice.inner_text() if notice.count() and text else not (text or notice.count()):
            return
        time.sleep(0.3)
    raise AssertionError(f"the page does not say {text!r}")


def test_other_hosts_are_refused(address: str, link: str) -> None:
    request = urllib.request.Request(f"{address}/queues", headers={"Host": "evil.example"})

    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request)

    assert error.value.code == 403
    answer = urllib.request.urlopen(urllib.request.Request(f"{address}/queues", headers=headers_of(link)))
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]


def test_in_a_cluster_the_api_server_says_who_may_see_what(playground: Playground) -> None:
    """With the rights of the component, so these are enough to read what the page shows."""
    kubectl, system = playground._kubectl, "volsched-system"
    kubectl("apply", "-f", str(MANIFESTS / "rbac/ui/rights.yaml"), "-f", str(MANIFESTS / "base/ui/reader.yaml"))
    access = ("reader", "stranger", "teammate")
    for name in access:
        kubectl("create", "serviceaccount", "-n", system, name)
    for name in ("reader", "teammate"):
        bind = ("create", "clusterrolebinding", name, "--clusterrole=volsched-ui-reader")
        kubectl(*bind, f"--serviceaccount={system}:{name}")
    kubectl("create", "clusterrolebinding", "sees", "--clusterrole=cluster-admin", f"--serviceaccount={system}:reader")
    role = ("create", "rolebinding", "-n", "language", "teammate", "--clusterrole=view")
    kubectl(*role, f"--serviceaccount={system}:teammate")
    tokens = {name: kubectl("create", "token", "-n", system, name).strip() for name in access}
    kubeconfig = playground.folder / "ui.kubeconfig"
    kubeconfig.write_text(playground._kubeconfig_for("volsched-ui"))

    with serving(playground, str(kubeconfig), "--auth") as address:
        assert (status(address), status(address, tokens["stranger"])) == (401, 403)
        assert "PodGroup/segmenter" in text_of(address, tokens["reader"], "/jobs")
        for path in (*VIEWS_AND_MORE, *STREAMS):
            shown = text_of(address, tokens["teammate"], path)
            assert not [name for name in OF_VISION if name in shown], path
        assert "language" in text_of(address, tokens["teammate"], "/jobs")
        for path in FORBIDDEN:
            assert status(address, tokens["teammate"], path) in (403, 404), path


STREAMS = (*("/events/jobs?namespace=vision", "/events/overview", "/events/cards", "/events/queues", "/events/nodes"),)
VIEWS_AND_MORE = (
    *("/overview", "/queues", "/cards", "/cards?state=used", "/nodes", "/nodes?colour=job"),
    *("/jobs", "/jobs?reason=vision", "/search?text=e", "/state"),
    *("/what-if", "/what-if/quotas", "/what-if?nodes:t4-1=1"),
)
FORBIDDEN = (
    *("/queue/vision", "/events/queue/vision", "/node/a100-1", "/events/node/a100-1"),
    "/job/vision/segmenter",
    "/job/vision/segmenter/suggestions",
    "/events/job/vision/segmenter",
    "/what-if/quotas?queue=vision",
    "/what-if/result?queue=vision&quota:capability:nvidia.com/gpu=1",
    "/what-if/result?nodes:t4-1=1",
)


def text_of(address: str, token: str, path: str) -> str:
    """Return what a path answers; of events, those of the beginning. Names are whole, without places to break them."""
    request = urllib.request.Request(f"https://{address}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, context=UNVERIFIED) as answer:
        if "event-stream" in answer.headers["Content-Type"]:
            return str(answer.read1(1 << 20).decode()).replace("<wbr>", "")
        return str(answer.read().decode()).replace("<wbr>", "")
