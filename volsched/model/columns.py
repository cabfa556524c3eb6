"""Resource names as small integers, so that amounts are lists and arrays instead of mappings.

Two columns are no resource of any node: the amounts that Kubernetes assumes for scoring when a container names no
cpu or memory request (100m and 200Mi, ``schedutil.GetNonzeroRequests``). They travel with a task's charge so that the
scores of a node never need a scan of its pods.
"""

from __future__ import annotations

from collections.abc import Callable

from volsched.model.template import TaskTemplate

CPU, MEMORY, PODS, NONZERO_CPU, NONZERO_MEMORY = range(5)
FIRST_OTHER = 5
_FIXED = ("cpu", "memory", "pods", "<nonzero cpu>", "<nonzero memory>")


class ResourceColumns:
    """The interning table of one cluster; a name keeps its column for the life of the cluster."""

    __slots__ = ("_charges", "_columns", "_is_left", "_requests", "left_to_devices", "names")

    def __init__(self, is_left_to_devices: Callable[[str], bool] = lambda _: False) -> None:
        self._is_left = is_left_to_devices
        self.left_to_devices: frozenset[int] = frozenset()
        """Columns of extended resources that a DeviceClass stands for: a node that offers nothing of one has room for
        any amount of it, as far as amounts tell, and its devices decide."""
        self.names: list[str] = list(_FIXED)
        self._columns: dict[str, int] = {name: column for column, name in enumerate(_FIXED)}
        self._charges: dict[int, tuple[tuple[int, int], ...]] = {}
        self._requests: dict[int, tuple[tuple[int, int], ...]] = {}

    def __len__(self) -> int:
        return len(self.names)

    def find(self, resource: str) -> int | None:
        """The column of a resource, or None when nobody has named it yet."""
        return self._columns.get(resource)

    def column(self, resource: str) -> int:
        """The column of a resource, made when it is new."""
        found = self._columns.get(resource)
        if found is None:
            found = self._columns[resource] = len(self.names)
            self.names.append(resource)
            if self._is_left(resource):
                self.left_to_devices |= {found}
        return found

    def ask_again(self) -> bool:
        """Find out anew which resources are left to devices; whether these are others."""
        found = frozenset(c for c, name in enumerate(self.names) if self._is_left(name))
        if found == self.left_to_devices:
            return False
        self.left_to_devices = found
        return True

    def request(self, template: TaskTemplate) -> tuple[tuple[int, int], ...]:
        """What a task asks for, pod slots aside: ``(column, amount)`` pairs in order of columns."""
        found = self._requests.get(template.id)
        if found is None:
            found = tuple(sorted((self.column(name), amount) for name, amount in template.request.items()))
            self._requests[template.id] = found
        return found

    def charge(self, template: TaskTemplate) -> tuple[tuple[int, int], ...]:
        """What a task takes on its node: its request, one pod slot and the amounts that scores assume."""
        found = self._charges.get(template.id)
        if found is None:
            extra = ((PODS, 1), (NONZERO_CPU, template.nonzero_cpu), (NONZERO_MEMORY, template.nonzero_memory))
            found = self._charges[template.id] = self.request(template) + extra
        return found

    def forget(self, template: TaskTemplate) -> None:
        """Drop what is remembered of a template that no task has any more."""
        self._charges.pop(template.id, None)
        self._requests.pop(template.id, None)
