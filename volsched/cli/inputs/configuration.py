"""The configuration of a verb on manifests: the named one, else the manifests' own, else the built-in."""

from __future__ import annotations

from typing import Final

from volsched import registry
from volsched.cli.output import messages_of, refuse, report
from volsched.framework.config.loading import DEFAULT_CONFIGURATION
from volsched.model.errors import ConfigError
from volsched.scheduler import Profile
from volsched.simulation.documents import InputError, read_text
from volsched.simulation.manifests import Inventory

_BUILT_IN: Final = "the built-in configuration"

BUILT_IN_COUNTS: Final = f"without that, {_BUILT_IN} counts"
"""The message where the manifests' own configuration is refused."""


def profile_of(config: str | None, inventory: Inventory) -> Profile:
    """Return the configuration that counts, with its actions and plugins made.

    Ends when a named one cannot be used, and when several could be meant. Where that of the manifests cannot, a warning
    states why, and the built-in one counts: a dump of a cluster may have the configuration of another scheduler.
    """
    if config is not None:
        return _named(config)
    check_rivals(inventory)
    try:
        text, source = inventory.chosen_configuration(), inventory.configuration_source
        return _profile(text, source) if text is not None else _profile(DEFAULT_CONFIGURATION, _BUILT_IN)
    except (InputError, ConfigError) as error:
        fault = first_fault(error, inventory.configuration_source)
        report(f"{fault}; --config FILE names another; {BUILT_IN_COUNTS}", "warning")
        return _profile(DEFAULT_CONFIGURATION, _BUILT_IN)


def check_rivals(inventory: Inventory) -> None:
    """End when several configurations among manifests could be meant."""
    if inventory.rivals:
        refuse(InputError(inventory.rivals))


def first_fault(error: InputError | ConfigError, source: str) -> str:
    """Return the first fault of a configuration, with where it stands."""
    return next(iter(messages_of(error, source)))


def _named(path: str) -> Profile:
    try:
        return _profile(read_text(path), path)
    except (InputError, ConfigError) as error:
        refuse(error, path)


def _profile(text: str, source: str) -> Profile:
    """Return a configuration with its actions and plugins made, after the warnings about it."""
    profile, warnings = registry.load_profile(text)
    for warning in warnings:
        report(f"{source}: {warning}", "warning")
    return profile
