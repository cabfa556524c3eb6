"""Configurations that come, change and go wrong: what is in force, and what is said about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from volsched.kube.lead import leases
from volsched.kube.watch.config_source import ConfigReports, FileSource, text_hash
from volsched.kube.watch.config_state import MISSING, ConfigState
from volsched.model import api
from volsched.model.errors import ConfigError
from volsched.model.plan import RecordEvent


class Used:
    """Remembers what was used and told; texts that begin with "bad" do not hold."""

    def __init__(self, *, is_reporting: bool = True) -> None:
        self.used: list[str] = []
        self.told: list[RecordEvent] = []
        self.state = ConfigState()
        self.verdicts = ConfigReports(
            self._parse, self.used.append, self.state, self.told.append, is_reporting=is_reporting
        )

    @staticmethod
    def _parse(text: str) -> tuple[str, list[str]]:
        if text.startswith("mad"):
            raise RecursionError("too deep")
        if text.startswith("bad"):
            raise ConfigError("tiers[0]", f"{text} does not hold")
        return text.upper(), [word for word in text.split() if word.startswith("odd")]


@pytest.fixture
def used() -> Used:
    return Used()


def test_the_last_good_one_stays_and_everybody_can_see_it(used: Used) -> None:
    meta = api.ObjectMeta(name="c", namespace="ns", uid="u")
    used.verdicts.target = api.ConfigMap(metadata=meta)

    assert used.verdicts.offer("one") is None
    error = used.verdicts.offer("bad")
    assert isinstance(error, ConfigError)
    assert (used.state.valid, used.state.hash) == (False, text_hash("one"))
    assert "tiers[0]" in used.state.problem
    assert used.verdicts.offer("two") is None

    assert used.used == ["ONE", "TWO"]
    assert (used.state.valid, used.state.hash, used.state.problem) == (True, text_hash("two"), "")
    assert [tell.reason for tell in used.told] == [
        "ConfigurationLoaded",
        "ConfigurationRefused",
        "ConfigurationLoaded",
    ]
    assert text_hash("one") in used.told[1].message


def test_a_text_over_which_we_fail_is_refused_and_the_next_one_is_taken(used: Used) -> None:
    assert used.verdicts.offer("one") is None

    error = used.verdicts.offer("mad")

    assert "it could not be judged: RecursionError: too deep" in str(error)
    assert (used.state.valid, used.state.hash) == (False, text_hash("one"))
    assert used.verdicts.offer("two") is None
    assert used.used == ["ONE", "TWO"]


def test_what_is_doubtful_is_in_force_and_told(used: Used) -> None:
    used.verdicts.target = api.ConfigMap(metadata=api.ObjectMeta(name="c", namespace="ns", uid="u"))

    assert used.verdicts.offer("one odd-thing oddity") is None

    assert used.state.valid
    assert [(tell.type, tell.reason) for tell in used.told] == [
        ("Normal", "ConfigurationLoaded"),
        ("Warning", "ConfigurationDoubtful"),
    ]
    assert used.told[1].message == "odd-thing\noddity"


def test_the_same_text_again_is_no_news(used: Used) -> None:
    used.verdicts.offer("one")
    used.verdicts.offer("one")

    assert used.used == ["ONE"]


def test_that_there_is_no_text_is_told_once_and_the_text_that_comes_back_is_news(used: Used) -> None:
    used.verdicts.target = api.ConfigMap(metadata=api.ObjectMeta(name="c", namespace="ns", uid="u"))
    used.verdicts.offer("one")

    for _ in range(3):  # the object changes in other ways
        used.verdicts.refuse(ConfigError("data", "no key"))
    assert (used.state.valid, used.state.verdicts[MISSING]) == (False, 1)
    used.verdicts.offer("one")

    assert used.state.valid
    assert [tell.reason for tell in used.told] == ["ConfigurationLoaded", "ConfigurationRefused", "ConfigurationLoaded"]
    assert all(tell.each for tell in used.told)


def test_who_does_not_lead_is_silent_and_says_the_last_verdict_once_it_leads() -> None:
    used = Used(is_reporting=False)
    used.verdicts.target = api.ConfigMap(metadata=api.ObjectMeta(name="c", namespace="ns", uid="u"))
    for text in ("one", "bad", "two", "worse is bad", "three odd"):
        used.verdicts.offer(text)
    assert used.told == []

    used.verdicts.start_reporting()
    used.verdicts.offer("bad")

    assert [tell.reason for tell in used.told] == [
        *("ConfigurationLoaded", "ConfigurationDoubtful"),
        "ConfigurationRefused",
    ]
    assert text_hash("three odd") in used.told[0].message


def test_what_the_leader_before_has_told_is_not_told_again() -> None:
    used = Used(is_reporting=False)
    used.verdicts.target = api.ConfigMap(metadata=api.ObjectMeta(name="c", namespace="ns", uid="u"))
    used.verdicts.offer("one")
    used.verdicts.start_reporting(text_hash("one"))
    assert used.told == []

    used.verdicts.offer("two")
    used.verdicts.offer("one")
    assert [tell.reason for tell in used.told] == ["ConfigurationLoaded"] * 2


def test_what_is_refused_is_told_by_each_leader() -> None:
    used = Used(is_reporting=False)
    used.verdicts.target = api.ConfigMap(metadata=api.ObjectMeta(name="c", namespace="ns", uid="u"))
    used.verdicts.offer("one")
    used.verdicts.offer("bad")
    used.verdicts.start_reporting(text_hash("one"))
    assert [tell.reason for tell in used.told] == ["ConfigurationRefused"]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a file tells nobody that it was read
            await asyncio.sleep(0.01)


async def wait_for(used: Used, count: int) -> None:
    await until(lambda: len(used.used) >= count)


async def test_a_file_is_followed_through_writes_renames_and_links(used: Used, tmp_path: Path) -> None:
    """A mounted ConfigMap is a link to a link that is switched."""
    path = tmp_path / "conf"
    path.write_text("one")
    source = FileSource(str(path), used.verdicts, poll=0.02)
    await source.first()
    following = asyncio.ensure_future(source.follow())

    path.write_text("two")
    await wait_for(used, 2)
    (tmp_path / "other").write_text("six")  # as long as before
    os.replace(tmp_path / "other", path)
    await wait_for(used, 3)
    path.unlink()
    await asyncio.sleep(0.1)
    for number in ("4", "5"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "conf").write_text(f"number {number}")
    (tmp_path / "data").symlink_to(tmp_path / "4")
    path.symlink_to(tmp_path / "data" / "conf")
    await wait_for(used, 4)
    (tmp_path / "new").symlink_to(tmp_path / "5")
    os.replace(tmp_path / "new", tmp_path / "data")
    await wait_for(used, 5)
    following.cancel()

    assert used.used == ["ONE", "TWO", "SIX", "NUMBER 4", "NUMBER 5"]


async def test_a_file_that_does_not_hold_at_the_start_is_an_error(used: Used, tmp_path: Path) -> None:
    path = tmp_path / "conf"
    with pytest.raises(ConfigError, match="cannot read"):
        await FileSource(str(path), used.verdicts).first()
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot read"):
        await FileSource(str(path), used.verdicts).first()
    path.write_text("bad")
    with pytest.raises(ConfigError, match="does not hold"):
        await FileSource(str(path), used.verdicts).first()


async def test_a_file_that_becomes_unreadable_leaves_the_last_good_one(used: Used, tmp_path: Path) -> None:
    path = tmp_path / "conf"
    path.write_text("one")
    source = FileSource(str(path), used.verdicts, poll=0.02)
    await source.first()
    following = asyncio.ensure_future(source.follow())

    path.write_bytes(b"\xff\xfe\xff")
    await until(lambda: not used.state.valid)
    path.write_text("two")
    await wait_for(used, 2)
    following.cancel()


def test_a_lease_tells_of_its_own_source_alone() -> None:
    said = leases.metadata_of(("volsched",), "default", "ConfigMap ns/c", "abc")["annotations"]

    assert leases.hash_in(said, "ConfigMap ns/c") == "abc"
    assert leases.hash_in(said, "/etc/volsched.conf") == ""
    assert leases.hash_in({}, "ConfigMap ns/c") == ""
