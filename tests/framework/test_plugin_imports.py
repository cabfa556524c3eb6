"""`volsched.plugin` has each name that a plugin imports, and loads its module on first use."""

from __future__ import annotations

import ast
import py_compile
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import plugins
import volsched.plugin
from volsched.framework import rules
from volsched.framework.rules import NodeRule, Rule

MODULES = ("volsched.plugin", *(f"volsched.plugin.{name}" for name in ("cards", "devices", "objects", "quota")))
MOST = 60
"""Modules of volsched and of plugins that a small plugin may import."""


def imported(*lines: str) -> set[str]:
    """Return the modules of volsched and plugins that a fresh interpreter has after these lines."""
    program = "\n".join((*lines, "import sys", "print(*sys.modules)"))
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    return {name for name in found if name.partition(".")[0] in ("volsched", "plugins")}


@pytest.mark.process
def test_a_small_plugin_imports_few_modules() -> None:
    found = imported("import plugins.binpack.plugin")

    assert "volsched.plugin" in found
    assert len(found) <= MOST, sorted(found)


@pytest.mark.process
def test_nothing_is_imported_before_it_is_used() -> None:
    before = imported("import volsched.plugin")

    assert before == {"volsched", "volsched.plugin"}
    assert "volsched.framework.session" in imported("from volsched.plugin import Session")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_that_a_type_checker_sees_is_there(module: str) -> None:
    found = import_module(module)

    source = ast.parse(Path(str(found.__file__)).read_text())
    names = [each.asname for part in ast.walk(source) if isinstance(part, ast.ImportFrom) for each in part.names]
    assert found.__all__ == sorted(filter(None, names))
    for name in found.__all__:
        assert getattr(found, name) is not None


@pytest.mark.parametrize("module", MODULES)
def test_names_are_listed_before_they_are_used(module: str) -> None:
    found = import_module(module)

    assert set(found.__all__) <= set(dir(found))
    assert {"__doc__", "__getattr__"} <= set(dir(found))


def test_python_can_tell_which_name_was_meant() -> None:
    with pytest.raises(AttributeError) as found:
        volsched.plugin.Reports  # noqa: B018 - asking is what fails

    assert (found.value.name, found.value.obj) == ("Reports", volsched.plugin)


@pytest.mark.process
def test_no_source_file_is_needed(tmp_path: Path) -> None:
    for path in Path(str(volsched.plugin.__file__)).parent.glob("*.py"):
        py_compile.compile(str(path), str(tmp_path / "plugin" / f"{path.stem}.pyc"), doraise=True)

    found = imported(
        "import volsched",
        f"volsched.__path__.insert(0, {str(tmp_path)!r})",
        "from volsched.plugin import Report",
        "from volsched.plugin.quota import Usage",
        f"assert volsched.plugin.__file__.startswith({str(tmp_path)!r})",
    )

    assert "volsched.framework.reports" in found


