"""What is wrong with requests for shared cards, on every kind of object that has pods."""

from __future__ import annotations

from plugins.mgpu.devices import NATIVE_BURST_SHARE, POLICIES, POLICY
from plugins.mgpu.requests import MULTIPLE, PodRequest, long_names, read
from volsched.model.pods.rule_reading import container_amounts
from volsched.plugin.objects import Fault, Faults, Surroundings, api, pods_in, warning


def validate(found: api.ApiObject, _: Surroundings) -> Faults:
    """Yield the rules that the pods of an object break; see ``framework.validation.Validator``.

    Of each container only the first is told. Pods that name neither core nor memory break none.
    """
    for pod in pods_in(found):
        containers = container_amounts(pod.spec)
        names = [container.name for container in pod.spec.containers]
        request = read(containers, pod.metadata.annotations)
        faults = [*request.faults, *long_names(containers, names)]
        yield from pod.under(Fault(fault.field, fault.code, fault.text(names)) for fault in faults)
        yield from pod.under(_never_placed(request))


def _never_placed(request: PodRequest) -> Faults:
    """Warn of a list of cards without the policy that every node refuses it without."""
    if request.is_multi and request.policy in POLICIES and request.policy != NATIVE_BURST_SHARE:
        yield warning(
            f"metadata.annotations[{POLICY}]",
            "MGPU306",
            f"is {request.policy}, and a pod with {MULTIPLE} can never be placed without {NATIVE_BURST_SHARE}: say "
            f"{NATIVE_BURST_SHARE} here and use nodes that have it, or take the list of cards away",
        )
