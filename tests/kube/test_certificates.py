"""Certificates of the webhooks: what is made, when it is made anew, and whom the API server trusts meanwhile."""

from __future__ import annotations

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from volsched.kube.serve.certificates import Pair, bundle_with, ends_of, name_problem, trusts

NAMES = ("volsched-webhooks.volsched-system.svc", "127.0.0.1")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
YEAR, QUARTER = timedelta(days=365), timedelta(days=90)


def a_pair(begin: datetime = NOW, names: tuple[str, ...] = NAMES) -> Pair:
    return Pair.made(names, begin, YEAR)


def test_a_certificate_is_for_its_names_and_signs_nothing() -> None:
    pair = a_pair()
    leaf, authority = (x509.load_pem_x509_certificate(part) for part in (pair.certificate, pair.authority))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value

    assert [str(name.value) for name in names] == list(NAMES)
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert ends_of(pair.certificate) == NOW + YEAR
    key = load_pem_private_key(pair.key, None)
    assert key.public_key() == leaf.public_key() != authority.public_key()


def test_it_survives_a_secret() -> None:
    pair = a_pair()

    assert Pair.from_secret(pair.as_data()) == pair


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (timedelta(0), ""),
        (YEAR - QUARTER - timedelta(seconds=1), ""),
        (YEAR - QUARTER, "it ends at 2027-01-31T12:00:00Z"),
        (YEAR * 2, "it ends at 2027-01-31T12:00:00Z"),
    ],
)
def test_it_is_made_anew_in_time(later: timedelta, said: str) -> None:
    assert a_pair().problem(NAMES, NOW + later, QUARTER) == said


def test_it_is_made_anew_for_another_name_and_when_parts_do_not_belong_together() -> None:
    one, other = a_pair(), a_pair()

    assert one.problem((*NAMES, "example.com"), NOW, QUARTER) == "it is not for example.com"
    mixed = Pair(one.authority, one.certificate, other.key)
    assert mixed.problem(NAMES, NOW, QUARTER) == "its key belongs to another certificate"
    foreign = Pair(other.authority, one.certificate, one.key)
    assert foreign.problem(NAMES, NOW, QUARTER).startswith("it cannot be used")


def test_the_authority_before_is_trusted_until_the_next_one_comes() -> None:
    first, second, third = (a_pair(NOW + timedelta(days=number)) for number in range(3))

    bundle = bundle_with(second.authority, first.authority, NOW)
    assert trusts(bundle, first.authority)
    assert trusts(bundle, second.authority)
    next_one = bundle_with(third.authority, bundle, NOW)
    assert not trusts(next_one, first.authority)
    assert trusts(next_one, second.authority)
    assert bundle_with(second.authority, first.authority, NOW + 2 * YEAR) == second.authority


def test_python_takes_what_is_made(tmp_path: object) -> None:
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=bundle_with(a_pair().authority, a_pair().authority, NOW).decode())

    assert context.cert_store_stats()["x509_ca"] >= 2


secrets = st.dictionaries(
    st.sampled_from(["ca.crt", "tls.crt", "tls.key"]),
    st.text(max_size=20) | st.binary(max_size=20).map(lambda part: base64.b64encode(part).decode()),
)


@given(secrets)
def test_whatever_is_in_a_secret_is_judged(data: dict[str, str]) -> None:
    pair = Pair.from_secret(data)

    assert pair is None or pair.problem(NAMES, NOW, QUARTER)


@given(st.binary(max_size=40))
def test_whatever_is_in_a_bundle_is_left_out_of_the_next(known: bytes) -> None:
    authority = a_pair().authority

    assert bundle_with(authority, known, NOW) == authority


@pytest.mark.parametrize("name", ["", "ä.example"])
def test_names_that_no_certificate_can_have_are_said(name: str) -> None:
    assert name_problem(name)
