"""The pictures of the page: `make check` tells when the page changed after they were taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from release import pictures


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of one template and one module, with all pictures that are stored, and what they show."""
    ui, folder = tmp_path / "ui", tmp_path / "pictures"
    for file in ("templates/base.html", "static/style.css", "overview_page.py", "picture.py", "static/vendor/htmx.js"):
        (ui / file).parent.mkdir(parents=True, exist_ok=True)
        (ui / file).write_text("first")
    folder.mkdir()
    for name in {*pictures.STORED, "terminal"}:
        (folder / f"{name}.webp").touch()
    monkeypatch.setattr(pictures, "UI", ui)
    monkeypatch.setattr(pictures, "FOLDER", folder)
    monkeypatch.setattr(pictures, "DIGEST", folder / "sources.sha256")
    pictures.DIGEST.write_text(pictures.sources_digest())
    return tmp_path


def test_pictures_of_the_present_page_are_accepted(checkout: Path) -> None:
    assert pictures.check() == ""


@pytest.mark.parametrize("file", ["templates/base.html", "static/style.css", "overview_page.py"])
def test_a_page_that_changed_takes_new_pictures(checkout: Path, file: str) -> None:
    (checkout / "ui" / file).write_text("second")

    assert pictures.check() == ("templates, styles or pages changed after docs/pictures were made: run make pictures")


def test_a_new_template_takes_new_pictures(checkout: Path) -> None:
    (checkout / "ui/templates/more.html").touch()

    assert "run make pictures" in pictures.check()


@pytest.mark.parametrize("file", ["picture.py", "static/vendor/htmx.js"])
def test_what_no_picture_shows_takes_none(checkout: Path, file: str) -> None:
    (checkout / "ui" / file).write_text("second")

    assert pictures.check() == ""


def test_a_picture_that_is_not_there_is_named(checkout: Path) -> None:
    (checkout / "pictures/jobs-light-wide.webp").unlink()

    assert pictures.check() == "docs/pictures lacks jobs-light-wide: run make pictures"
