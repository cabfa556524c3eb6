"""No module needs itself: imports do not go round in a circle, those for the type checker alone included.

The contract in ``.importlinter`` says so of each room; here it is all modules, whatever room they are in.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import grimp
import pytest

KNOW_EACH_OTHER = {
    frozenset({"volsched.model.job", "volsched.model.nodes.node", "volsched.model.plan", "volsched.model.pods.task"}),
    frozenset(f"volsched.framework.{name}" for name in ("nominations", "registration", "session", "statement")),
    frozenset({"actions.reserve.book", "actions.reserve.words"}),
}
"""For the type checker alone: a pod knows its job and its node, a session what it is made of, and they it."""


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset({"b", "c"})}


def test_no_module_is_imported_in_a_circle() -> None:
    assert circles(imports(for_types=False)) == set()


def test_for_the_type_checker_only_those_import_each_other_that_know_each_other() -> None:
    assert circles(imports(for_types=True)) <= KNOW_EACH_OTHER


@pytest.mark.parametrize("package", ["volsched.framework", "volsched.kube"])
def test_no_room_needs_another_that_needs_it(package: str) -> None:
    """Taken as a whole, too, with all its modules."""
    rooms: dict[str, set[str]] = {}
    for module, imported in imports(for_types=False).items():
        if (room := room_of(module, package)) is not None:
            others = {room_of(other, package) for other in imported}
            rooms.setdefault(room, set()).update(other for other in others if other not in (None, room))

    assert circles(rooms) == set()


def room_of(module: str, package: str) -> str | None:
    """What is right below a package and has the module, or is it."""
    inside = module.removeprefix(f"{package}.")
    return inside.partition(".")[0] if inside != module else None


def imports(*, for_types: bool) -> Mapping[str, Set[str]]:
    """What each module imports, as files say it."""
    graph = grimp.build_graph(
        "volsched", "actions", "plugins", "tools", exclude_type_checking_imports=not for_types, cache_dir=None
    )
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def circles(imported: Mapping[str, Set[str]]) -> set[frozenset[str]]:
    """The largest groups of modules of which each needs all others."""
    needs = {module: reached_from(module, imported) for module in imported}
    together = (frozenset(o for o in needs[module] if module in needs[o]) for module in imported)
    return {group for group in together if group}


def reached_from(module: str, imported: Mapping[str, Set[str]]) -> Set[str]:
    """All that a module needs, through others too; itself only if it is in a circle."""
    found: set[str] = set()
    left = [*imported[module]]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += imported[name]
    return found
