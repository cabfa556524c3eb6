"""Modules, files, members of classes and other identifiers that pages and docstrings name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests.docs.pages import PAGES, ROOT

CODE: Final = ("volsched", "actions", "plugins", "tools")
QUOTED: Final = re.compile(r"`+([^`\n]+)`+")
FILE: Final = re.compile(r"[\w./-]+\.(?:py|md|toml|lock)")
DOTTED: Final = re.compile(r"[a-z_]\w*(?:\.\w+)+")
MEMBER: Final = re.compile(r"([A-Z]\w+)\.([a-z_]\w*)(?:\(.*\))?")
NAME: Final = re.compile(r"_?[a-z]+(?:_[a-z0-9]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+|_[a-z]\w+")
"""What can only be an identifier: words with an underscore, or with capitals inside."""
OF_FORMULAS: Final = {"d_g", "cards_g", "NewResource", "duration_ms"}
"""Symbols of formulas, a function of Volcano's, and a key that is made of a name and a unit."""
GROUPS: Final = {"volsched.plugins", "volsched.actions", "volsched.validators"}
"""Entry points, not modules."""
OF_SETTINGS: Final = {"reserve.after", "reserve.drainFor", "requests.cpu"}
"""Arguments of an action, and a resource of quotas."""
OF_OTHERS: Final = {"Chart.yaml", "values.yaml"}
"""Files of Helm, which look like the attribute of a class."""


@cache
def parsed() -> dict[str, ast.Module]:
    """Every module of the packages and of the tools, by its path."""
    files = (path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py")))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in files}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its dotted name, with ``volsched.`` and without."""
    named = {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): tree for path, tree in parsed().items()
    }
    return named | {name.removeprefix("volsched."): tree for name, tree in named.items()}


@cache
def classes() -> dict[str, tuple[set[str], set[str]]]:
    """Members and bases of the classes of each name."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for tree in parsed().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                members, bases = found.setdefault(node.name, (set(), set()))
                members |= set(names_in(node))
                bases |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
    return found


def names_in(tree: ast.AST) -> Iterator[str]:
    """Names that are defined, assigned or imported somewhere below."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def has_member(name: str, member: str, seen: frozenset[str] = frozenset()) -> bool:
    """True if a class of that name, or a base of it, has the member. A base from elsewhere may have any."""
    if name not in classes():
        return bool(seen)
    members, bases = classes()[name]
    return member in members or any(has_member(base, member, seen | {name}) for base in bases - seen - {name})


def in_docstrings() -> Iterator[tuple[str, str]]:
    """Where something is quoted in a docstring, also below a constant or a field, and what."""
    for path, tree in parsed().items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield from ((f"{path}:{node.lineno}", quoted) for quoted in QUOTED.findall(node.value.value))


def in_pages() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        yield from ((page.name, quoted) for quoted in QUOTED.findall(page.read_text()))


@cache
def by_ending() -> dict[str, list[ast.Module]]:
    """Modules by every ending of their dotted names: ``framework.engine.fast`` is also ``engine.fast``."""
    found: dict[str, list[ast.Module]] = {}
    for name, tree in modules().items():
        parts = name.split(".")
        for start in range(len(parts)):
            found.setdefault(".".join(parts[start:]), []).append(tree)
    return found


def test_modules_that_docstrings_name_exist() -> None:
    """Also those that are named from inside their package, as ``dispatch.ordering``."""
    packages = {name.rpartition("/")[2] for name in (path.removesuffix("/__init__.py") for path in parsed())}

    def exists(name: str) -> bool:
        module, _, member = name.rpartition(".")
        return name in by_ending() or any(member in set(names_in(tree)) for tree in by_ending().get(module, ()))

    unknown = [
        f"{where}: {name}"
        for where, name in in_docstrings()
        if DOTTED.fullmatch(name) and name.partition(".")[0] in packages
        if name not in GROUPS | OF_SETTINGS and not exists(name)
    ]

    assert unknown == []


def test_modules_that_a_package_lists_are_in_it() -> None:
    """A word of a package's docstring that names a module somewhere is one of this package, or a package beside it."""
    everywhere = {part for name in modules() for part in name.split(".")}
    missing = []
    for path, tree in parsed().items():
        if not path.endswith("/__init__.py"):
            continue
        folder = (ROOT / path).parent
        known = {found.stem for found in (*folder.rglob("*.py"), *folder.rglob("*/"))}
        quoted = QUOTED.findall(ast.get_docstring(tree) or "")
        missing += [f"{path}: {name}" for name in quoted if name in everywhere and name not in known]

    assert missing == []


def test_files_that_are_named_exist() -> None:
    tops = (*CODE, "bench", "charts", "docs", "drills", "manifests", "monitoring", "release", "requirements", "tests")
    files = [path for top in tops for path in (ROOT / top).rglob("*.*")] + list(ROOT.glob("*.*"))
    known = {part for path in files for part in endings(str(path.relative_to(ROOT)))}

    named = (*in_docstrings(), *in_pages())
    unknown = [f"{where}: {name}" for where, name in named if FILE.fullmatch(name) and name.lstrip("./") not in known]

    assert unknown == []


def test_names_that_docstrings_quote_exist() -> None:
    stems = {part for name in modules() for part in name.split(".")}
    known = set().union(stems, OF_FORMULAS, *(words_in(tree) for tree in parsed().values()))

    assert [f"{where}: {name}" for where, name in in_docstrings() if NAME.fullmatch(name) and name not in known] == []


def words_in(tree: ast.Module) -> Iterator[str]:
    """Every identifier of a module, and every word of its strings that are no docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from names_in(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.keyword):
            yield str(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield from re.findall(r"\w+", node.value)


def endings(path: str) -> Iterator[str]:
    """A path, and the same without the first folders."""
    while path:
        yield path
        path = path.partition("/")[2]


def test_members_of_classes_that_are_named_exist() -> None:
    unknown = [
        f"{where}: {name}"
        for where, name in (*in_docstrings(), *in_pages())
        if name not in OF_OTHERS and (found := MEMBER.fullmatch(name))
        if found[1] in classes() and not has_member(found[1], found[2])
    ]

    assert unknown == []
