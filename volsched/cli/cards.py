"""``volsched cards``: the accelerator cards of nodes, by the names in quotas and requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import click

from volsched.cli.inputs import in_force
from volsched.cli.inputs.flags import follow_flag, output_flag
from volsched.cli.inputs.look import KnownObjects, Looking, is_of_quotas, keeps_tables, kinds_of, look
from volsched.cli.inputs.sources import check_source, read_cluster, read_manifests, source_flags
from volsched.cli.output import Answer, print_answer, report
from volsched.cli.views.moves import show_moves
from volsched.cli.views.quotas import by_name, sections
from volsched.diagnose.cards import card_names_in
from volsched.framework.quota_report import STRANDED_CARDS, QuotaTable
from volsched.model import api
from volsched.model.cards.amounts import whole
from volsched.model.cards.inventory import CardInventory, card_inventory_of
from volsched.model.changes import Change, Put
from volsched.simulation.manifests import Inventory
from volsched.text_page import Part, section


@click.command()
@source_flags
@in_force.config_flags
@output_flag("table", "Tables for people, or all of it for programs.")
@follow_flag
@click.option("--stranded", is_flag=True, help="Show which free cards no pod can use now, by model and cause, alone.")
@click.option(
    "--suggest-moves",
    "number",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Show the fewest pods whose restart would free all cards of so many nodes; nothing is moved.",
)
def cards(
    paths: tuple[str, ...], output: str, *, follows: bool, stranded: bool, number: int | None, **flags: Any
) -> None:
    """Show which accelerator cards the nodes of a cluster offer, by the names that capacity-card knows them by: those
    are what to write into volcano.sh/card.quota, card.request and card.name.

    A card's name comes from a node's label <prefix>/<type>.product, beside which .count and .memory must stand, and
    its number from status.allocatable: whole cards, MPS shares (.../mps-<GB>g*1/<replicas>) and MIG slices
    (.../mig-<profile>-mixed), time slices (.../time-slicing*1/<replicas>). Cards without such a label have the names
    that the arguments cards and vendorLabels of capacity-card give them, by the configuration in force. Resources that
    look like cards and have no name, and labels that are incomplete, are named under WARNINGS.

    Where the plugin fragmentation is in force, STRANDED CARDS says how many free cards no pod can use now, of each
    model, and why: no CPU or memory is left for them, parts are too small, no waiting pod takes the model, or the free
    cards are scattered over nodes. --stranded shows that alone.

    --suggest-moves says which pods to restart so that so many nodes have all their cards free. Each answer was seen to
    work: sessions were run in memory with these nodes cordoned and these pods waiting, and all found another place.

    Other quotas that the scheduler's plugins keep are shown beside: devices, CPU pods on GPU nodes, shared cards. Of a
    cluster the right to list nodes is needed, and for these the others of the ClusterRole volsched-queue-reader.

    \b
    Examples:
      volsched cards
      volsched cards --context production -o json
      volsched cards -f manifests/nodes.yaml
      volsched cards --stranded -o json
      volsched cards --suggest-moves 2
      volsched cards --watch
      kubectl get nodes -o yaml | volsched cards -f - -o json | jq .total

    \b
    Exit status: 0 cards were looked for, whether there are any or not; 1 the API server did not answer or refused;
    2 a flag or the input is invalid.
    """  # noqa: D205, D301 - laid out for click, which reads the backspace as "do not wrap"
    check_source(paths, flags)
    in_force.check_flags(paths, flags)
    if number is not None:
        if follows:
            raise click.UsageError("--suggest-moves searches once, and --watch goes on; leave one of them out")
        show_moves(paths, flags, number, output)
        return
    if follows:
        _watch(paths, flags, output, stranded=stranded)
    inventory = read_manifests(paths) if paths else None
    found = _configuration(inventory, flags)
    nodes = inventory.of(api.Node) if inventory is not None else _nodes(flags)
    print_answer(_answer(nodes, found, _tables(inventory, found, flags), stranded=stranded), output)


def _watch(paths: Sequence[str], flags: dict[str, Any], output: str, *, stranded: bool) -> NoReturn:
    from volsched.cli import watching  # noqa: PLC0415 - half a second of imports, for those who follow a cluster

    watching.check(paths)
    found = _configuration(None, flags)
    has_tables = bool(found.origin) and keeps_tables(found)
    looking, known = Looking(found, _of_everybody(flags)), KnownObjects()

    def view(changes: Sequence[Change]) -> Answer:
        known.take(changes)
        tables: Sequence[QuotaTable] = ()
        if has_tables:
            looking.take(changes)
            tables = [table for table in looking.look().tables if is_of_quotas(table)]
        nodes = (each for each in known.all() if isinstance(each, api.Node))
        return _answer(nodes, found, tables, stranded=stranded)

    watching.watch(flags, kinds_of(found) if has_tables else ("Node",), view, output)


def _answer(
    nodes: Iterable[api.Node], found: in_force.InForce, tables: Sequence[QuotaTable], *, stranded: bool
) -> Answer:
    if stranded:
        return _stranded(tables)
    card_inventory = card_inventory_of(nodes, card_names_in(found.profile.configuration).name_of)
    return Answer(lambda: _page(card_inventory, tables), lambda: {**_result(card_inventory), **by_name(tables)})


def _stranded(tables: Sequence[QuotaTable]) -> Answer:
    """Return the table of stranded cards alone. Raises click.UsageError without the plugin that has it."""
    found = [table for table in tables if table.name == STRANDED_CARDS]
    if not found:
        raise click.UsageError(
            "which cards are stranded is told by the plugin fragmentation, and no configuration that is known has it; "
            "name one that has with --config"
        )
    return Answer(lambda: list(sections(found))[1:] or ["No node offers cards."], lambda: by_name(found))


def _nodes(flags: Mapping[str, Any]) -> Iterator[api.Node]:
    found = (change.object for change in read_cluster(flags, ["Node"]) if isinstance(change, Put))
    return (node for node in found if isinstance(node, api.Node))


def _configuration(inventory: Inventory | None, flags: Mapping[str, Any]) -> in_force.InForce:
    found = in_force.configuration(inventory, _of_everybody(flags), is_optional=True)
    if found.doubt and not found.is_absent:
        report(found.doubt, "warning")
    if found.refusal:
        report(f"{found.refusal}; the cards of nodes are shown alone", "note")
    return found


def _of_everybody(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {**flags, "scheduler_names": (), "default_queue": ""}


def _tables(inventory: Inventory | None, found: in_force.InForce, flags: Mapping[str, Any]) -> Sequence[QuotaTable]:
    """Return the quotas of other plugins; none without a configuration, or without such plugins in it."""
    if not found.origin or not keeps_tables(found):
        return ()
    return [table for table in look(inventory, found, _of_everybody(flags)).tables if is_of_quotas(table)]


def _result(card_inventory: CardInventory) -> dict[str, Any]:
    return {
        "nodes": {
            node: {card.name: whole(card.amount) for card in offered.cards}
            for node, offered in card_inventory.nodes.items()
        },
        "total": {card: whole(amount) for card, amount in card_inventory.totals.items()},
        "resourceNames": dict(card_inventory.resources),
        "warnings": [{"node": node, "message": message} for node, message in card_inventory.warnings],
    }


def _page(card_inventory: CardInventory, tables: Sequence[QuotaTable]) -> list[Part]:
    parts: list[Part] = [
        *section("Cards", _cards(card_inventory)),
        *section("Nodes", _offers(card_inventory)),
        *sections(tables),
        *section("Warnings", _warnings(card_inventory)),
    ]
    return parts[1:] if card_inventory.totals else ["No node offers cards.", *parts]


def _cards(card_inventory: CardInventory) -> Iterator[Sequence[str]]:
    yield "CARD", "TOTAL", "NODES", "RESOURCE"
    for card, amount in card_inventory.totals.items():
        nodes = sum(1 for offered in card_inventory.nodes.values() if offered.find(card))
        yield card, str(whole(amount)), str(nodes), card_inventory.resources[card]


def _offers(card_inventory: CardInventory) -> Iterator[Sequence[str]]:
    yield "NODE", "CARD", "CARDS", "RESOURCE"
    for node, offered in card_inventory.nodes.items():
        for card in offered.cards:
            yield node, card.name, str(whole(card.amount)), card.resource


def _warnings(card_inventory: CardInventory) -> Iterator[Sequence[str]]:
    yield "NODE", "WHAT IS WRONG"
    yield from card_inventory.warnings
