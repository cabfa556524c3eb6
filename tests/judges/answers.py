"""Answers of other programs, kept in a file with all that they depend on.

Asking kube-scheduler takes minutes: a program is built, or a control plane started. The answers stay the same as long
as the cases, the version of the judge and the program that asks stay the same. A file keeps the answers together with
that version and with hashes of the cases and of the program. As soon as one of these differs, the judge is asked again.

A file has one JSON value a line: what the answers depend on, and then ``[case, answer]`` for each case.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

from tests.processes import GUARD
from tools.controlplane.binaries import Report, print_progress

Cases = Mapping[str, Any]
"""What the judge is told about each case, by the name of the case; JSON values."""

Answers = Mapping[str, Any]
"""What the judge said about each case, by the name of the case; JSON values."""


@dataclass(frozen=True)
class Basis:
    """What answers depend on."""

    judge: str
    """The program that answered, with its version."""
    cases: str
    """A hash of the cases."""
    asking: str
    """A hash of the sources of the program that asks."""

    def differences(self, now: Basis) -> list[str]:
        """Return in which points the basis of today differs, in words."""
        changed = [field.name for field in fields(self) if getattr(self, field.name) != getattr(now, field.name)]
        words = {
            "judge": f"the judge is {now.judge} and no longer {self.judge}",
            "cases": "the cases have changed",
            "asking": "the program that asks has changed",
        }
        return [words[name] for name in changed]


@dataclass(frozen=True)
class Question:
    """What a judge is asked about many cases, and the file that keeps the answers."""

    name: str
    about: str
    judge: str
    """The program that answers, with its version."""
    file: Path
    """Where the answers are; it is compressed when its name ends in ``.xz``."""
    asking: tuple[Path, ...]
    """The sources of the program that asks."""
    cases: Callable[[], Cases]
    ask: Callable[[Cases, Report], Answers]

    def answers(self, cases: Cases, report: Report = print_progress) -> Answers:
        """Return the answers to all cases; ask the judge when the recorded ones are out of date."""
        outdated = self.outdated(cases)
        if not outdated:
            return self.recorded()
        why = f"{self.name}: {' and '.join(outdated)}"
        warnings.warn(f"{why}; to record new answers: python -m tests.judges --record {self.name}", stacklevel=2)
        report(f"{why}: asking {self.judge}")
        with GUARD.paused():
            return as_json(self.ask(cases, report))  # type: ignore[no-any-return]

    def outdated(self, cases: Cases) -> list[str]:
        """Return why the recorded answers are not those to these cases; nothing when they are."""
        known = self._recorded_basis()
        return ["no answers are recorded"] if known is None else known.differences(self.basis(cases))

    def is_asked_as_recorded(self) -> bool:
        """True if the judge and the asking program are those of the recorded answers; the cases may differ."""
        known = self._recorded_basis()
        return known is not None and known.judge == self.judge and known.asking == digest_of_files(self.asking)

    def recorded(self) -> Answers:
        """Return the recorded answers; none while there is no file."""
        if not self.file.exists():
            return {}
        with self._open("rt") as lines:
            next(lines)
            return dict(json.loads(line) for line in lines)

    def basis(self, cases: Cases) -> Basis:
        """Return what answers depend on that are given now."""
        return Basis(self.judge, digest(canonical(cases).encode()), digest_of_files(self.asking))

    def record(self, basis: Basis, answers: Answers) -> None:
        """Write answers, and what they depended on when the judge was asked, into the file."""
        self.file.parent.mkdir(exist_ok=True)
        with self._open("wt") as output:
            for value in (asdict(basis), *answers.items()):
                output.write(canonical(value) + "\n")

    def _recorded_basis(self) -> Basis | None:
        if not self.file.exists():
            return None
        with self._open("rt") as lines:
            return Basis(**json.loads(next(lines)))

    def _open(self, mode: str) -> TextIO:
        opened: Any = lzma.open if self.file.suffix == ".xz" else open
        return opened(self.file, mode, encoding="utf-8")  # type: ignore[no-any-return]  # both modes are text


def differences(recorded: Answers, found: Answers) -> Iterator[tuple[str, str]]:
    """Yield each case whose answer differs, with what differs in words."""
    for case in dict.fromkeys((*recorded, *found)):
        if case not in found:
            yield case, "it is recorded and no longer asked"
        elif case not in recorded:
            yield case, "it is not recorded"
        else:
            parts = list(_parts_that_differ("", recorded[case], as_json(found[case])))
            if parts:
                yield case, "; ".join(parts)


def _parts_that_differ(path: str, recorded: Any, found: Any) -> Iterator[str]:
    """Compare key by key as far as both are objects."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*recorded, *found)):
            yield from _parts_that_differ(f"{path}.{key}" if path else key, recorded.get(key), found.get(key))
    elif recorded != found:
        yield f"{path or 'answer'}: recorded {canonical(recorded)}, now {canonical(found)}"


def as_json(value: Any) -> Any:
    """Return a value as it is after a way through a file."""
    return json.loads(json.dumps(value))


def canonical(value: Any) -> str:
    """Return the one way to write a value as JSON on one line."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(data: bytes) -> str:
    """Return the hash of bytes."""
    return hashlib.sha256(data).hexdigest()


def digest_of_files(paths: tuple[Path, ...]) -> str:
    """Return the hash of files: of their names and of what is in them."""
    return digest(canonical(sorted((path.name, digest(path.read_bytes())) for path in paths)).encode())
