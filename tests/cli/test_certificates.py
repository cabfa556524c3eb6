"""`volsched certificates`: what it refuses, and what it says when there is no cluster to be found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.calls import call


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--renew-before", "8760h"), "--renew-before must be shorter than --valid-for"),
        (("--host", "ä.example"), "--host: 'ä.example' is neither a DNS name nor an IP address"),
        (("--valid-for", "a year"), "'a year' is no duration"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flags: tuple[str, ...], said: str) -> None:
    done = call("certificates", *flags)

    assert done.exit_code == 2
    assert said in done.stderr


def test_without_a_cluster_it_says_so_and_fails(tmp_path: Path) -> None:
    done = call("certificates", "--kubeconfig", tmp_path / "none")

    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert "none" in done.stderr


@pytest.mark.parametrize("address", ["nonsense", ":70000"])
def test_controllers_refuse_an_address_for_webhooks_that_is_none(address: str) -> None:
    done = call("controllers", "--webhook-address", address)

    assert done.exit_code == 2
    assert f"--webhook-address: '{address}' is no address to listen on; write host:port or :port" in done.stderr
