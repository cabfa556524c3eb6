"""The frame of each page: the cluster, whether the page is live, ages, and names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner

from tests.manifests.rendering import MANIFESTS
from tests.ui.worlds import group, known_of, node, pod, read
from volsched.cli import volsched
from volsched.diagnose import snapshot
from volsched.ui.pages import NAVIGATION, name, until
from volsched.ui.server import Ui
from volsched.ui.source import LISTING, LIVE, LOST, SourceState
from volsched.ui.static_cluster import StaticCluster

Ask = Callable[[str], Awaitable[tuple[int, str]]]
CREATED = 1_767_225_600.0  # 2026-01-01T00:00:00Z, as in worlds


class Followed(StaticCluster):
    """A source in any state."""

    state_now = SourceState(LIVE, CREATED)
    problem = ""

    @property
    def state(self) -> SourceState:
        return self.state_now

    @property
    def notice(self) -> str:
        return self.problem

    @property
    def about(self) -> str:
        return ""


def asked(cluster: StaticCluster, story: Callable[[Ask], Awaitable[None]], grafana_url: str = "") -> None:
    """Run a story with a function that asks the page as the owner of the machine."""

    async def told() -> None:
        ui = Ui(cluster, grafana_url=grafana_url)
        headers = {"Host": "localhost", "Authorization": f"Bearer {ui.context.secret.link('').partition('secret=')[2]}"}
        async with TestClient(TestServer(ui.application(), host="127.0.0.1")) as client:

            async def ask(path: str) -> tuple[int, str]:
                async with client.get(path, headers=headers, allow_redirects=False) as answer:
                    found = answer.headers.get("HX-Replace-Url") or answer.headers.get("Location", "")
                    return answer.status, f"{found}\n{await answer.text()}"

            await story(ask)

    asyncio.run(told())


@pytest.fixture(scope="module")
def known() -> StaticCluster:
    return StaticCluster(known_of([node("n1"), group("team/a"), pod("team/a", 9)]), schedules=False, cluster="files")


def followed(state: SourceState, problem: str = "") -> Followed:
    found = Followed(known_of([node("n1")]), schedules=False, cluster="prod <1>")
    found.state_now, found.problem = state, problem
    return found


def test_the_start_page_is_the_overview_and_each_page_is_in_the_navigation(known: StaticCluster) -> None:
    async def story(ask: Ask) -> None:
        status, text = await ask("/")
        assert (status, text.strip()) == (302, "/overview\n302: Found")
        _, page = await ask("/overview")
        for address, words in NAVIGATION:
            assert f'<a href="/{address}"' in page
            assert words in page
        assert page.count('aria-current="page"') == 1
        assert '<form action="/search"' in page

    asked(known, story)


@pytest.mark.parametrize(
    ("state", "problem", "words"),
    [
        (SourceState(LIVE, CREATED), "", ["<strong>Live</strong>, changed"]),
        (SourceState(LISTING), "", ["<strong>Reading the cluster</strong>"]),
        (
            SourceState(LOST, CREATED, "dial <b>: refused"),
            "",
            [
                "<strong>Not live</strong>",
                "API server cannot be reached",
                "dial &lt;b&gt;: refused",
                "kubectl get nodes",
            ],
        ),
        (SourceState(LIVE, CREATED), "no plugin x", ["no plugin x", "volsched validate"]),
    ],
)
def test_the_header_tells_whether_the_page_is_live_and_what_to_do(
    state: SourceState, problem: str, words: list[str]
) -> None:
    async def story(ask: Ask) -> None:
        for path in ("/overview", "/state"):
            _, text = await ask(path)
            assert [word for word in words if word not in text] == []
        assert "prod &lt;1&gt;" in (await ask("/overview"))[1]

    asked(followed(state, problem), story)


def test_a_reader_who_has_the_state_gets_no_content_until_it_changes() -> None:
    source = followed(SourceState(LIVE, CREATED))

    async def story(ask: Ask) -> None:
        _, text = await ask("/state")
        seen = text.partition("/state?seen=")[2].partition('"')[0]
        assert (await ask(f"/state?seen={seen}"))[0] == 204
        source.state_now = SourceState(LOST, CREATED, "refused")
        assert (await ask(f"/state?seen={seen}"))[0] == 200
        source.state_now, source.problem = SourceState(LIVE, CREATED), "no plugin x"
        assert (await ask(f"/state?seen={seen}"))[0] == 200

    asked(source, story)


def test_ages_of_files_are_those_at_the_time_of_the_picture(known: StaticCluster) -> None:
    """However long the page has been open."""
    known._now = CREATED + 7200

    async def story(ask: Ask) -> None:
        _, text = await ask("/jobs")
        assert ">2 h</time>" in text
        assert f'data-now="{CREATED + 7200}"' in text
        assert 'hx-get="/state' not in text, "files do not change"
        assert "files" in text

    asked(known, story)


def test_names_break_at_their_separators_only_and_are_text() -> None:
    assert name("a-b") == '<bdi class="short">a-b</bdi>'
    assert name("nvidia.com/gpu-<b>x</b>") == ("<bdi>nvidia.<wbr>com/<wbr>gpu-<wbr>&lt;b&gt;x&lt;/<wbr>b&gt;</bdi>")
    assert until(100.0, 40.0) == "in 1 min"
    assert until(40.0, 100.0) == "1 min ago"


def test_links_to_grafana_are_those_of_the_shipped_dashboards(known: StaticCluster) -> None:
    async def story(ask: Ask) -> None:
        _, text = await ask("/overview")
        for file in sorted((MANIFESTS / "grafana").glob("*.json")):
            assert f'href="https://g.example/x/d/volsched-{file.stem}"' in text

    asked(known, story, "https://g.example/x/")


@pytest.mark.parametrize("url", ["javascript:alert(1)", "g.example", "ftp://g.example", "https://", "https://g?x=1"])
def test_a_grafana_url_that_is_none_is_refused(url: str) -> None:
    flags = ["ui", "-f", str(MANIFESTS / "examples"), "--grafana-url", url]

    answer = CliRunner().invoke(volsched, flags, prog_name="volsched")

    assert answer.exit_code == 2
    assert f"--grafana-url {url} is no address of Grafana" in answer.stderr


# --- what if --------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_the_address_of_what_if_holds_the_question_and_nothing_else() -> None:
    cluster = StaticCluster(read(MANIFESTS / "examples"), schedules=True)
    query = "queue=vision&quota:capability:cpu=3&nodes:a100-1=2&nodes:t4-1=0"

    async def story(ask: Ask) -> None:
        _, text = await ask(f"/what-if/result?{query}&secret=s3cret&page=9")
        address = text.partition("\n")[0]
        assert address == "/what-if?queue=vision&quota%3Acapability%3Acpu=3&nodes%3Aa100-1=2"
        assert "Start" in text
        assert "vision/segmenter" in text or "segmenter" in text

        _, page = await ask(f"{address}&secret=s3cret")
        assert "<option selected>vision</option>" in page
        assert 'name="quota:capability:cpu" min="0" max="120" value="3"' in page or 'value="3"> <output>3<' in page
        assert 'name="nodes:a100-1" min="-2" max="64" value="2"> <output>2</output>' in page
        assert 'hx-trigger="load, change' in page
        assert "s3cret" not in page

    asked(cluster, story)


def test_a_question_about_an_unknown_queue_is_told_on_the_page(known: StaticCluster) -> None:
    async def story(ask: Ask) -> None:
        status, page = await ask("/what-if?queue=%3Cb%3E")
        assert status == 200
        assert "There is no queue <bdi>&lt;b&gt;</bdi>" in page
        status, _ = await ask("/what-if/result?queue=nosuch")
        assert status == 404

    asked(known, story)


def test_a_snapshot_is_as_old_as_when_it_was_taken() -> None:
    """Copies of the file, and the time at which it is shown, do not matter."""
    taken = replace(known_of([node("n1"), group("team/a"), pod("team/a", 9)]), taken_at=CREATED + 3 * 86400)
    cluster = StaticCluster(snapshot.read(snapshot.written(taken), "a.snapshot"), schedules=False)

    async def story(ask: Ask) -> None:
        assert ">3 d</time>" in (await ask("/jobs"))[1]
        assert "as of <time" in (await ask("/overview"))[1]

    asked(cluster, story)
