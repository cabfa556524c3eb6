"""Asks the scheduler itself for an explanation, for users who may not list the cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import msgspec

from volsched.cli.inputs.sources import EXIT_CLUSTER, RefusedError
from volsched.cli.output import report
from volsched.diagnose.records import Explanation, Subject

EXIT_NOT_FOUND: Final = 4
_NOT_FOUND: Final = 404
_WAY_OUT: Final = (
    "have the ClusterRole volsched-explain-reader bound to you, or ask the scheduler: with its --metrics-auth, "
    "kubectl port-forward -n volsched-system deployment/volsched-scheduler 8080, then --ask https://localhost:8080"
)


def asked_of(scheduler: str, subject: Subject, refusal: RefusedError, flags: Mapping[str, Any]) -> Explanation:
    """Return the explanation of the scheduler at a URL; ends with a message if there is no URL, or it refuses too."""
    from volsched.kube.client import scheduler_page  # noqa: PLC0415 - half a second of imports, for those who need it
    from volsched.kube.client.credentials import Source  # noqa: PLC0415
    from volsched.kube.errors import ApiError, CredentialsError  # noqa: PLC0415

    if not scheduler:
        _give_up(f"{refusal.message}; {_WAY_OUT}")
    report(f"{refusal.message}; the scheduler at {scheduler} is asked", "note")
    source = Source(flags["kubeconfig"], flags["kube_context"], flags["master"])
    try:
        return msgspec.json.decode(
            scheduler_page.explanation(source, scheduler, msgspec.to_builtins(subject)), type=Explanation
        )
    except CredentialsError as error:
        _give_up(str(error))
    except msgspec.MsgspecError as error:
        _give_up(f"{scheduler} answers with something else than an explanation: {error}")
    except ApiError as error:
        _give_up(f"the scheduler: {error.message}", EXIT_NOT_FOUND if error.status == _NOT_FOUND else EXIT_CLUSTER)


def _give_up(message: str, status: int = EXIT_CLUSTER) -> NoReturn:
    report(message)
    sys.exit(status)
