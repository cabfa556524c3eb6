"""Resource names as small integers, so that amounts are lists and arrays instead of mappings.

Two columns are no resource of any node: the amounts that Kubernetes assumes for scoring when a container names no cpu
or memory request (100m and 200Mi, ``schedutil.GetNonzeroRequests``). They travel with a task's charge so that the
scores of a node never need a scan of its pods.

A resource has a column of its own once a node offers it, or devices serve it. All others share one, in which every node
has 0: pods may name as many resources as they like, and each column costs a number on every node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, KeysView

from volsched.model.pods.template import PodTemplate

CPU, MEMORY, PODS, NONZERO_CPU, NONZERO_MEMORY, OFFERED_NOWHERE = range(6)
_FIXED = ("cpu", "memory", "pods", "<nonzero cpu>", "<nonzero memory>", "<offered nowhere>")


class ResourceColumns:
    """The interning table of one cluster. A name keeps its column for the life of the cluster."""

    __slots__ = (
        "_asked_in_vain",
        "_charges",
        "_columns",
        "_is_left",
        "_requests",
        "left_to_devices",
        "names",
        "version",
    )

    def __init__(self, is_left_to_devices: Callable[[str], bool] = lambda _: False) -> None:
        self._is_left = is_left_to_devices
        self.left_to_devices: frozenset[int] = frozenset()
        """Columns of extended resources that a DeviceClass stands for.

        A node that offers nothing of one has room for any amount of it, as far as amounts go, and its devices decide.
        """
        self.names: list[str] = list(_FIXED)
        self.version = 0
        """Another one whenever a resource has got a column of its own."""
        self._columns: dict[str, int] = {name: column for column, name in enumerate(_FIXED)}
        self._charges: dict[int, tuple[tuple[int, int], ...]] = {}
        self._requests: dict[int, tuple[tuple[int, int], ...]] = {}
        self._asked_in_vain: dict[str, set[int]] = {}
        """Templates by the resources that they ask for and that nothing offers."""

    def __len__(self) -> int:
        return len(self.names)

    def find(self, resource: str) -> int | None:
        """Return the column of a resource, or None when it has none of its own."""
        return self._columns.get(resource)

    def column(self, resource: str) -> int:
        """Return the column of a resource, made when it is new."""
        found = self._columns.get(resource)
        if found is None:
            found = self._columns[resource] = len(self.names)
            self.names.append(resource)
            self.version += 1
            if self._is_left(resource):
                self.left_to_devices |= {found}
        return found

    def place(self, resource: str) -> int:
        """Return the column of a resource: its own, or that of resources without an offer; see ``version``."""
        return self._columns.get(resource, OFFERED_NOWHERE)

    def ask_again(self) -> bool:
        """Find out again which resources are left to devices. Return True if these are others."""
        found = frozenset(c for c, name in enumerate(self.names) if self._is_left(name))
        if found == self.left_to_devices:
            return False
        self.left_to_devices = found
        return True

    def request(self, template: PodTemplate) -> tuple[tuple[int, int], ...]:
        """Return the request of a task without its pod slot: ``(column, amount)`` pairs in order of columns."""
        found = self._requests.get(template.id)
        if found is None:
            amounts: dict[int, int] = {}
            for name, amount in template.request.items():
                column = self._column_for(template, name)
                amounts[column] = amounts.get(column, 0) + amount
            found = self._requests[template.id] = tuple(sorted(amounts.items()))
        return found

    def _column_for(self, template: PodTemplate, name: str) -> int:
        found = self._columns.get(name)
        if found is not None:
            return found
        if self._is_left(name):
            return self.column(name)
        self._asked_in_vain.setdefault(name, set()).add(template.id)
        return OFFERED_NOWHERE

    def names_of(self, template: PodTemplate, column: int) -> tuple[str, ...]:
        """Return the resources that a task asks for by a column: one, or all that nothing offers."""
        if column != OFFERED_NOWHERE:
            return (self.names[column],)
        return tuple(sorted(name for name in template.request if template.id in self._asked_in_vain.get(name, ())))

    def in_vain(self) -> KeysView[str]:
        """Return the resources that tasks ask for and that nothing offers."""
        return self._asked_in_vain.keys()

    def offered_now(self, names: Collection[str]) -> set[int]:
        """Give resources columns of their own. Return the ids of templates whose charges change."""
        templates: set[int] = set()
        for name in names:
            self.column(name)
            templates |= self._asked_in_vain.pop(name, set())
        for number in templates:
            self._charges.pop(number, None)
            self._requests.pop(number, None)
        return templates

    def charge(self, template: PodTemplate) -> tuple[tuple[int, int], ...]:
        """Return the charge of a task on its node: its request, one pod slot and the amounts that scores assume."""
        found = self._charges.get(template.id)
        if found is None:
            extra = ((PODS, 1), (NONZERO_CPU, template.nonzero_cpu), (NONZERO_MEMORY, template.nonzero_memory))
            found = self._charges[template.id] = self.request(template) + extra
        return found

    def forget(self, template: PodTemplate) -> None:
        """Drop data about a template without tasks."""
        self._charges.pop(template.id, None)
        self._requests.pop(template.id, None)
        for name in template.request:
            asking = self._asked_in_vain.get(name)
            if asking is not None:
                asking.discard(template.id)
                if not asking:
                    del self._asked_in_vain[name]
