"""Debian's packages are downloaded and unpacked into the cache once, whatever lists of packages the machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.fake_go import write_program
from tools import chromium
from tools.controlplane.binaries import cache_root, go_arch
from tools.controlplane.errors import BuildError
from tools.debian import unpacked

PACKAGES = ("chromium-headless-shell", "libnss3", "fontconfig-config")
"""All that is offered; the fake archive of a package has a file that is named after it."""

APT_GET = """#!/bin/sh
echo apt-get "$@" >> "$TRACES/calls"
case "$*" in
*update*) exit 0;;
*Dir::State::lists*) ;;
*) [ -e "$TRACES/no-lists" ] && { echo "E: Unable to locate package" >&2; exit 100; };;
esac
while [ "$1" != download ]; do shift; done
shift
for package in "$@"; do echo "$package" > "${package}_1.deb"; done
"""

APT_CACHE = f"""#!/bin/sh
echo apt-cache "$@" >> "$TRACES/calls"
for name in {" ".join(PACKAGES)} libc6 python3; do echo "$name"; echo "  Depends: debconf"; done
"""

DPKG_DEB = """#!/bin/sh
case "$1" in
--field) echo 1:42.0+deb12u1;;
--extract) mkdir -p "$3/usr/lib/chromium"; touch "$3/usr/lib/chromium/$(cat "$2")" "$3/usr/lib/$(cat "$2").so.1";;
esac
"""


@pytest.fixture
def calls(elsewhere: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Commands of Debian that only pretend, and the file in which apt's calls are noted."""
    for name, text in {"apt-get": APT_GET, "apt-cache": APT_CACHE, "dpkg-deb": DPKG_DEB}.items():
        write_program(elsewhere, name, text)
    monkeypatch.setenv("TRACES", str(tmp_path))
    cache_root().mkdir()
    return tmp_path / "calls"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_packages_are_unpacked_into_a_folder_named_after_their_version(calls: Path) -> None:
    lines: list[str] = []

    folder = unpacked("browser", PACKAGES[:2], lines.append)

    assert folder == cache_root() / f"browser-1-42.0-deb12u1-{go_arch()}"
    assert names(folder) == {*PACKAGES[:2], *(f"{name}.so.1" for name in PACKAGES[:2])}
    assert lines[0] == "downloading Debian's chromium-headless-shell, libnss3"
    assert "is in" in lines[-1]
    assert [path.name for path in cache_root().iterdir() if path.is_dir()] == [folder.name]


def test_what_was_unpacked_once_is_found_again_without_a_download(calls: Path) -> None:
    first = unpacked("browser", PACKAGES[:1], print)
    calls.unlink()

    assert unpacked("browser", PACKAGES[:1], print) == first
    assert not calls.exists()


def test_libraries_of_a_package_come_too_but_for_those_that_every_machine_has(calls: Path) -> None:
    folder = unpacked("browser", PACKAGES[:1], print, with_libraries=True)

    assert {f"{name}.so.1" for name in PACKAGES} <= names(folder)
    assert not {"libc6", "python3"} & names(folder)


def test_where_the_machines_lists_do_not_do_apt_reads_lists_of_its_own(calls: Path, tmp_path: Path) -> None:
    (tmp_path / "no-lists").touch()
    lines: list[str] = []

    folder = unpacked("browser", PACKAGES[:1], lines.append)

    assert PACKAGES[0] in names(folder)
    assert [call.split()[-1] for call in calls.read_text().splitlines()] == [PACKAGES[0], "update", PACKAGES[0]]
    assert "this machine's package lists do not do" in lines[1]


def test_a_command_that_fails_is_named_with_what_it_said_and_leaves_nothing(calls: Path, elsewhere: Path) -> None:
    write_program(elsewhere, "dpkg-deb", "#!/bin/sh\necho broken archive >&2\nexit 2\n")

    with pytest.raises(BuildError, match=r"dpkg-deb --field .* failed with status 2:\nbroken archive"):
        unpacked("browser", PACKAGES[:1], print)

    assert [path for path in cache_root().iterdir() if path.is_dir()] == []


def test_without_apt_the_error_names_what_is_missing(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(elsewhere))

    with pytest.raises(BuildError, match="there is no apt-get and dpkg-deb to fetch Debian's bash with"):
        unpacked("shell", ["bash"], print)


def test_chromium_on_path_is_taken_as_it_is(elsewhere: Path) -> None:
    write_program(elsewhere, "chromium", "#!/bin/sh\n")

    program, environment = chromium.find(print)

    assert program == elsewhere / "chromium"
    assert "LD_LIBRARY_PATH" not in environment


def test_else_chromium_is_debians_and_finds_its_libraries(calls: Path) -> None:
    program, environment = chromium.find(print)

    assert program.is_file()
    assert program.name == "chromium-headless-shell"
    assert environment["LD_LIBRARY_PATH"] == str(program.parents[1])
