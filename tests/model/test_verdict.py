import pytest
from hypothesis import given
from hypothesis import strategies as st

from volsched.model.errors import ConfigError, FieldError, ObjectError, QuantityError, VolschedError, shortened
from volsched.model.verdict import NodeRefusals, Scope, Shortfall, Step, Verdict, truncated


def refusals(**counts: int) -> NodeRefusals:
    return NodeRefusals({name.replace("_", " "): count for name, count in counts.items()})


def test_the_sentence_is_that_of_kube_scheduler() -> None:
    found = NodeRefusals()
    found.add("Insufficient cpu", 3)
    found.add("node(s) had untolerated taint {k: v}")
    found.add("node(s) had untolerated taint {k: v}")

    assert found.text(5) == ("0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint {k: v}.")


def test_without_reasons_only_the_count_is_told() -> None:
    assert NodeRefusals().text(0) == "0/0 nodes are available."
    assert not NodeRefusals()


def test_the_three_commonest_come_first_and_the_others_by_text() -> None:
    found = refusals(a=1, b=9, c=2, d=7, e=3, f=9)

    assert found.text(9) == "0/9 nodes are available: 9 b, 9 f, 7 d, 1 a, 2 c, 3 e."


def test_a_node_counts_once_for_each_of_its_reasons() -> None:
    found = NodeRefusals()
    found.add_all(["Insufficient cpu", "Insufficient cpu", "Insufficient memory"])

    assert found.counts == {"Insufficient cpu": 1, "Insufficient memory": 1}


def test_reasons_that_do_not_fit_are_counted() -> None:
    found = NodeRefusals({f"{'x' * 90} {number:02}": 1 for number in range(20)})

    text = found.text(20)

    assert text.endswith(", and 11 more reasons.")
    assert len(text.encode()) < 1000


def test_one_reason_left_over_is_singular() -> None:
    found = NodeRefusals({"a" * 490: 2, "b" * 490: 1})

    assert found.text(2).endswith(f"{'a' * 490}, and 1 more reason.")


def test_a_single_endless_reason_is_cut_between_characters() -> None:
    text = NodeRefusals({"é" * 2000: 1, "b": 1}).text(3)

    assert text.startswith("0/3 nodes are available: 1 b, and 1 more reason")
    only = NodeRefusals({"é" * 2000: 1}).text(3)
    assert only.endswith("é….")
    assert len(only.encode()) < 1000


@given(st.dictionaries(st.text(max_size=400), st.integers(min_value=1, max_value=9), max_size=12))
def test_the_sentence_always_fits_into_an_event(counts: dict[str, int]) -> None:
    assert len(NodeRefusals(counts).text(10).encode(errors="replace")) < 1000


@given(st.text(), st.text(max_size=5), st.integers(min_value=40, max_value=100))
def test_what_is_cut_is_shorter_than_its_limit(text: str, tail: str, limit: int) -> None:
    cut = truncated(text, tail, limit)

    assert len(cut.encode(errors="replace")) < limit
    assert cut == text + tail or cut.endswith("…" + tail)


def test_a_shortfall_tells_its_total_and_its_quantities() -> None:
    short = Shortfall("cpu", requested=1500, used=1000, limit=2000)

    assert short.total == 2500
    assert short.human() == {"resource": "cpu", "requested": "1500m", "used": "1", "limit": "2"}


def test_verdicts_are_values() -> None:
    one = Verdict(Step.PREDICATE, "predicates", Scope.NODE, "TaintToleration", "node(s) had untolerated taint")

    assert one == Verdict(Step.PREDICATE, "predicates", Scope.NODE, "TaintToleration", "node(s) had untolerated taint")
    assert hash(one) == hash(one)
    assert (str(one.step), str(one.scope), one.resolvable, one.shortfalls) == ("predicate", "node", True, ())


def test_a_long_message_is_cut_for_events() -> None:
    assert len(Verdict(Step.GANG, "gang", Scope.JOB, "NotReady", "ü" * 900).short_message().encode()) < 1000


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("tiers[0].plugins[1].name", "unknown plugin"), "tiers[0].plugins[1].name: unknown plugin"),
        (ConfigError("", "empty"), "empty"),
        (ObjectError("Pod", "ns/p", "$.spec", "wrong"), "Pod/ns/p: $.spec: wrong"),
        (ObjectError("Pod", "", "", "wrong"), "Pod: wrong"),
        (FieldError("spec.x", "bad"), "spec.x: bad"),
        (FieldError("", "bad"), "bad"),
        (QuantityError("1x"), "'1x' is not a quantity"),
    ],
)
def test_errors_say_where_and_what(error: VolschedError, text: str) -> None:
    assert str(error) == text


def test_field_errors_are_values_that_hold_no_frames() -> None:
    with pytest.raises(FieldError) as caught:
        raise FieldError("spec", "bad")

    kept = caught.value.detached()

    assert kept == caught.value
    assert hash(kept) == hash(caught.value)
    assert kept.__traceback__ is None
    assert kept != FieldError("spec", "other")
    assert kept != "spec"


def test_long_texts_are_shortened() -> None:
    assert shortened("abc") == "abc"
    assert shortened("a" * 100, 10) == "a" * 9 + "…"


def test_as_many_reasons_as_fit_are_told() -> None:
    found = NodeRefusals({f"r{number:04}": 1 for number in range(5000)})

    text = found.text(5000)

    assert 980 < len(text.encode()) < 1000
    assert text.endswith(f", and {5000 - text.count('1 r')} more reasons.")


def test_the_plugin_that_refuses_the_most_nodes_is_named_and_the_first_among_equals() -> None:
    found = NodeRefusals()
    assert found.plugin == "predicates"
    for number, plugin in enumerate(("mgpu", "crossquota", "mgpu")):
        found.add_verdict(Verdict(Step.PREDICATE, plugin, Scope.NODE, "Full", f"{plugin} is full"), f"n{number}")
    assert found.plugin == "mgpu"

    found.add("no quota", 1, "crossquota")
    assert found.plugin == "crossquota"

    others = NodeRefusals({"Insufficient cpu": 3})
    found.add("Insufficient cpu", 3)
    assert found.plugin == "predicates"
    assert others != found


def over(used: int, node: str, found: NodeRefusals) -> None:
    """A node where two cores are too many."""
    message = "cpu quota exceeded"
    shortfalls = (Shortfall("cpu", 2000, used, 4000),)
    found.add_verdict(Verdict(Step.PREDICATE, "x", Scope.NODE, "FailedScheduling", message, shortfalls), node)


def test_numbers_are_told_where_few_nodes_have_a_reason() -> None:
    found = NodeRefusals({"Insufficient memory": 1})
    over(3500, "a", found)
    over(4000, "b", found)

    assert found.text(3) == (
        "0/3 nodes are available: 2 cpu quota exceeded (a: cpu required 2, used 3500m, quota 4; "
        "b: cpu required 2, used 4, quota 4), 1 Insufficient memory."
    )


def test_numbers_are_left_out_where_many_nodes_have_a_reason() -> None:
    found, others = NodeRefusals(), NodeRefusals()
    for node in "abcd":
        over(4000, node, found)
    over(4000, "d", others)

    assert found.text(4) == "0/4 nodes are available: 4 cpu quota exceeded."
    assert others.text(1) == "0/1 nodes are available: 1 cpu quota exceeded (d: cpu required 2, used 4, quota 4)."
