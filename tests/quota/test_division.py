"""The division of what there is over a tree of queues: against a naive reference, and with hostile numbers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.quota.division import Claim, Vessel, divide, fill, limits_in, summed
from volsched.quota.tree import Tree

NAMES = tuple("abcdefgh")
CPU = "cpu"


def naive_level(amount: float, vessels: list[Vessel]) -> float:
    """The level by bisection."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if sum(naive_part(vessel, middle) for vessel in vessels) <= amount:
            low = middle
        else:
            high = middle
    return low


def naive_part(vessel: Vessel, level: float) -> float:
    return min(max(float(vessel.least), vessel.weight * level), float(vessel.most))


def naive(stated: Mapping[str, str], claims: Mapping[str, Claim], total: float) -> dict[str, float]:
    """What every queue deserves of the cpu, by the words of the rule, recursively."""

    def below(name: str) -> list[str]:
        return [child for child, above in stated.items() if above == name]

    def capped(name: str, amount: int) -> int:
        return min(amount, claims[name].capability.get(CPU, amount))

    def asks(name: str) -> int:
        return capped(name, claims[name].request.get(CPU, 0) + sum(map(asks, below(name))))

    def kept(name: str) -> int:
        return capped(name, max(claims[name].guarantee.get(CPU, 0), sum(map(kept, below(name)))))

    found = {"root": total}

    def pour(name: str) -> None:
        children = below(name)
        vessels = [Vessel(max(0, claims[c].weight), kept(c), max(kept(c), asks(c))) for c in children]
        level = naive_level(found[name], vessels)
        for child, vessel in zip(children, vessels, strict=True):
            found[child] = naive_part(vessel, level)
            pour(child)

    pour("root")
    return found


amounts = st.integers(0, 30).map(lambda amount: {CPU: amount} if amount else {})
claims = st.builds(
    Claim, st.integers(-1, 4), amounts, st.one_of(st.just({}), st.just({}), amounts), st.one_of(st.just({}), amounts)
)


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, Claim]]:
    """Queues each of which is below the root or one that was drawn before it."""
    stated: dict[str, str] = {}
    for name in NAMES[: draw(st.integers(1, len(NAMES)))]:
        stated[name] = draw(st.sampled_from(["root", *stated]))
    return stated, {name: draw(claims) for name in stated}


@given(trees(), st.integers(0, 100))
def test_every_queue_deserves_what_the_rule_says(drawn: tuple[dict[str, str], dict[str, Claim]], total: int) -> None:
    stated, own = drawn
    tree = Tree(stated)

    found = divide(tree, summed(tree, own), {CPU: total})

    for name, amount in naive(stated, own, total).items():
        assert float(found[name].get(CPU, 0)) == pytest.approx(amount, abs=1e-6), name


@given(trees(), st.integers(0, 100))
def test_nothing_is_given_twice_nor_beyond_a_capability(
    drawn: tuple[dict[str, str], dict[str, Claim]], total: int
) -> None:
    stated, own = drawn
    tree = Tree(stated)
    together = summed(tree, own)
    found, most = divide(tree, together, {CPU: total}), limits_in(tree, together, {CPU: total})

    for name in tree.top_down():
        parts = sum(found[child].get(CPU, Fraction(0)) for child in tree.below(name))
        kept = sum(together[child].guarantee.get(CPU, 0) for child in tree.below(name))
        assert parts <= max(found[name].get(CPU, 0), kept)
        if name != "root":
            limit = own[name].capability.get(CPU)
            assert limit is None or max(found[name].get(CPU, 0), most[name].get(CPU, 0)) <= limit


def test_each_resource_is_divided_by_itself() -> None:
    tree = Tree({"a": "", "b": ""})
    own = {"a": Claim(1, {CPU: 10, "gpu": 1}, {}, {}), "b": Claim(1, {CPU: 10, "gpu": 9}, {}, {})}

    found = divide(tree, summed(tree, own), {CPU: 5, "gpu": 8, "memory": 3})

    assert (found["a"], found["b"]) == ({CPU: Fraction(5, 2), "gpu": 1}, {CPU: Fraction(5, 2), "gpu": 7})


def test_the_capability_of_the_root_limits_all_together() -> None:
    tree = Tree({"a": "", "b": "", "root": ""})
    own = {name: Claim(1, {CPU: 10}, {}, {CPU: 4} if name == "root" else {}) for name in ("a", "b", "root")}
    together = summed(tree, own)

    assert divide(tree, together, {CPU: 12})["a"] == {CPU: 2}
    assert limits_in(tree, together, {CPU: 12})["a"] == {CPU: 4}


def test_more_guaranteed_than_there_is_gives_to_each_what_it_is_guaranteed() -> None:
    assert fill(Fraction(3), [Vessel(1, 2, 9), Vessel(5, 4, 9)]) == [2, 4]


def test_a_queue_of_no_weight_gets_what_it_is_guaranteed() -> None:
    tree = Tree({"a": "", "b": ""})
    own = {"a": Claim(0, {CPU: 9}, {CPU: 2}, {}), "b": Claim(-(10**9), {CPU: 9}, {}, {})}

    assert divide(tree, summed(tree, own), {CPU: 20}) == {"root": {CPU: 20}, "a": {CPU: 2}, "b": {}}


def test_huge_weights_and_amounts_are_divided_exactly() -> None:
    heavy = 2**31 - 1
    tree = Tree({"a": "", "b": ""})
    own = {"a": Claim(heavy, {CPU: 10**30}, {}, {}), "b": Claim(1, {CPU: 10**30}, {}, {})}

    found = divide(tree, summed(tree, own), {CPU: 10**18})

    assert found["b"][CPU] == Fraction(10**18, heavy + 1)
    assert found["a"][CPU] + found["b"][CPU] == 10**18


def test_a_chain_of_a_thousand_queues_is_divided() -> None:
    chain = {f"q{n}": f"q{n - 1}" if n else "" for n in range(1000)}
    siblings = {f"s{n}": f"q{n}" for n in range(1000)}
    tree = Tree({**chain, **siblings})
    own = {name: Claim(1, {CPU: 10}, {}, {}) for name in siblings}

    found = divide(tree, summed(tree, own), {CPU: 1000})

    assert len(tree.levels("q999")) == 1001
    assert sum(found[name].get(CPU, 0) for name in siblings) == 1000
