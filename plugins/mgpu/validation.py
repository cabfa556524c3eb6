"""What is wrong with requests for shared cards, on every kind of object that has pods."""

from __future__ import annotations

from plugins.mgpu.requests import long_names, read
from volsched.framework.validation import Fault, Faults, Surroundings, pods_in
from volsched.model import api
from volsched.model.template import container_amounts


def validate(found: api.ApiObject, _: Surroundings) -> Faults:
    """Yield the rules that the pods of an object break; see ``framework.validation.Validator``.

    Of each container only the first is told. Pods that name neither core nor memory break none.
    """
    for pod in pods_in(found):
        containers = container_amounts(pod.spec)
        names = [container.name for container in pod.spec.containers]
        faults = [*read(containers, pod.metadata.annotations).faults, *long_names(containers, names)]
        yield from pod.under(Fault(fault.field, fault.code, fault.said(names)) for fault in faults)
