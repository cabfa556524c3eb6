"""Makes the pictures of the page: `make pictures`. `--check` tells whether the page changed since they were made.

Each page is taken in light and dark, 1,440 and 390 pixels wide, from `volsched ui -f` on an example. All pictures are
in the folder `docs/pictures/all`, which is not stored; a few are stored beside it, with a digest of what they show.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tools import chromium

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs/pictures"
ALL: Final = FOLDER / "all"
DIGEST: Final = FOLDER / "sources.sha256"
UI: Final = ROOT / "volsched/ui"
SOURCES: Final = ("templates/*.html", "static/*.*", "*page*.py")
"""The files of the page that pictures show, below its package."""

EXAMPLE: Final = "manifests/examples/fleet"
QUALITY: Final = 82
"""Of WebP, in percent: text stays sharp, and a picture has some 50 KB."""

WITHIN: Final = 120_000
"""The longest time for one page, in milliseconds."""

SIZES: Final = {"wide": (1440, 960), "phone": (390, 844)}
SCHEMES: Final = ("light", "dark")
STORED: Final = frozenset(
    {"overview-light-wide", "overview-dark-wide", "overview-light-phone"}
    | {f"{name}-light-wide" for name in ("jobs", "job", "queues", "queue", "nodes", "what-if")}
)
"""The pictures that the documentation shows."""


class Shot(NamedTuple):
    """A page: its name, its address, a link on it to follow, and what is there once it is complete."""

    name: str
    path: str
    follow: str = ""
    complete: str = "main"


SHOTS: Final = (
    Shot("overview", "/overview", complete="#panel-cards"),
    Shot("jobs", "/jobs?state=waiting", complete="tbody tr"),
    Shot("job", "/jobs?state=waiting", 'tbody a[href^="/job/"]'),
    Shot("queues", "/queues", complete="tbody tr"),
    Shot("queue", "/queues", 'a[href^="/queue/"]'),
    Shot("nodes", "/nodes"),
    Shot("node", "/nodes", 'a[href^="/node/"]'),
    Shot("cards", "/cards", complete="tbody tr"),
    Shot("what-if", "/what-if?nodes:a100-01=2", complete="#result h2"),
    Shot("search", "/search?text=a"),
)
TERMINAL: Final = ("explain", "podgroup", "segmenter", "-n", "vision", "-f", "manifests/examples")


def sources_digest() -> str:
    """Return a digest of all that pictures show: templates, styles, scripts and the modules of pages."""
    made = hashlib.sha256()
    for file in sorted(file for pattern in SOURCES for file in UI.glob(pattern)):
        made.update(f"{file.relative_to(UI)}\0".encode() + file.read_bytes() + b"\0")
    return made.hexdigest()


def check() -> str:
    """Return what is wrong with the stored pictures; empty if they show the present page."""
    stored = DIGEST.read_text().strip() if DIGEST.exists() else ""
    missing = sorted(name for name in STORED | {"terminal"} if not (FOLDER / f"{name}.webp").exists())
    if missing:
        return f"docs/pictures lacks {', '.join(missing)}: run make pictures"
    if stored != sources_digest():
        return "templates, styles or pages changed after docs/pictures were made: run make pictures"
    return ""


@contextlib.contextmanager
def _served(manifests: str) -> Iterator[str]:
    """Serve the page of manifests without any cluster; yield the link."""
    command = [sys.executable, "-m", "volsched", "ui", "-f", manifests, "--listen-address", "127.0.0.1:0"]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(command, cwd=ROOT, stderr=log) as process:  # noqa: S603
        try:
            yield _link_in(log.fileno(), process)
        finally:
            process.terminate()


def _link_in(log: int, process: subprocess.Popen[bytes]) -> str:
    while process.poll() is None:
        found = re.search(rb"serving (\S+)", os.pread(log, 1 << 20, 0))
        if found:
            return found[1].decode()
        time.sleep(0.2)
    raise SystemExit(os.pread(log, 1 << 20, 0).decode())


def _take(page: Page, shot: Shot) -> None:
    """Open a page, and wait until it is complete."""
    answer = page.goto(shot.path)
    if answer is None or answer.status != 200:
        raise SystemExit(f"{shot.path} answers {answer.status if answer is not None else 'nothing'}")
    if shot.follow:
        address = page.locator(shot.follow).first.get_attribute("href")
        page.goto(str(address))
    page.locator(shot.complete).first.wait_for(state="attached")
    expect(page.locator(".htmx-request, [aria-busy=true]")).to_have_count(0, timeout=WITHIN)


def _save(page: Page, name: str) -> None:
    """Save the whole page among all pictures, and its first screen as WebP if it is stored."""
    page.screenshot(path=ALL / f"{name}.png", full_page=True)
    if name in STORED or name == "terminal":
        session = page.context.new_cdp_session(page)
        found = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        (FOLDER / f"{name}.webp").write_bytes(base64.b64decode(found["data"]))
        session.detach()


def _pages(browser: Browser, link: str, names: list[str]) -> None:
    for scheme in SCHEMES:
        for size, (width, height) in SIZES.items():
            page = browser.new_page(
                base_url=link.partition("/?")[0],
                viewport={"width": width, "height": height},
                color_scheme="light" if scheme == "light" else "dark",
            )
            page.set_default_timeout(WITHIN)
            page.goto(link)
            for shot in SHOTS:
                if not names or shot.name in names:
                    _take(page, shot)
                    _save(page, f"{shot.name}-{scheme}-{size}")
            page.close()


def _terminal(browser: Browser) -> None:
    """Take what `volsched explain` shows about a gang, as a terminal does."""
    command = [sys.executable, "-m", "volsched", *TERMINAL, "--help-seconds", "5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 3:
        raise SystemExit(done.stderr)
    style = "background:#0e1217;color:#e7ebf0;font:15px monospace;padding:1.2rem;margin:0;white-space:pre-wrap"
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.set_content(f'<pre style="{style}">$ volsched {" ".join(TERMINAL)}\n{html.escape(done.stdout)}</pre>')
    height = page.evaluate("document.querySelector('pre').offsetHeight")
    page.set_viewport_size({"width": 1200, "height": height})
    _save(page, "terminal")
    page.close()


def make(manifests: str, names: list[str]) -> None:
    """Make the pictures of some pages, by default of all; then also note what they show."""
    shutil.rmtree(ALL, ignore_errors=True)
    ALL.mkdir(parents=True)
    program, environment = chromium.find()
    with _served(manifests) as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, env={**environment}, args=["--no-sandbox"])
        _pages(browser, link, names)
        if not names or "terminal" in names:
            _terminal(browser)
        browser.close()
    if not names:
        DIGEST.write_text(f"{sources_digest()}\n")


def main() -> None:
    """Make the pictures, or check them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="the pages; without names all, and what they show is noted")
    parser.add_argument("--check", action="store_true", help="only tell whether they show the present page")
    parser.add_argument("--manifests", default=EXAMPLE, help="what the page shows")
    given = parser.parse_args()
    if given.check:
        sys.exit(check() or None)
    make(given.manifests, given.names)


if __name__ == "__main__":
    main()
