"""The contracts of a plugin and of an action with the framework."""

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
    """Registers callbacks in ``on_session_open``.

    A plugin is built once per configuration and keeps its parsed arguments. Accounts that outlive a session are
    observers of the cluster, obtained with ``registrar.account``.

    Its class may have these attributes, too:

    * ``ARGUMENTS``: the schema of its arguments, checked before it is made.
    * ``POD_ANNOTATIONS``: annotations that decide where pods may go; they become ``template.annotations``.
    * ``ASKING_ANNOTATIONS``: those of them by which a pod requests something.
    * ``EXCLUDES`` and ``UNDONE_BY``: names of plugins that it cannot be combined with, and of those that work against
      it.
    * ``COUNTED_FROM``: kinds of objects that its reported amounts need.
    * ``TASK_ANNOTATIONS``, ``GROUP_ANNOTATIONS``, ``QUEUE_ANNOTATIONS``, ``NODE_ANNOTATIONS``: annotations that it
      reads in
    ``task.spec``, ``job.spec``, ``queue.spec`` and of nodes. Other annotations are not kept; reading one raises
    UndeclaredAnnotationError. A key that ends in ``*`` is a prefix.
    * ``RESULT_ANNOTATIONS``: annotations that it writes on pods with their Binding; a pod that is made again has none.
    * ``ANNOTATION_TYPES``: how each annotation is read, for anonymous snapshots (``annotation_types``).
    """

    @property
    def name(self) -> str:
        """Return the name in configurations."""

    def on_session_open(self, registrar: Registrar) -> None:
        """Register this plugin's rules for a session."""


@runtime_checkable
class Action(Protocol):
    """One step of a session, such as enqueue or allocate. Its class declares annotations as a plugin's does.

    An action with rules of its own, for example about nodes that it holds, has ``on_session_open`` as a plugin does.
    """

    @property
    def name(self) -> str:
        """Return the name in configurations."""

    def execute(self, session: Session) -> None:
        """Do the action's work on the session."""


PluginEntry: TypeAlias = CatalogueEntry[Plugin]
ActionEntry: TypeAlias = CatalogueEntry[Action]
ValidatorEntry: TypeAlias = CatalogueEntry[Iterable[Fault]]
"""Leads to a Validator: the function itself, which is not made of anything."""
