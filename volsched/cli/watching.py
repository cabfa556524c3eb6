"""`--watch` of verbs: the cluster is followed by watches, and the answer is shown again when it has changed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import click

from volsched.cli.inputs.sources import EXIT_CLUSTER, give_up, keep_quiet, refuse_cluster
from volsched.cli.output import WIDTH, Answer, View, is_for_people, print_result, report
from volsched.cli.printing import WIDE, show
from volsched.kube.client.credentials import Source
from volsched.kube.client.rest import Api
from volsched.kube.errors import ApiError, CredentialsError
from volsched.run.following import Following
from volsched.text_page import Paragraph, Part, Row, Table, plain

PAUSE_SECONDS: Final = 0.3
"""The time that changes wait for others before the next answer."""

REST: Final = 2.0
"""The pause after an answer, as a multiple of the time that it took."""

EXIT_INTERRUPTED: Final = EXIT_CLUSTER
"""The exit status after Ctrl-C, as that of ``kubectl get --watch``."""

_KEYS: Final = ("QUEUE", "RESOURCE", "NAMESPACE", "WORKLOAD", "CARD", "NODE", "POD", "JOB", "OF")
"""Headings of columns that name the object of a row."""


def check(paths: Sequence[str]) -> None:
    """Raise click.UsageError for manifests: they are read once."""
    if paths:
        raise click.UsageError("--watch follows a cluster, and -f reads files once; leave one of them out")


def watch(flags: Mapping[str, Any], kinds: Collection[str] | None, view: View, output: str) -> NoReturn:
    """Answer now and after each change, until Ctrl-C; ends the command. ``kinds``: None for all kinds."""
    keep_quiet()
    display = _display(output)
    source = Source(flags["kubeconfig"], flags["kube_context"], flags["master"])
    try:
        with display:
            asyncio.run(_watch(source, kinds, view, display))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except CredentialsError as error:
        give_up(f"{error}; name a cluster with --kubeconfig")
    except ApiError as error:
        refuse_cluster(error.status, error.message)
    except BrokenPipeError:  # the reader of the pipe has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(EXIT_CLUSTER)


async def _watch(source: Source, kinds: Collection[str] | None, view: View, display: Display) -> None:
    """Follow until cancelled. Raises ApiError if the cluster cannot be read at the beginning."""
    server = await Api.connect(source)
    changed, failed = asyncio.Event(), asyncio.get_running_loop().create_future()
    following = Following(server, changed.set, kinds, lambda error: _on_trouble(error, following, failed, display))
    run = asyncio.ensure_future(following.run())
    complete = asyncio.ensure_future(following.complete.wait())
    try:
        await asyncio.wait((run, complete, failed), return_when=asyncio.FIRST_COMPLETED)
        for over in (failed, run):
            if over.done():
                over.result()
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, display.resized)
        while True:
            changed.clear()
            began = time.monotonic()
            display.show(await asyncio.to_thread(view, following.take()))
            rest = max(PAUSE_SECONDS, REST * (time.monotonic() - began))
            await changed.wait()
            await asyncio.sleep(rest)
    finally:
        failed.cancel()
        complete.cancel()
        run.cancel()
        await asyncio.gather(run, complete, return_exceptions=True)
        await server.close()


def _on_trouble(error: ApiError | None, of: Following, failed: asyncio.Future[None], display: Display) -> None:
    """At the beginning a failure is final; later it is shown until the server answers again."""
    if error is None or of.complete.is_set():
        display.trouble("" if error is None else f"the connection to the API server is lost, trying again: {error}")
    elif not failed.done():
        failed.set_exception(error)


# --- displays -------------------------------------------------------------------------------------------------------


class Display(Protocol):
    """Where answers are shown."""

    def __enter__(self) -> Display: ...
    def __exit__(self, *_: object) -> None: ...

    def show(self, answer: Answer) -> None:
        """Show the newest answer."""

    def trouble(self, message: str) -> None:
        """Tell that the connection is lost; with an empty message that it is there again."""

    def resized(self) -> None:
        """Show the newest answer for the new size of the terminal."""


def _display(output: str) -> Display:
    if not is_for_people(output):
        return _Results(output)
    if sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb"):
        from volsched.cli.terminal import LivePage  # noqa: PLC0415 - for terminals alone

        return _OnTerminal(LivePage(wide=output == WIDE))
    return _Changes()


class _OnTerminal:
    """The present answer in place of the one before."""

    def __init__(self, live: Any) -> None:
        self._live = live

    def __enter__(self) -> Display:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, answer: Answer) -> None:
        self._live.show(answer.page())

    def trouble(self, message: str) -> None:
        self._live.trouble(message)

    def resized(self) -> None:
        self._live.draw()


class _Stream:
    """What comes on a pipe; a lost connection is told on standard error."""

    def __enter__(self) -> Display:
        return self  # type: ignore[return-value]  # its children have `show`

    def __exit__(self, *_: object) -> None:
        return None

    def trouble(self, message: str) -> None:
        report(message or "the API server answers again", "warning" if message else "note")

    def resized(self) -> None:
        """Nothing: a pipe has no size."""


class _Changes(_Stream):
    """The first page, then what differs from the page before."""

    def __init__(self) -> None:
        self._before: Sequence[Part] | None = None

    def show(self, answer: Answer) -> None:
        page = list(answer.page())
        told = page if self._before is None else changed_parts(self._before, page)
        self._before = page
        if told:
            show(plain(told, WIDTH))
            sys.stdout.flush()


class _Results(_Stream):
    """Each result that differs from the one before, as a document of its own."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._before: Any = None

    def show(self, answer: Answer) -> None:
        result = answer.result()
        if result != self._before:
            if self._before is not None and self._output == "yaml":
                show("---\n")
            print_result(result, self._output)
            sys.stdout.flush()
        self._before = result


def changed_parts(before: Sequence[Part], after: Sequence[Part]) -> list[Part]:
    """Return what is new on a page: lines, and rows of tables under their headings. Rows that are gone follow."""
    old = {part.title: part for part in before if isinstance(part, Table)}
    new = {part.title: part for part in after if isinstance(part, Table)}
    lines = {part for part in before if isinstance(part, str | Paragraph)}
    told: list[Part] = [part for part in after if isinstance(part, str | Paragraph) and part and part not in lines]
    for title in (*new, *(title for title in old if title not in new)):
        told += _changed_rows(title, old.get(title), new.get(title))
    return ["", *told] if told else []


def _changed_rows(title: str, old: Table | None, new: Table | None) -> list[Part]:
    found: list[Part] = []
    present, past = _by_key(new), _by_key(old)
    rows = [row for key, row in present.items() if past.get(key) != row]
    if rows and new is not None:
        found.append(Table(title, [new.rows[0], *rows]))
    gone = [row for key, row in past.items() if key not in present]
    if gone and old is not None:
        found.append(Table(f"{title}: GONE", [old.rows[0], *gone]))
    return found


def _by_key(table: Table | None) -> dict[tuple[str, ...], Row]:
    """Return the rows by what names their object: cells of the columns of names, else the first cell."""
    if table is None:
        return {}
    head, *rows = table.rows
    at = [number for number, name in enumerate(head) if name in _KEYS] or [0]
    return {tuple(row[number] for number in at): tuple(row) for row in rows}
