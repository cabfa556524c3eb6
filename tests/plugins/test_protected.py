"""A pod that a plugin protects stays, whatever other plugin is beside it; else it goes."""

from __future__ import annotations

import pytest

from plugins import BUILDERS
from tests.actions.evictions import World
from tests.framework.test_protected import Keeper, on_a_rig
from tests.plugins.test_engine_contract import configuration


@pytest.mark.parametrize("plugin", BUILDERS)
@pytest.mark.parametrize("names", [(), ("v-1",), ("v-0", "v-1")])
def test_beside_every_plugin_it_is_obeyed(plugin: str, names: tuple[str, ...]) -> None:
    world = World()
    world.node("n1", cpu=2, memory="8Gi").queue("default", capability={"cpu": "2", "memory": "8Gi"})
    world.runs("v", 2, cpu=1, memory="1Gi").wants("x", cpu=1, memory="1Gi")
    rig = on_a_rig(world, configuration(plugin), Keeper(*names))

    gone = rig.cycle().evictions

    assert len(gone) == (len(names) < 2)
    assert not set(gone) & set(names)
