"""The most frequent reasons of waiting jobs, in words that are part of their messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final

from volsched.diagnose.records import AnswerRecord, WaitingJob

_NODES: Final = re.compile(r"\d+/\d+ nodes are available: (.*?)\.?", re.DOTALL)
_CLAUSE: Final = re.compile(r", (?=\d+ )")
_COUNT: Final = re.compile(r"\d+ ")
_NAMES: Final = re.compile(r'"[^"]*"|\{[^}]*\}')
_DETAILS: Final = re.compile(r"[;:]\s| \(")
_NAME: Final = "\N{HORIZONTAL ELLIPSIS}"
_MESSAGES: Final = 4096


class ReasonCount(AnswerRecord, frozen=True):
    """How many waiting jobs have these words in their message. ``label`` is the reason with ``…`` for each name."""

    words: str
    jobs: int
    label: str


def frequent_reasons(jobs: Iterable[WaitingJob], most: int) -> tuple[ReasonCount, ...]:
    """Return the most frequent reasons. A job counts for each reason of which its message has the words."""
    messages = Counter(job.message for job in jobs)
    counts: Counter[str] = Counter()
    labels: dict[str, set[str]] = {}
    for message, number in messages.items():
        for words, label in reasons_in(message).items():
            counts[words] += number
            labels.setdefault(words, set()).add(label)
    likely = sorted(counts, key=lambda words: (-counts[words], words))[: 2 * most]
    found = [_counted(words, messages, labels[words]) for words in likely]
    return tuple(sorted(found, key=lambda reason: (-reason.jobs, reason.words))[:most])


def _counted(words: str, messages: Mapping[str, int], labels: Collection[str]) -> ReasonCount:
    jobs = sum(number for message, number in messages.items() if words in message)
    return ReasonCount(words, jobs, next(iter(labels)) if len(labels) == 1 else words)


@lru_cache(_MESSAGES)
def reasons_in(message: str) -> Mapping[str, str]:
    """Return the reasons in a message, each as a part of it, and as a label: without names, counts and details.

    A message about nodes has a reason for each group of nodes; any other has one.
    """
    found = _NODES.fullmatch(message)
    clauses = [_COUNT.sub("", clause, count=1) for clause in _CLAUSE.split(found[1])] if found else [message]
    return {words: label for words, label in map(_words, clauses) if words}


def _words(clause: str) -> tuple[str, str]:
    """Return the longest part of a text without names, up to its details, and the text with names left out."""
    text = _DETAILS.split(_NAMES.sub(_NAME, clause), maxsplit=1)[0].strip(" ,")
    parts = (part.strip(" ,") for part in text.split(_NAME))
    return max(parts, key=len), text
