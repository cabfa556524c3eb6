"""``volsched validate``: what admission and the configuration loader would report, without a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final

import click

from volsched.cli.inputs.flags import files_flag, output_flag, strict_flag
from volsched.cli.inputs.sources import report_left_out
from volsched.cli.output import is_for_people, print_page, print_result, refuse
from volsched.framework.config.loading import is_bare_configuration
from volsched.framework.validation import DUPLICATE, UNKNOWN_KIND, WRONG_TYPE, Fault, Severity
from volsched.model import api
from volsched.model.errors import ConfigError, ObjectError, shortened
from volsched.simulation.documents import Document, InputError, documents_in, read_texts
from volsched.simulation.generated_names import named
from volsched.simulation.kinds import LeftOut, Why, judged
from volsched.simulation.manifests import completed, decode, field_of, identity_faults, subject_of, subject_of_raw
from volsched.simulation.runner import SCHEDULER_NAMES
from volsched.text_page import Mood, Paragraph, Part
from volsched.validation.configuration import arguments_in, changed_effects, configuration_faults, configurations_in
from volsched.validation.fields import field_faults
from volsched.validation.objects import problems_of
from volsched.validation.problems import Problem

EXIT_PROBLEMS: Final = 1


@click.command()
@files_flag()
@output_flag("text", "A line for each problem, or all of them for programs.")
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    show_default="volsched, volcano",
    help="The schedulerName of the pods that volsched places. May be repeated.",
)
@strict_flag
def validate(paths: tuple[str, ...], output: str, scheduler_names: tuple[str, ...], strict: bool) -> None:
    """Say everything that is wrong with a scheduler configuration, or with Queues, PodGroups, Jobs, pods and the pods
    inside workloads. Nothing outside is touched.

    A configuration is a bare file with actions and tiers, or a ConfigMap that holds one. Objects are judged beside each
    other: give a PodGroup together with its Queue, and names of cards together with the Nodes that offer them (and the
    configuration, where that names cards). Kinds that have no part in scheduling are left out, which one line says.

    \b
    Examples:
      volsched validate -f scheduler.conf
      volsched validate -f manifests/
      volsched validate -f team-a/ --strict && kubectl apply -f team-a/
      kubectl get nodes,queues,podgroups -A -o yaml | volsched validate -f - -o json

    \b
    Exit status: 0 no errors (warnings are allowed); 1 errors; 2 the input cannot be read.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    left_out = LeftOut()
    try:
        problems = list(
            _problems(paths, left_out, scheduler_names or SCHEDULER_NAMES, "error" if strict else "warning")
        )
    except (InputError, ConfigError) as error:
        refuse(error)
    report_left_out(left_out)
    if is_for_people(output):
        print_page([_line(problem) for problem in problems], output)
    else:
        print_result({"problems": [asdict(problem) for problem in problems]}, output)
    sys.exit(EXIT_PROBLEMS if any(problem.severity == "error" for problem in problems) else 0)


def _line(problem: Problem) -> Part:
    mood: Mood = "bad" if problem.severity == "error" else "waits"
    return Paragraph(f"{problem.severity}: {problem} [{problem.code}]", hang=2, mood=mood, wraps=False)


def _problems(
    paths: tuple[str, ...], left_out: LeftOut, scheduler_names: tuple[str, ...], unknown_field: Severity
) -> Iterator[Problem]:
    documents: list[Document] = []
    configurations: dict[str, str] = {}
    for text in read_texts(paths):
        if is_bare_configuration(text.text, among_others=text.in_folder):
            configurations[text.source] = text.text
            faults = configuration_faults("", text.text)
            yield from (Problem.of(f"Configuration/{text.source}", fault) for fault in faults)
        else:
            documents.extend(documents_in(text.source, text.text, in_folder=text.in_folder))
    objects: list[api.ApiObject] = []
    for document in named(documents):
        yield from _given_twice(document)
        judgement = judged(document)
        if isinstance(judgement, Fault):
            yield _of_kind(document, judgement)
            continue
        if judgement in (None, Why.AT_MAX):
            faults = field_faults(document.raw, unknown_field)
            yield from (Problem.of(subject_of_raw(document.raw), fault) for fault in faults)
        if judgement is not None:
            left_out.add(judgement, document)
        else:
            yield from _of_document(document, objects)
    queues = [found for found in objects if isinstance(found, api.Queue)]
    for source, given in configurations.items():
        yield from (Problem.of(f"Configuration/{source}", fault) for fault in changed_effects("", given, queues))
    arguments_of = arguments_in([*configurations.values(), *configurations_in(objects)])
    yield from problems_of(objects, subject_of, arguments_of, scheduler_names)


def _given_twice(document: Document) -> Iterator[Problem]:
    for found in document.twice:
        yield Problem(subject_of_raw(document.raw), found.field, DUPLICATE, found.message, "warning")


def _of_document(document: Document, objects: list[api.ApiObject]) -> Iterator[Problem]:
    """Yield the reasons why an object cannot be read; a readable one is added to the others."""
    try:
        found = completed(decode(document.raw))
    except ObjectError as error:
        yield Problem(subject_of_raw(document.raw), field_of(error), WRONG_TYPE, error.message)
        return
    yield from (Problem.of(subject_of(found), fault) for fault in identity_faults(found))
    objects.append(found)


def _of_kind(document: Document, fault: Fault) -> Problem:
    kind = shortened(str(document.raw.get("kind") or "object"))
    subject = f"{kind} in {document.source}, {document.place}"
    return Problem(subject, fault.field, UNKNOWN_KIND, fault.message)
