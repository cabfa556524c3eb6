"""The source of the scheduler's configuration, followed as it changes: a ConfigMap object, or a file.

A callable reads the meaning of a text. This module notices a new text, calls it, passes on valid configurations, and
keeps the last good one otherwise. It reports the result: a log line, a metric, and for a ConfigMap an Event on the
object.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

import structlog

from volsched.kube.client.rest import Api
from volsched.kube.watch.config_state import LOADED, MISSING, REFUSED, ConfigState
from volsched.kube.watch.informer import Informer
from volsched.kube.watch.resources import Resource
from volsched.model import api
from volsched.model.changes import Change, Put
from volsched.model.errors import ConfigError
from volsched.model.plan import RecordEvent

POLL_SECONDS: Final = 1.0
REREAD_SECONDS: Final = 15.0
"""A file is read again this often even if it looks untouched."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class ConfigReports(Generic[T]):
    """Checks each new text: `parse` returns its meaning and warnings (or raises ConfigError), `use` takes a valid one.

    `record_event` takes Events, each result once; `target` is their object, if there is one. Replicas that do not lead
    check as well, and report nothing until `start_reporting`.
    """

    def __init__(
        self,
        parse: Callable[[str], tuple[T, Sequence[str]]],
        use: Callable[[T], None],
        state: ConfigState,
        record_event: Callable[[RecordEvent], None],
        *,
        is_reporting: bool = True,
    ) -> None:
        self._parse = parse
        self._use = use
        self._state = state
        self._record_event = record_event
        self._is_reporting = is_reporting
        self._unreported: list[RecordEvent] = []
        self._text: str | None = None
        self.target: api.ConfigMap | None = None
        self.text_in_force = ""

    def start_reporting(self, reported_hash: str = "") -> None:
        """Report the last result, and every later one.

        The former leader has reported already that the text with the hash `reported_hash` is in force.
        """
        self._is_reporting = True
        unreported, self._unreported = self._unreported, []
        if self._state.verdict == LOADED and self._state.hash == reported_hash:
            return
        for event in unreported:
            self._record_event(event)

    def offer(self, text: str) -> ConfigError | None:
        """Take a text. Return its problem, None if it is in force now or nothing new."""
        if text == self._text:
            return None
        self._text = text
        try:
            parsed, warnings = self._parse(text)
        except ConfigError as error:
            self._refuse(error, REFUSED, text_hash(text))
            return error
        except Exception as unforeseen:  # whatever it is, what is in force stays, and a text that is mended is taken
            _log.exception("a configuration could not be judged", source=self._state.source)
            failed = ConfigError("", f"it could not be judged: {type(unforeseen).__name__}: {unforeseen}")
            self._refuse(failed, REFUSED, text_hash(text))
            return failed
        state = self._state
        self._unreported.clear()
        state.judge(LOADED, text_hash(text))
        self.text_in_force = text
        self._use(parsed)
        _log.info("configuration loaded", source=state.source, hash=state.hash)
        self._report("Normal", "ConfigurationLoaded", f"volsched uses this configuration (hash {state.hash})")
        for warning in warnings:
            _log.warning("configuration doubtful", source=state.source, warning=warning)
        if warnings:
            self._report("Warning", "ConfigurationDoubtful", "\n".join(warnings))
        return None

    def refuse(self, error: ConfigError) -> None:
        """Note that the text is missing. The same again is no news."""
        if self._state.verdict == MISSING and self._state.problem == str(error):
            return
        self._text = None
        self._refuse(error, MISSING, "")

    def _refuse(self, error: ConfigError, verdict: str, newest: str) -> None:
        state = self._state
        self._unreported.clear()
        state.judge(verdict, newest, str(error))
        kept = f"; the configuration before it (hash {state.hash}) stays in force" if state.hash else ""
        _log.error("configuration refused" + kept, source=state.source, error=str(error))
        self._report("Warning", "ConfigurationRefused", f"{error}{kept}")

    def warn_of_plugin(self, message: str) -> None:
        """Tell that a plugin of the configuration in force fails."""
        self._report("Warning", "PluginFailing", message)

    def _report(self, kind: str, reason: str, message: str) -> None:
        if self.target is None:
            return
        meta = self.target.metadata
        name, uid, action = meta.name, meta.uid, "LoadConfiguration"
        event = RecordEvent("ConfigMap", "v1", meta.namespace, name, uid, kind, reason, message, action, each=True)
        if self._is_reporting:
            self._record_event(event)
        else:
            self._unreported.append(event)


