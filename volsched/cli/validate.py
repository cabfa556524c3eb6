"""``volsched validate``: what admission and the configuration loader would say, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

import click

from volsched.cli.flags import files_flag, output_flag
from volsched.cli.output import print_result, refuse
from volsched.framework.arguments import nearest
from volsched.framework.loading import is_bare_configuration
from volsched.framework.validation import UNKNOWN_KIND, WRONG_TYPE, Fault
from volsched.model import api
from volsched.model.errors import ConfigError, ObjectError
from volsched.simulation.manifests import (
    Document,
    InputError,
    completed,
    decode,
    documents_in,
    field_of,
    identity_faults,
    known_kinds,
    read_texts,
    subject_of,
    subject_of_raw,
    unknown_kind,
)
from volsched.validation.configuration import configuration_faults
from volsched.validation.objects import problems_of
from volsched.validation.problems import Problem

EXIT_PROBLEMS: Final = 1


@click.command()
@files_flag()
@output_flag("text", "A line for each problem, or all of them for programs.")
def validate(paths: tuple[str, ...], output: str) -> None:
    """Say everything that is wrong with a scheduler configuration, or with Queues, PodGroups, Jobs, pods and the pods
    inside workloads. Nothing outside is touched.

    A configuration is a bare file with actions and tiers, or a ConfigMap that holds one. Objects are judged beside each
    other: give a PodGroup together with its Queue, and names of cards together with the Nodes that offer them.

    \b
    Examples:
      volsched validate -f scheduler.conf
      volsched validate -f manifests/
      kubectl get nodes,queues,podgroups -A -o yaml | volsched validate -f - -o json

    \b
    Exit status: 0 no errors (warnings are allowed); 1 errors; 2 the input cannot be read.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    try:
        problems = list(_problems(paths))
    except (InputError, ConfigError) as error:
        refuse(error)
    if output == "text":
        for problem in problems:
            click.echo(f"{problem.severity}: {problem} [{problem.code}]")
    else:
        print_result({"problems": [asdict(problem) for problem in problems]}, output)
    sys.exit(EXIT_PROBLEMS if any(problem.severity == "error" for problem in problems) else 0)


def _problems(paths: tuple[str, ...]) -> Iterator[Problem]:
    documents: list[Document] = []
    for source, text in read_texts(paths):
        if is_bare_configuration(text):
            yield from (Problem.of(f"Configuration/{source}", fault) for fault in configuration_faults("", text))
        else:
            documents.extend(documents_in(source, text))
    objects: list[api.ApiObject] = []
    for document in documents:
        yield from _of_document(document, objects)
    yield from problems_of(objects, subject_of)


def _of_document(document: Document, objects: list[api.ApiObject]) -> Iterator[Problem]:
    """Yield what keeps an object from being read; one that can be read is added to the others."""
    unknown = unknown_kind(document.raw)
    if unknown is not None:
        yield _of_unknown(document, unknown)
        return
    try:
        found = completed(decode(document.raw))
    except ObjectError as error:
        yield Problem(subject_of_raw(document.raw), field_of(error), WRONG_TYPE, error.message)
        return
    yield from (Problem.of(subject_of(found), fault) for fault in identity_faults(found))
    objects.append(found)


def _of_unknown(document: Document, fault: Fault) -> Problem:
    """A kind that is only foreign is none of our business; one that looks like a slip is an error."""
    kind, version = document.raw.get("kind"), str(document.raw.get("apiVersion", ""))
    ours = (
        not isinstance(kind, str) or "volcano.sh/" in version or nearest(kind, known_kinds(), likeness=0.8) is not None
    )
    subject = f"{kind or 'object'} in {document.source}, {document.place}"
    if ours:
        return Problem(subject, fault.field, UNKNOWN_KIND, fault.message)
    return Problem(subject, "kind", UNKNOWN_KIND, f"{kind} is not checked", "warning")
