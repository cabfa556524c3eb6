"""Which configuration a verb on manifests uses: the one that is named, else the manifests' own, else the built-in."""

from __future__ import annotations

from volsched import registry
from volsched.cli.output import refuse, report
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model.errors import ConfigError
from volsched.scheduler import Profile
from volsched.simulation.documents import InputError, read_text
from volsched.simulation.manifests import Inventory


def profile_of(config: str | None, inventory: Inventory) -> Profile:
    """Return the configuration that counts, with its actions and plugins made; ends when it cannot be used."""
    text, source = DEFAULT_CONFIGURATION, "the built-in configuration"
    try:
        if config is not None:
            text, source = read_text(config), config
        elif (chosen := inventory.chosen_configuration()) is not None:
            text, source = chosen, inventory.configuration_source
        profile, warnings = registry.load_profile(text)
    except (InputError, ConfigError) as error:
        refuse(error, source)
    for warning in warnings:
        report(f"{source}: {warning}", "warning")
    return profile
