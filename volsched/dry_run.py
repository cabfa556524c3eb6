"""Lets the plugins of a configuration register once over an empty cluster, to check them and read their reports.

A callback that cannot be called refuses the configuration. Otherwise every session would fail over it. Other failures
of a plugin are about its cluster or its session, and are reported there (``plugin_errors``).
"""

from __future__ import annotations

from collections.abc import Sequence

from volsched.framework.engine.fast import FastEngine
from volsched.framework.plugin import Plugin
from volsched.framework.registration import Accounts, Registrar
from volsched.framework.reports import Report
from volsched.framework.session import Session
from volsched.framework.signature import SignatureError
from volsched.model.cluster import Cluster
from volsched.model.errors import ConfigError
from volsched.scheduler import Profile


def dry_run(profile: Profile) -> Sequence[Report]:
    """Let every plugin register, and return what they report; ConfigError over a wrong signature.

    The profile is not to be used afterwards.
    """
    cluster = Cluster()
    session = Session(cluster, profile.configuration, FastEngine(cluster), Accounts(cluster), lambda _: None)
    for number, tier in enumerate(profile.plugins):
        for option, plugin in tier:
            error = _wrong_signature(plugin, Registrar(session, number, option))
            if error is not None:
                raise ConfigError("", str(error)) from error
    return [report for _, report in session.rules.of[Report]]


def _wrong_signature(plugin: Plugin, registrar: Registrar) -> SignatureError | None:
    try:
        plugin.on_session_open(registrar)
    except SignatureError as error:
        return error
    except Exception:  # a plugin may fail with anything; that is told when a session fails with it
        return None
    return None
