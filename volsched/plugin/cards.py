"""Names for plugins about accelerator cards, beside those of ``volsched.plugin``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from volsched.plugin import _on_first_use

if TYPE_CHECKING:
    from volsched.framework.accounts.card_lists import CARD_LISTS as CARD_LISTS
    from volsched.framework.accounts.card_lists import CardList as CardList
    from volsched.framework.accounts.card_lists import CardLists as CardLists
    from volsched.framework.accounts.card_parts import CARD_PARTS as CARD_PARTS
    from volsched.framework.accounts.card_parts import WHOLE as WHOLE
    from volsched.framework.accounts.card_parts import CardParts as CardParts
    from volsched.framework.accounts.card_parts import PartRequest as PartRequest
    from volsched.model.cards.amounts import MILLI as MILLI
    from volsched.model.cards.amounts import at as at
    from volsched.model.cards.amounts import entries as entries
    from volsched.model.cards.amounts import is_plain as is_plain
    from volsched.model.cards.amounts import joined as joined
    from volsched.model.cards.amounts import names_in as names_in
    from volsched.model.cards.amounts import whole as whole
    from volsched.model.cards.amounts import whole_up as whole_up
    from volsched.model.cards.inventory import CardInventory as CardInventory
    from volsched.model.cards.inventory import card_inventory_of as card_inventory_of
    from volsched.model.cards.names import CARD_QUOTA as CARD_QUOTA
    from volsched.model.cards.names import MGPU_CORE as MGPU_CORE
    from volsched.model.cards.names import MGPU_MEMORY as MGPU_MEMORY
    from volsched.model.cards.names import MGPU_NODE_TYPE as MGPU_NODE_TYPE
    from volsched.model.cards.names import MGPU_POLICY as MGPU_POLICY
    from volsched.model.cards.names import SHARED_AMOUNTS as SHARED_AMOUNTS
    from volsched.model.cards.names import CardNameFn as CardNameFn
    from volsched.model.cards.names import resource_by_name as resource_by_name
    from volsched.model.cards.naming import BY_VENDORS as BY_VENDORS
    from volsched.model.cards.naming import UNMAPPED as UNMAPPED
    from volsched.model.cards.naming import CardMapping as CardMapping
    from volsched.model.cards.naming import MappedCard as MappedCard
    from volsched.model.cards.node_cards import NO_CARDS as NO_CARDS
    from volsched.model.cards.node_cards import SUFFIXES as SUFFIXES
    from volsched.model.cards.node_cards import CardOffer as CardOffer
    from volsched.model.cards.node_cards import NodeCardResources as NodeCardResources
    from volsched.model.cards.node_cards import cards_of as cards_of
    from volsched.model.cards.node_cards import idle_of as idle_of
    from volsched.model.cards.vendors import CardLabel as CardLabel
else:
    __getattr__, __dir__ = _on_first_use(
        __name__,
        {
            "CardOffers": ("volsched.model.cards.node_cards:NodeCardResources", "it is NodeCardResources"),
            "Stock": ("volsched.model.cards.inventory:CardInventory", "it is CardInventory"),
            "stock_of": ("volsched.model.cards.inventory:card_inventory_of", "it is card_inventory_of"),
        },
    )
