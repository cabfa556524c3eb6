"""The page of manifests: what sessions in memory came to, in a real Chromium, without a cluster."""

from __future__ import annotations

import http.server
import os
import re
import signal
import socket
import subprocess
import sys
import threading
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

from tests.manifests.rendering import MANIFESTS, ROOT
from tests.ui.links import headers_of, link_in
from tools import chromium
from tools.controlplane.plane import free_port
from volsched.ui.static_cluster import SCHEDULED

EXAMPLES = MANIFESTS / "examples"
WITHIN = 30_000
"""Milliseconds: nothing here is a measurement."""


@contextmanager
def serving(*flags: str | Path, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`volsched ui -f` as a process without any cluster; yields its address once it answers."""
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "volsched", "ui", "--listen-address", address, *map(str, flags)]
    nowhere = {**os.environ, "KUBECONFIG": "/nonexistent", "HOME": "/nonexistent"}
    nowhere.pop("KUBERNETES_SERVICE_HOST", None)
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT, env=nowhere) as process,
    ):
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError):
                urllib.request.urlopen(f"http://{address}/healthz").close()
                break
            time.sleep(0.2)
        try:
            assert process.poll() is None, log.read_text()
            yield f"http://{address}", process
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("still") / "ui.log"


@pytest.fixture(scope="module")
def address(log: Path) -> Iterator[str]:
    with serving("-f", EXAMPLES, log=log) as (address, _):
        yield address


@pytest.fixture(scope="module")
def link(address: str, log: Path) -> str:
    return link_in(log)


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


@pytest.mark.process
def test_cards_are_taken_by_the_pods_that_simulate_places(page: Page) -> None:
    page.goto("/cards")

    expect(page.get_by_text(SCHEDULED)).to_be_visible()
    row = page.locator("tbody tr", has_text="a100-1")
    expect(row).to_contain_text("8 of 8")
    expect(row).to_contain_text("vision/detector-0")


@pytest.mark.process
def test_node_map_is_filtered_while_typing_and_names_holders_by_keyboard(page: Page) -> None:
    page.goto("/nodes")
    page.get_by_role("searchbox", name="Holder").fill("detector")
    expect(page.locator(".node-tile")).to_have_count(1)

    cell = page.get_by_role("link", name="PodGroup/detector in vision, queue vision")
    cell.focus()

    assert "PodGroup/detector in vision" in cell.evaluate("e => getComputedStyle(e, '::after').content")
    cell.press("Enter")
    page.wait_for_url("**/job/vision/detector")


@pytest.mark.process
def test_first_tap_on_a_card_shows_its_holder_and_the_second_opens_the_job(
    browser: Browser, address: str, link: str
) -> None:
    context = browser.new_context(base_url=address, viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(link)
    page.goto("/nodes?holder=detector")
    cell = page.locator("a.run")

    cell.tap()
    expect(cell).to_be_focused()
    assert "PodGroup/detector" in cell.evaluate("e => getComputedStyle(e, '::after').content")
    assert page.url.endswith("/nodes?holder=detector")

    cell.tap()
    page.wait_for_url("**/job/vision/detector")
    context.close()


@pytest.mark.process
def test_a_job_that_waits_is_explained_with_what_would_help(page: Page) -> None:
    page.goto("/jobs?namespace=vision")
    row = page.locator("tbody tr", has_text="PodGroup/segmenter")
    expect(row).to_contain_text("node(s) didn't match Pod's node affinity/selector")

    row.locator("th a").click()

    expect(page.locator("#suggestions")).to_contain_text("Add 2 nodes like a100-1", timeout=120_000)


@pytest.mark.process
def test_jobs_are_filtered_while_one_types_and_the_address_says_so(page: Page) -> None:
    page.goto("/jobs")
    rows = page.locator("#rows tr")
    expect(rows).to_have_count(14)

    field = page.get_by_role("searchbox", name="Text")
    field.press_sequentially("segm")

    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/jobs\?text=segm$"))
    expect(field).to_be_focused()
    page.get_by_role("link", name="Running").click()
    expect(page.locator("#said")).to_contain_text("No job matches these filters.")
    expect(page).to_have_url(re.compile(r"/jobs\?state=running&text=segm$"))
    page.go_back()
    expect(rows).to_have_count(1)
    expect(field).to_have_value("segm")
    page.reload()
    expect(rows).to_have_count(1)


@pytest.mark.process
def test_a_column_orders_all_jobs(page: Page) -> None:
    page.goto("/jobs?state=running")

    page.get_by_role("link", name="Requests").click()
    expect(page.locator("#rows tr").first).to_contain_text("notebook")
    page.get_by_role("link", name="Requests").click()

    expect(page.locator("#rows tr").first).not_to_contain_text("notebook")
    expect(page).to_have_url(re.compile(r"sort=-cards$"))
    expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")


@pytest.mark.process
def test_the_search_of_the_header_opens_what_has_this_name(page: Page) -> None:
    page.goto("/jobs")
    page.locator("header input[name=text]").fill("segmenter-1")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"/job/vision/segmenter$"))


@pytest.mark.process
def test_queues_have_what_their_pods_hold(page: Page) -> None:
    page.goto("/queues")
    expect(page.locator("tbody tr", has_text="vision").first).to_contain_text("11")
    page.get_by_role("searchbox", name="Queue").fill("language")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tbody tr")).to_have_count(1)


@pytest.mark.process
def test_what_if_starts_what_waits(page: Page) -> None:
    page.goto("/what-if")

    page.locator('input[name="nodes:a100-1"]').fill("2")

    expect(page.locator("#result h2")).to_contain_text("nodes like a100-1: +2", timeout=120_000)
    expect(page.locator("#result")).to_contain_text("vision/segmenter", timeout=120_000)


@pytest.mark.process
def test_a_link_to_a_question_shows_it_again_with_its_result(page: Page) -> None:
    page.goto("/what-if")
    page.locator('input[name="nodes:a100-1"]').fill("2")
    page.wait_for_url("**/what-if?nodes%3Aa100-1=2", timeout=120_000)

    page.reload()

    expect(page.locator("label", has_text="a100-1").locator("output")).to_have_text("2")
    expect(page.locator("#result")).to_contain_text("Start earlier", timeout=120_000)
    assert "secret" not in page.url


@pytest.mark.process
def test_each_figure_of_the_overview_links_to_the_list_that_it_counts(page: Page) -> None:
    page.goto("/overview")
    used = page.locator("#panel-cards tbody tr", has_text="Tesla-T4").locator("a", has_text="3")
    reason = page.locator("#panel-waiting a", has_text="3").first
    address, jobs = str(reason.get_attribute("href")), int(reason.inner_text())

    used.click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("3 of 4")

    page.goto(address)
    expect(page.locator("tbody tr")).to_have_count(jobs)


@pytest.mark.process
def test_the_page_fits_a_phone(browser: Browser, address: str, link: str) -> None:
    page = browser.new_page(base_url=address, viewport={"width": 390, "height": 800})
    page.goto(link)
    for path in ("/overview", "/what-if", "/queues", "/queue/vision", "/nodes", "/node/a100-1"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    page.close()


@pytest.mark.process
def test_a_lost_connection_is_told_with_what_to_do(browser: Browser, tmp_path: Path) -> None:
    log = tmp_path / "ui.log"
    page = browser.new_page()
    with serving("-f", EXAMPLES / "10-nodes.yaml", log=log):
        page.goto(link_in(log))
        expect(page.locator("#state")).to_contain_text("Not followed")

    expect(page.locator("#trouble")).to_contain_text("open the link that it prints")
    expect(page.locator("#state")).to_contain_text("Not live")
    page.close()


@pytest.mark.process
@pytest.mark.parametrize(
    "path",
    [
        *("/overview", "/queues", "/queue/vision", "/cards", "/nodes", "/nodes?colour=job&holder=detector"),
        *("/node/a100-1", "/jobs", "/job/vision/segmenter", "/search?text=a", "/what-if"),
    ],
)
def test_everybody_can_use_it(page: Page, path: str) -> None:
    page.goto(path)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme="light" if scheme == "light" else "dark")

        found = Axe().run(page).response["violations"]

        assert [each["id"] for each in found] == [], scheme


@pytest.mark.process
def test_nothing_can_be_written_and_no_other_host_may_ask(address: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{address}/queues", method=method))
        assert refused.value.code == 405
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(urllib.request.Request(f"{address}/queues", headers={"Host": "evil.example"}))
    assert error.value.code == 403


def status(url: str, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=named)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.process
def test_who_does_not_have_the_link_sees_nothing(address: str, link: str) -> None:
    own = headers_of(link)
    for path in (
        *("/", "/overview", "/state", "/queues", "/queue/vision", "/cards", "/nodes", "/node/a100-1", "/jobs"),
        *("/what-if", "/job/a/b", "/search", "/events/queues", "/events/nodes", "/events/overview", "/nothing"),
    ):
        assert status(address + path) == 403, path
        assert status(address + path, Authorization="Bearer guessed") == 403, path
    assert status(f"{address}/?secret=guessed") == 403
    assert status(link.replace("/?", "/queues?")) == 403, "the secret is handed over once, and in no other link"
    assert status(f"{address}/queues", **own) == 200
    assert status(f"{address}/healthz") == 200


@pytest.mark.process
def test_what_is_no_text_is_no_secret(address: str) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    for header in (b"Authorization: Bearer \xff\xfe", b"Cookie: volsched-ui-%s=\xff" % port.encode(), b"Origin: \xff"):
        with socket.create_connection((host, int(port)), 60) as one:
            one.sendall(b"GET /queues HTTP/1.1\r\nHost: %s:%s\r\n%s\r\n\r\n" % (host.encode(), port.encode(), header))
            assert one.recv(12) == b"HTTP/1.1 403", header


@pytest.mark.process
def test_requests_that_other_pages_make_are_refused(address: str, link: str) -> None:
    own = headers_of(link)
    for path in ("/queues", "/events/queues", "/what-if/result", "/static/page.js", "/healthz"):
        for site in ("cross-site", "same-site"):
            assert status(address + path, **own, Sec_Fetch_Site=site) == 403, (path, site)
        for origin in ("http://evil.example", "http://localhost:1", "null"):
            assert status(address + path, **own, Origin=origin) == 403, (path, origin)
    for site in ("same-origin", "none"):
        assert status(f"{address}/queues", **own, Sec_Fetch_Site=site, Origin=address) == 200


@pytest.mark.process
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_port_reads_nothing_in_the_browser_of_who_has_the_link(
    browser: Browser, address: str, link: str, host: str
) -> None:
    """The browser has the cookie; another page asks, shows and frames, and gets nothing. It may have the link."""
    body = (
        f"<img id=i src={address}/queues><iframe src={address}/queues></iframe>"
        f"<script>fetch('{address}/queues', {{credentials: 'include', mode: 'no-cors'}}).then(a => a.type)</script>"
        f"<a id=go href='{link}'>the link</a>"
    ).encode()

    class Evil(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Evil) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        context = browser.new_context()
        context.new_page().goto(link)
        other = context.new_page()
        answers: list[int] = []
        other.on("response", lambda answer: answers.append(answer.status) if address in answer.url else None)
        other.goto(f"http://{host}:{evil.server_address[1]}/")
        other.wait_for_load_state("networkidle")
        assert answers
        assert set(answers) == {403}
        other.locator("#go").click()
        expect(other.locator("tbody tr", has_text="Tesla-T4").first).to_be_visible()
        assert other.url == f"{address}/overview"
        context.close()
        evil.shutdown()


@pytest.mark.process
def test_a_signal_ends_it_and_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    with serving("-f", EXAMPLES / "10-nodes.yaml", log=tmp_path / "ui.log") as (address, process):
        taken = address.removeprefix("http://")
        again = [sys.executable, "-m", "volsched", "ui", "-f", str(EXAMPLES), "--listen-address", taken]
        second = subprocess.run(again, capture_output=True, text=True, check=False)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert second.returncode == 1
    assert f"cannot listen on {taken}" in second.stderr
    assert "Traceback" not in second.stderr + (tmp_path / "ui.log").read_text()
