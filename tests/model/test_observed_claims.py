"""Claims as they are read from a cluster: what is left out, and how it comes back when a claim is allocated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model import api
from volsched.model.dra import api as dra
from volsched.model.dra import observed
from volsched.model.dra.devices import Devices
from volsched.model.errors import FieldError
from volsched.model.values import json_text

REQUESTS = [{"name": name, "exactly": {"deviceClassName": "c"}} for name in ("a", "b")]


def opaque(number: int, *requests: str) -> dict[str, Any]:
    return {"requests": [*requests], "opaque": {"driver": "d", "parameters": {"number": number}}}


def a_claim(*config: dict[str, Any], **devices: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "namespace": "ns", "uid": "u"},
        "spec": {"devices": {"requests": REQUESTS, "config": [*config], **devices}},
    }


def read(claim: dict[str, Any]) -> dra.ResourceClaim:
    text = msgspec.json.encode(claim)
    found = api.decode_text(observed.ResourceClaim, text)
    assert found == api.decode_as(observed.ResourceClaim, claim)  # by text, and by plain values
    return found


def spec_of(claim: dra.ResourceClaim) -> Any:
    devices = Devices()
    devices.put(claim)
    return devices.claims["ns/n"].spec


def test_parameters_are_left_out_and_what_they_are_for_is_kept() -> None:
    found = read(a_claim(opaque(1), opaque(2, "a")))
    assert b"number" not in msgspec.json.encode(found)
    assert [one.requests for one in spec_of(found).config] == [(), ("a",)]
    assert not spec_of(found).fault


def test_those_of_an_allocation_are_left_out_too() -> None:
    results = [{"request": "a", "driver": "d", "pool": "p", "device": "x"}]
    given = {"devices": {"results": results, "config": [{"source": "FromClaim", **opaque(1)}]}}
    found = read({**a_claim(), "status": {"allocation": given}})
    assert found.status.allocation is not None
    assert found.status.allocation.devices.config == ()
    assert found.status.allocation.devices.results[0].device == "x"


@pytest.mark.parametrize(
    ("claim", "fault"),
    [
        (a_claim(odd=1), "unknown field `odd`"),
        (a_claim(requests=[{"name": "a"}]), "exactly one of exactly and firstAvailable"),
        ({**a_claim(), "spec": {"devices": 5}}, "Expected `object`"),
    ],
)
def test_what_is_not_understood_is_a_fault_as_ever(claim: dict[str, Any], fault: str) -> None:
    assert fault in spec_of(read(claim)).fault


@pytest.mark.parametrize("levels", [json_text.MOST_LEVELS + 1, 1_500])
def test_parameters_that_are_nested_too_deep_are_a_fault(levels: int) -> None:
    text = msgspec.json.encode(a_claim(opaque(7))).replace(b'{"number":7}', b'{"a":' * levels + b"1" + b"}" * levels)
    found = json_text.decode(text, observed.ResourceClaim)
    assert "nested deeper than 64 levels" in spec_of(found).fault


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), st.integers(1, 9))
def test_how_deep_a_text_is_nested_is_told_whatever_its_strings_hold(value: Any, levels: int) -> None:
    def depth(found: Any) -> int:
        inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else None
        return 0 if inside is None else 1 + max(map(depth, inside), default=0)

    assert json_text.is_deeper(msgspec.json.encode(value), levels) == (depth(value) > levels)


def test_a_template_has_neither_parameters_nor_the_metadata_of_its_claims() -> None:
    spec = {"metadata": {"annotations": {"a": "x" * 100}}, "spec": a_claim(opaque(1))["spec"]}
    found = api.decode_as(observed.ResourceClaimTemplate, {"metadata": {"name": "t", "namespace": "ns"}, "spec": spec})
    text = msgspec.json.encode(found)
    assert b"number" not in text
    assert b"xxx" not in text
    devices = Devices()
    devices.put(found)
    assert len(devices.templates["ns/t"].config) == 1


# --- when a claim is allocated ---------------------------------------------------------------------------------------


def an_allocation(*config: dra.AllocatedConfiguration) -> dra.Allocation:
    results = tuple(dra.DeviceResult(name, "d", "p", name) for name in ("a", "b"))
    return dra.Allocation(dra.DevicesAllocated(results, config))


def of_claim(*requests: str) -> dra.AllocatedConfiguration:
    return dra.AllocatedConfiguration("FromClaim", requests)


def test_they_come_back_in_order_those_of_classes_untouched() -> None:
    of_class = dra.AllocatedConfiguration("FromClass", ("a",), {"driver": "class"})
    allocation = an_allocation(of_class, of_claim(), of_claim("a"), of_claim("a"))
    assert observed.needs_parameters(allocation)
    claim = msgspec.json.encode(a_claim(opaque(1), opaque(9, "elsewhere"), opaque(2, "a"), opaque(3, "a")))
    filled = observed.with_parameters(allocation, claim)
    assert not observed.needs_parameters(filled)
    given = msgspec.json.decode(msgspec.json.encode(filled))["devices"]["config"]
    assert [one["opaque"] for one in given] == [{"driver": "class"}, *(opaque(n)["opaque"] for n in (1, 2, 3))]


def test_an_allocation_without_any_needs_none() -> None:
    assert not observed.needs_parameters(an_allocation())


@pytest.mark.parametrize("claim", [b"{", b'{"spec": 5}', msgspec.json.encode(a_claim(opaque(1)))])
def test_a_claim_that_has_others_by_now_is_an_error(claim: bytes) -> None:
    with pytest.raises(FieldError, match=r"spec\.devices\.config"):
        observed.with_parameters(an_allocation(of_claim("a")), claim)
