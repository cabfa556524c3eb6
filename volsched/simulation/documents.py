"""Reads files into documents: the objects of each text as they were written, with their places."""

from __future__ import annotations

import codecs
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from volsched.model.errors import VolschedError, shortened
from volsched.simulation.yaml_texts import Twice, parsed

STANDARD_INPUT: Final = "standard input"
_HALF_PAIR: Final = re.compile(r"\\(?:u|U0000)[dD][89a-fA-F]")
"""The escapes of half a surrogate pair, which is no character by itself."""
SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class InputProblem:
    """A fault of the input: its place, the object and field, and the way out."""

    source: str
    place: str
    subject: str
    field: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.place, self.subject, self.field, self.message) if part)


class InputError(VolschedError):
    """The input cannot be used. It has everything that is wrong."""

    def __init__(self, problems: Iterable[InputProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class Document:
    """One object as it was read.

    ``place`` is its place in the file. ``among_others``: the file was found in a folder, where not all YAML need be
    objects. ``twice``: keys that are given twice, of which the last counts.
    """

    source: str
    place: str
    raw: Mapping[str, Any]
    among_others: bool = False
    twice: tuple[Twice, ...] = ()

    def problem(self, message: str, field: str = "", subject: str = "") -> InputProblem:
        """Return a problem of this document."""
        return InputProblem(self.source, self.place, subject, field, message)


class Text(NamedTuple):
    """The documents of a file. ``in_folder`` if it was not named itself."""

    source: str
    text: str
    in_folder: bool = False


def read_documents(paths: Sequence[str]) -> list[Document]:
    """Read every object of files, folders and ``-``, lists taken apart. Raises InputError for what cannot be read."""
    problems: list[InputProblem] = []
    documents: list[Document] = []
    for text in read_texts(paths):
        try:
            documents.extend(documents_in(text.source, text.text, in_folder=text.in_folder))
        except InputError as error:
            problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return documents


def read_texts(paths: Sequence[str]) -> list[Text]:
    """Read files, folders and ``-``. Raises InputError for what cannot be read."""
    problems: list[InputProblem] = []
    texts = []
    for path in paths:
        for file in _files(path, problems):
            try:
                texts.append(Text(_source(file), read_text(file), file != path))
            except InputError as error:
                problems.extend(error.problems)
    if problems:
        raise InputError(problems)
    return texts


def documents_in(source: str, text: str, *, in_folder: bool = False) -> list[Document]:
    """Return every object of one text. Raises InputError when it is not YAML or JSON or holds something else."""
    problems: list[InputProblem] = []
    documents: list[Document] = []
    try:
        documents.extend(_objects(Text(source, text, in_folder), problems))
    except Exception as error:  # the YAML reader fails in many ways on odd tags, characters and deep nesting
        problems.append(_unreadable(source, error))
    if problems:
        raise InputError(problems)
    return documents


def read_text(path: str) -> str:
    """Read one file, or standard input for ``-``. Raises InputError when that fails.

    A text is UTF-8, or UTF-16 with a byte order mark, as a shell of Windows writes the output of kubectl.
    """
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
        return io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([InputProblem(_source(path), "", "", "", _message_of(error))]) from error


def _files(path: str, problems: list[InputProblem]) -> list[str]:
    folder = Path(path)
    if path == "-" or not folder.is_dir():
        return [path]
    found = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())
    if not found:
        problems.append(InputProblem(path, "", "", "", f"the folder has no {', '.join(f'*{s}' for s in SUFFIXES)}"))
    return [str(file) for file in found]


def _source(path: str) -> str:
    return STANDARD_INPUT if path == "-" else path


def _message_of(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    return getattr(error, "strerror", None) or str(error)


def _unreadable(source: str, error: Exception) -> InputProblem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        message = f"is not YAML: {shortened(str(error.problem or error.context), 200)}"
        return InputProblem(source, f"line {mark.line + 1}" if mark else "", "", "", message)
    message = "nested too deeply" if isinstance(error, RecursionError) else shortened(str(error), 200)
    return InputProblem(source, "", "", "", f"cannot be read: {message}")


def _objects(text: Text, problems: list[InputProblem]) -> Iterator[Document]:
    may_be_broken = _HALF_PAIR.search(text.text) is not None
    for number, (raw, twice) in enumerate(parsed(text.text), start=1):
        place = f"document {number}"
        if raw is None:
            continue
        if may_be_broken and _is_broken(raw):
            problems.append(
                InputProblem(text.source, place, "", "", "has a text that is no Unicode: half a surrogate pair")
            )
            continue
        if text.in_folder and _is_json_patch(raw):
            yield Document(text.source, place, {}, among_others=True)
            continue
        if not isinstance(raw, Mapping):
            problems.append(InputProblem(text.source, place, "", "", "is no object: it must be a mapping with a kind"))
            continue
        yield from _unlisted(Document(text.source, place, raw, text.in_folder, twice), problems)


def _is_broken(raw: Any) -> bool:
    """True if a text cannot be written: escapes can stand for halves of characters."""
    left, seen = [raw], set[int]()
    while left:
        found = left.pop()
        if isinstance(found, str):
            if not found.isascii() and any("\ud800" <= letter <= "\udfff" for letter in found):
                return True
        elif isinstance(found, Mapping | list) and id(found) not in seen:  # YAML can put a list into itself
            seen.add(id(found))
            left.extend([*found, *found.values()] if isinstance(found, Mapping) else found)
    return False


def _is_json_patch(raw: Any) -> bool:
    """True if this is a patch of a kustomization: a list of operations (RFC 6902)."""
    return isinstance(raw, list) and all(isinstance(item, Mapping) and {"op", "path"} <= item.keys() for item in raw)


def _unlisted(document: Document, problems: list[InputProblem]) -> Iterator[Document]:
    """Yield the document, or what is in it when it is a list."""
    raw = document.raw
    kind, items = raw.get("kind"), raw.get("items")
    if not (isinstance(kind, str) and kind.endswith("List") and ("items" in raw or kind == "List")):
        yield document
        return
    if not isinstance(items or [], list):
        problems.append(document.problem("must be a list", "items", kind))
        return
    for number, item in enumerate(items or (), start=1):
        inner = Document(
            document.source, f"{document.place}, item {number}", item, twice=_inside(document.twice, number)
        )
        if not isinstance(item, Mapping):
            problems.append(inner.problem("is no object: it must be a mapping with a kind"))
            continue
        if "kind" not in item and kind != "List":
            whole = {"apiVersion": raw.get("apiVersion"), "kind": kind.removesuffix("List"), **item}
            inner = replace(inner, raw=whole)
        yield from _unlisted(inner, problems)


def _inside(twice: Sequence[Twice], number: int) -> tuple[Twice, ...]:
    """Return the repeated keys of an item of a list, from 1. The first item has those of the list as well."""
    of_item = [Twice(path[2:], line) for path, line in twice if path[:2] == ("items", number - 1)]
    of_list = [found for found in twice if found.path[0] != "items" or len(found.path) == 1] if number == 1 else []
    return (*of_list, *of_item)
