"""What a plugin and an action are to the framework."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from volsched.framework.config.entries import CatalogueEntry
from volsched.framework.validation import Fault

if TYPE_CHECKING:
    from volsched.framework.registration import Registrar
    from volsched.framework.session import Session


@runtime_checkable
class Plugin(Protocol):
    """Registers callbacks; that is all ``on_session_open`` does.

    A plugin is built once per configuration and keeps its parsed arguments. Accounts that outlive a session are
    observers of the cluster, obtained with ``registrar.account``.

    Its class may have these, too: ``ARGUMENTS``, which are checked before it is made; ``POD_ANNOTATIONS``, those that
    decide where pods may go, which become ``template.annotations``; ``ASKING_ANNOTATIONS``, those of them by which a
    pod asks for something; ``EXCLUDES`` and ``UNDONE_BY``, names of plugins that it cannot be with, and of those that
    work against it; ``COUNTED_FROM``, kinds of objects that its shown amounts need.

    Of annotations no more is kept than somebody declares. Beside ``POD_ANNOTATIONS`` a class lists as
    ``TASK_ANNOTATIONS`` what it reads of ``task.spec.annotations``, as ``GROUP_ANNOTATIONS`` what of
    ``job.spec.annotations``, as ``QUEUE_ANNOTATIONS`` what of ``queue.spec.annotations``, and as ``NODE_ANNOTATIONS``
    what of ``node.annotations``. A key that ends in ``*`` stands for all that begin like it. Reading another one
    raises UndeclaredAnnotationError.

    ``RESULT_ANNOTATIONS`` are those that it writes on pods with their Binding: a pod that is made again has none of
    them. ``ANNOTATION_TYPES`` states how each annotation is read, for anonymous snapshots (``annotation_types``).
    """

    @property
    def name(self) -> str:
        """What configurations call it."""

    def on_session_open(self, registrar: Registrar) -> None:
        """Register this plugin's rules for a session."""


@runtime_checkable
class Action(Protocol):
    """One step of a session: enqueue, allocate, backfill and so on; its class declares annotations as a plugin's does.

    One that has rules of its own, as about nodes that it holds, has ``on_session_open`` as a plugin does.
    """

    @property
    def name(self) -> str:
        """What configurations call it."""

    def execute(self, session: Session) -> None:
        """Do the action's work on the session."""


PluginEntry: TypeAlias = CatalogueEntry[Plugin]
ActionEntry: TypeAlias = CatalogueEntry[Action]
ValidatorEntry: TypeAlias = CatalogueEntry[Iterable[Fault]]
"""Leads to a Validator: the function itself, which is not made of anything."""
