"""Key pairs of Volcano Jobs, judged by OpenSSH, and when one is made."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from volsched.controllers.writes import SECRET, Create
from volsched.kube.errors import ApiError
from volsched.operator import ssh_keys
from volsched.operator.writer import Writer


@pytest.mark.process
def test_a_pair_is_one_that_ssh_takes_and_the_job_trusts_it(tmp_path: Path) -> None:
    pair = {name: base64.b64decode(content) for name, content in ssh_keys.new_pair().items()}
    private = tmp_path / "id_rsa"
    private.write_bytes(pair["id_rsa"])
    private.chmod(0o600)

    derived = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, check=True).stdout
    (tmp_path / "id_rsa.pub").write_bytes(pair["id_rsa.pub"])
    shown = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "id_rsa.pub"], capture_output=True, check=True).stdout

    assert pair["id_rsa"].startswith(b"-----BEGIN RSA PRIVATE KEY-----\n")
    assert pair["id_rsa.pub"].split()[:2] == derived.split()[:2]
    assert pair["authorized_keys"] == pair["id_rsa.pub"]
    assert shown.split()[0] == b"3072"


class ScriptedApi:
    """Remembers requests; refuses those whose path ends as it was told."""

    def __init__(self, refused: str = "", error: ApiError | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._refused, self._error = refused, error

    async def request(self, _: str, path: str, __: str, *, body: bytes, **___: Any) -> bytes:
        self.asked.append((path, msgspec.json.decode(body)))
        if self._error is not None and path.endswith(self._refused):
            raise self._error
        return b"{}"


class OpenFence:
    def check(self) -> None: ...

    def limit(self, seconds: float) -> float:
        return seconds


WANTED = Create(SECRET, "ns", "train-ssh", {"metadata": {"name": "train-ssh"}, "type": "Opaque"}, with_keys=True)
SECRETS = "/api/v1/namespaces/ns/secrets"


def write(api: ScriptedApi) -> bytes | None:
    return asyncio.run(Writer(api, OpenFence()).write(WANTED))  # type: ignore[arg-type]  # as much as it uses


def test_keys_are_put_in_when_the_secret_may_be_made() -> None:
    api = ScriptedApi()

    write(api)

    (asked, tried), (path, made) = api.asked
    assert (asked, path) == (f"{SECRETS}?dryRun=All", SECRETS)
    assert "data" not in tried
    assert set(made["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys"}
    assert {**made, "data": None} == {**WANTED.body, "data": None}


@pytest.mark.parametrize("at", ["?dryRun=All", "/secrets"])
def test_a_secret_that_is_there_keeps_its_keys(at: str) -> None:
    there = ApiError(409, "AlreadyExists", 'secrets "train-ssh" already exists')
    api = ScriptedApi(at, there)

    assert write(api) == b""

    assert len(api.asked) == (1 if at.startswith("?") else 2)
    assert all(path.startswith(SECRETS) and "train-ssh" not in path for path, _ in api.asked)


def test_no_pair_is_made_for_a_secret_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_keys, "new_pair", lambda: pytest.fail("a pair was made"))
    api = ScriptedApi("?dryRun=All", ApiError(403, "Forbidden", "secrets is forbidden"))

    with pytest.raises(ApiError):
        write(api)
