"""A user without an entry in passwd and without HOME has a home all the same, and no other user another one."""

from __future__ import annotations

import os
import pwd

import pytest

from volsched.kube.client.home import have_a_home


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The user of the image: without a name, and without variables."""

    def has_no_name(uid: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", has_no_name)
    monkeypatch.setenv("HOME", "")  # so that it is what it was after the test
    monkeypatch.delenv("HOME")
    return monkeypatch


def test_nobody_is_at_home_at_the_root_as_in_containers(nobody: pytest.MonkeyPatch) -> None:
    have_a_home()

    assert os.environ["HOME"] == "/"


def test_who_says_where_home_is_has_it_there(nobody: pytest.MonkeyPatch) -> None:
    nobody.setenv("HOME", "/home/somebody")

    have_a_home()

    assert os.environ["HOME"] == "/home/somebody"


def test_who_has_a_name_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)

    have_a_home()

    assert "HOME" not in os.environ