class FileSource(Generic[T]):
    """A configuration in a file. A file that is replaced by rename, or behind a link that is switched, is followed."""

    def __init__(self, path: str, verdicts: ConfigReports[T], poll: float = POLL_SECONDS) -> None:
        self._path = Path(path)
        self._verdicts = verdicts
        self._poll = poll
        self._seen: tuple[int, ...] = ()
        self._read_at = 0.0

    async def first(self) -> None:
        """Load it. Raises ConfigError when it cannot be read or does not hold."""
        self._seen = self._signature()
        error = self._verdicts.offer(self._text())
        if error is not None:
            raise error

    async def follow(self) -> None:
        """Load it again whenever it changes; only cancelling ends it."""
        while True:
            await asyncio.sleep(self._poll)
            signature = self._signature()
            if signature == self._seen and time.monotonic() - self._read_at < REREAD_SECONDS:
                continue
            self._seen = signature
            if not signature:  # between two renames
                continue
            try:
                self._verdicts.offer(self._text())
            except ConfigError as error:
                self._verdicts.refuse(error)

    def _signature(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ino, found.st_dev, found.st_size

    def _text(self) -> str:
        self._read_at = time.monotonic()
        try:
            return self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError("", f"cannot read {self._path}: {error}") from error


class ConfigMapSource(Generic[T]):
    """A configuration in a ConfigMap. `pick` finds the key that holds it: None when none does, or ConfigError."""

    def __init__(
        self,
        api_server: Api,
        namespace: str,
        name: str,
        pick: Callable[[Mapping[str, str]], str | None],
        verdicts: ConfigReports[T],
    ) -> None:
        self._name = f"{namespace}/{name}"
        self._pick = pick
        self._verdicts = verdicts
        self._first: asyncio.Future[ConfigError | None] = asyncio.get_running_loop().create_future()
        resource = Resource(
            "ConfigMap",
            "v1",
            "configmaps",
            api.ConfigMap,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
        )
        self._informer = Informer(api_server, resource, self._on_changes, on_listed=self._on_listed)
        self._task: asyncio.Task[None] | None = None

    async def first(self) -> None:
        """Load it, waiting until it is there. Raises ConfigError when it does not hold."""
        self._task = asyncio.get_running_loop().create_task(self._informer.run(), name="informer of the configuration")
        await asyncio.wait((self._task, self._first), return_when=asyncio.FIRST_COMPLETED)
        if not self._first.done():
            await self._task  # it has ended, which it should not: raise what it raises
        error = await self._first
        if error is not None:
            raise error

    async def follow(self) -> None:
        """Load it again whenever it changes; only cancelling ends it."""
        if self._task is not None:
            await self._task

    def _on_listed(self) -> None:
        if not self._first.done():
            _log.warning("waiting for the ConfigMap that holds the configuration", configmap=self._name)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Put) and isinstance(change.object, api.ConfigMap):
                self._on_object(change.object)
            else:
                self._verdicts.refuse(ConfigError("", f"the ConfigMap {self._name} is gone"))

    def _on_object(self, found: api.ConfigMap) -> None:
        self._verdicts.target = found
        try:
            error = self._verdicts.offer(self._text_of(found))
        except ConfigError as problem:
            self._verdicts.refuse(problem)
            error = problem
        if not self._first.done():
            self._first.set_result(error)

    def _text_of(self, found: api.ConfigMap) -> str:
        key = self._pick(found.data)
        if key is None:
            raise ConfigError("data", "no key holds a scheduler configuration (actions and tiers)")
        return found.data[key]


def text_hash(text: str) -> str:
    """Return a short name for a text, equal for equal texts."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]
