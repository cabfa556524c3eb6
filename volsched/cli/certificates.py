"""`volsched certificates`: for clusters without cert-manager."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from volsched.cli.inputs.flags import SETTINGS, Duration, connection_flags
from volsched.cli.output import report
from volsched.cli.printing import say

EXIT_CLUSTER: Final = 1
"""The API server did not answer, or refused."""


@click.command(context_settings=SETTINGS)
@click.option("--service", default="volsched-webhooks", metavar="NAME", help="The Service of the webhooks.")
@click.option(
    "--namespace",
    default="",
    metavar="NAMESPACE",
    show_default="the pod's own, else volsched-system",
    help="The namespace of the Service and of the Secret.",
)
@click.option("--secret", default="volsched-webhooks", metavar="NAME", help="The Secret that gets the certificate.")
@click.option(
    "--webhook-configuration",
    default="volsched-webhooks",
    metavar="NAME",
    help="The ValidatingWebhookConfiguration whose webhooks have to trust it.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    show_default="none",
    metavar="NAME",
    help="Another DNS name or IP address that it is for; may be repeated.",
)
@click.option("--valid-for", type=Duration(), default="8760h", help="How long a new certificate is valid.")
@click.option(
    "--renew-before",
    type=Duration(),
    default="2160h",
    help="Make a new one when the old one is valid no longer than this.",
)
@connection_flags
def certificates(**flags: Any) -> None:
    """Make the certificate of the webhooks, or renew it in time, and have the API server trust it.

    It changes nothing while the certificate is good, so it may run as often as you like.

    \b
    Exit status: 0 all is as it should be; 1 the API server did not answer or refused; 2 a flag is wrong.
    """  # noqa: D301 - click reads the backspace as "do not wrap"
    if not 0 <= flags["renew_before"] < flags["valid_for"]:
        raise click.UsageError("--renew-before must be shorter than --valid-for, or every run would make a new one")
    import asyncio  # noqa: PLC0415 - `volsched --help` needs none of this
    from datetime import timedelta  # noqa: PLC0415

    from volsched.kube.client.credentials import Source, namespace_of_service_account  # noqa: PLC0415
    from volsched.kube.errors import ApiError, CredentialsError  # noqa: PLC0415
    from volsched.kube.serve.certificates import name_problem  # noqa: PLC0415
    from volsched.operator.webhooks.certificates import CertificateTarget, ensure  # noqa: PLC0415

    for host in flags["hosts"]:
        if name_problem(host):
            raise click.UsageError(f"--host: {name_problem(host)}")
    wanted = CertificateTarget(
        namespace=flags["namespace"] or namespace_of_service_account() or "volsched-system",
        service=flags["service"],
        secret=flags["secret"],
        configuration=flags["webhook_configuration"],
        hosts=flags["hosts"],
        valid_for=timedelta(seconds=flags["valid_for"]),
        renew_before=timedelta(seconds=flags["renew_before"]),
        source=Source(flags["kubeconfig"], flags["kube_context"], flags["master"]),
    )
    try:
        done = asyncio.run(ensure(wanted))
    except (CredentialsError, ApiError) as error:
        report(str(error))
        sys.exit(EXIT_CLUSTER)
    say(*(done or ["nothing to do: the certificate is good and trusted"]))