@pytest.mark.parametrize("module", MODULES)
def test_a_name_that_is_not_there_is_an_attribute_error(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
        import_module(module).Nothing  # noqa: B018 - asking is what fails


def test_names_are_the_very_objects() -> None:
    assert volsched.plugin.Predicate is rules.Predicate
    assert volsched.plugin.ABSTAIN is import_module("volsched.framework.callbacks").ABSTAIN


def test_every_rule_is_in_it() -> None:
    kinds = {each for each in vars(rules).values() if isinstance(each, type) and issubclass(each, Rule)}

    assert {each.__name__ for each in kinds - {NodeRule}} <= set(volsched.plugin.__all__)


def test_own_plugins_import_what_it_has_from_it_alone() -> None:
    listed = {
        (part.module, alias.name): module
        for module in MODULES
        for part in ast.walk(ast.parse(Path(str(import_module(module).__file__)).read_text()))
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
        if alias.asname
    }
    root = Path(str(plugins.__file__)).parent
    past = [
        f"{path.relative_to(root)}: {alias.name} is in {listed[part.module, alias.name]}"
        for path in sorted(root.rglob("*.py"))
        if path.parent != root
        for part in ast.walk(ast.parse(path.read_text()))
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
        if (part.module, alias.name) in listed
    ]

    assert past == []


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("volsched.framework.callbacks", "HoldersFn", "volsched.framework.reports:ConsumersFn"),
        ("volsched.framework.callbacks", "QueueAmounts", "volsched.framework.reports:QueueAmounts"),
        ("volsched.framework.rules", "CountedOverTime", "volsched.quota.past_use:CountedOverTime"),
        ("volsched.quota.demand", "ACCOUNT", "volsched.quota.demand:DEMANDS"),
        ("volsched.quota.demand", "ACCOUNT_ABOVE", "volsched.quota.demand:DEMANDS_ABOVE"),
        ("volsched.quota.past_use", "ARGUMENT", "volsched.quota.past_use:HALF_LIFE_ARGUMENT"),
        ("volsched.framework.columns.views", "NodeFacts", "volsched.framework.columns.views:NodePropertiesView"),
        ("volsched.framework.callbacks", "DueFn", "volsched.framework.callbacks:WithinDeservedFn"),
        ("volsched.framework.rules", "Due", "volsched.framework.rules:WithinDeserved"),
        ("volsched.plugin", "Due", "volsched.framework.rules:WithinDeserved"),
        ("volsched.plugin", "FactColumns", "volsched.framework.columns.tables:PropertyColumns"),
        ("volsched.plugin", "NodeFacts", "volsched.framework.columns.views:NodePropertiesView"),
        ("volsched.plugin.cards", "CardOffers", "volsched.model.cards.node_cards:NodeCardResources"),
        ("volsched.plugin.cards", "Stock", "volsched.model.cards.inventory:CardInventory"),
        ("volsched.plugin.cards", "stock_of", "volsched.model.cards.inventory:card_inventory_of"),
        ("volsched.plugin.devices", "DeviceLedger", "volsched.model.dra.devices:DeviceUsage"),
        ("volsched.plugin.devices", "Unmade", "volsched.framework.dra.extended:PendingClaim"),
        ("volsched.plugin.devices", "unmade_claim", "volsched.framework.dra.extended:pending_claim_of"),
        ("volsched.plugin.devices", "unmade_uid", "volsched.model.dra.devices:pending_claim_uid"),
        ("volsched.plugin.quota", "Holding", "volsched.framework.quota_report:Consumer"),
        ("volsched.plugin.quota", "Remedy", "volsched.framework.quota_report:Suggestion"),
        ("volsched.plugin.quota", "Stakes", "volsched.quota.reclaim:ReclaimView"),
        ("volsched.framework.accounts.card_lists", "ACCOUNT", "volsched.framework.accounts.card_lists:CARD_LISTS"),
        ("volsched.framework.accounts.card_parts", "ACCOUNT", "volsched.framework.accounts.card_parts:CARD_PARTS"),
    ],
)
def test_a_name_of_before_works_and_warns(module: str, name: str, now: str) -> None:
    place, _, attribute = now.partition(":")

    with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} ends with the next minor version"):
        found = getattr(import_module(module), name)

    assert found is getattr(import_module(place), attribute)


@pytest.mark.process
@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("volsched.framework.accounts.quotas", "room"),
        ("volsched.framework.accounts.elastic", "Elastic"),
        ("volsched.framework.accounts.quota_report", "Usage"),
        ("volsched.framework.leaving", "terminating_on"),
        ("volsched.model.pods.rules", "Toleration"),
        ("volsched.model.clocks", "ClusterEvent"),
    ],
)
def test_a_module_of_before_works_and_warns(place: str, name: str) -> None:
    program = f"import volsched.framework; from {place} import {name}; print({name}.__name__)"

    found = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.split() == [name]
    assert f"{place} ends with the next minor version" in found.stderr


def test_a_name_that_never_was_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'volsched\.framework\.rules' has no attribute 'Nothing'"):
        rules.Nothing  # type: ignore[attr-defined]  # noqa: B018 - asking is what fails
