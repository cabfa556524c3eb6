"""Arguments of one plugin that stand under another, as Volcano's configurations have them.

Volcano switches devices on inside its plugin ``predicates``; here they are plugins of their own. Where such a *guest*
is not listed and its *host* has arguments of it, it runs right behind the host, under the host's switches. Where it is
listed, the host's arguments count where the guest's own are silent. A guest that comes *along* runs with the host even
without arguments.
"""

from __future__ import annotations

from dataclasses import replace

from volsched.framework.config.arguments import Schema
from volsched.framework.config.configuration import Configuration, PluginOption


def settle(
    configuration: Configuration, guest: str, host: str, schema: Schema, *, along: bool = False
) -> Configuration:
    """Move the guest's arguments from the host to where they belong; ``schema`` is the guest's."""
    options = {option.name: option for tier in configuration.tiers for option in tier}
    if host not in options:
        return configuration
    keys = {argument.key for argument in schema}
    lent = {key: options[host].arguments[key] for key in options[host].given & keys}
    settled: list[tuple[PluginOption, ...]] = []
    for tier in configuration.tiers:
        members: list[PluginOption] = []
        for option in tier:
            if option.name == host:
                members.append(_without(option, keys))
                if (lent or along) and guest not in options:
                    defaults = {argument.key: argument.default for argument in schema}
                    members.append(PluginOption(guest, option.switches, {**defaults, **lent}, frozenset(lent)))
            elif option.name == guest:
                own = {key: option.arguments[key] for key in option.given}
                values = {**option.arguments, **lent, **own}
                members.append(replace(option, arguments=values, given=option.given | lent.keys()))
            else:
                members.append(option)
        settled.append(tuple(members))
    return replace(configuration, tiers=tuple(settled))


def _without(option: PluginOption, keys: set[str]) -> PluginOption:
    arguments = {key: value for key, value in option.arguments.items() if key not in keys}
    return replace(option, arguments=arguments, given=option.given - keys)
