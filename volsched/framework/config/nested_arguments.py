"""Arguments of one plugin that stand under another, as Volcano's configurations have them.

Volcano switches devices on inside its plugin ``predicates``; here they are plugins of their own. Where such an *inner*
plugin is not listed and the *outer* one has arguments of it, it runs right behind the outer one, under its switches.
Where it is listed, the outer plugin's arguments count where it has none of its own. An inner plugin that comes *along*
runs with the outer one even without arguments.
"""

from __future__ import annotations

from dataclasses import replace

from volsched.framework.config.arguments import Schema
from volsched.framework.config.configuration import Configuration, PluginOption


def settle(
    configuration: Configuration, inner: str, outer: str, schema: Schema, *, along: bool = False
) -> Configuration:
    """Move the inner plugin's arguments to where they belong. ``schema`` is the inner one's."""
    options = {option.name: option for tier in configuration.tiers for option in tier}
    if outer not in options:
        return configuration
    keys = {argument.key for argument in schema}
    lent = {key: options[outer].arguments[key] for key in options[outer].given & keys}
    settled: list[tuple[PluginOption, ...]] = []
    for tier in configuration.tiers:
        members: list[PluginOption] = []
        for option in tier:
            if option.name == outer:
                members.append(_without(option, keys))
                if (lent or along) and inner not in options:
                    defaults = {argument.key: argument.default for argument in schema}
                    members.append(PluginOption(inner, option.switches, {**defaults, **lent}, frozenset(lent)))
            elif option.name == inner:
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
