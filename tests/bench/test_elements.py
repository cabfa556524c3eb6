"""Each operation on arrays counts as many elements as its largest array has, for the file that asks."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from bench import elements

FILE = "asks.py"


def a_module() -> ModuleType:
    """Return a module whose arrays count: `a` has ten elements, `table` has three rows of four."""
    module = ModuleType("asks")
    vars(module).update(np=np, arange=np.arange, a=np.arange(10), table=np.arange(12).reshape(3, 4))
    elements.in_modules([module])
    return module


def asked_by(code: str, module: ModuleType) -> int:
    """Run code in a module; return how many elements the code asked for."""
    elements.asked.clear()
    exec(compile(code, FILE, "exec"), vars(module))  # noqa: S102 - code of this test
    assert elements.asked.keys() <= {FILE}
    return elements.asked[FILE]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("a + 1", 10),
        ("1 - a", 10),
        ("a > 3", 10),
        ("-a", 10),
        ("a @ a", 10),
        ("b = a\nb += 1", 10),
        ("a[:5] + 1", 5),
        ("table[:, np.newaxis, :] + 1", 12),
        ("table[0] + table", 12),
        ("a.sum()", 10),
        ("a.copy().astype(float).argmax()", 30),
        ("np.zeros(7)", 7),
        ("arange(7)", 7),
        ("np.array([1, 2, 3])", 3),
        ("np.fromiter((number for number in (1, 2)), int)", 2),
        ("np.fromiter((a[place] for place in (1, 2)), int)", 4),
        ("np.frombuffer(bytes(16), dtype=np.int64)", 2),
        ("np.concatenate((a, a))", 20),
        ("np.where(a > 3, a, 0)", 20),
        ("np.unique(a, return_inverse=True)[1] + 1", 20),
        ("np.isin(a, [1, 2])", 10),
        ("np.maximum.reduceat(a, [0, 5])", 10),
        ("np.add.at(a, [1, 2], 3)", 10),
        ("np.sqrt(a, out=np.zeros(10))", 20),
        ("a[3]", 1),
        ("a.item(3)", 1),
        ("table[1, 2]", 1),
        ("a[[1, 2]]", 2),
        ("a.take([1, 2])", 2),
        ("table[:, [0, 1]]", 6),
        ("a[table[0]]", 4),
        ("a[a > 100]", 20),
        ("a[3] = 1", 1),
        ("a[2:6] = 1", 4),
        ("table[:, [0, 1]] = 1", 6),
        ("a[a > 100] = 1", 20),
        ("for number in a: pass", 10),
        ("list(map(int, a))", 10),
        ("a.tolist()", 10),
        ("a[2:5]", 0),
        ("table[1]", 0),
        ("table.T", 0),
        ("table.reshape(4, 3)", 0),
        ("len(a), a.shape, a.dtype, a.size", 0),
    ],
)
def test_an_operation_counts_its_largest_array(code: str, count: int) -> None:
    assert asked_by(code, a_module()) == count


def test_results_are_those_of_numpy() -> None:
    module = a_module()
    code = (
        "b = np.concatenate((a[a % 2 == 0] * 2, a.take([1, 3])))\nb[1:] += 1\nb[[0, 2]] = 7\nplaces = (b > 5).nonzero()"
    )

    asked_by(code, module)

    plain = ModuleType("plain")
    vars(plain).update(np=np, a=np.arange(10))
    exec(code, vars(plain))  # noqa: S102 - code of this test
    assert module.b.tolist() == plain.b.tolist() == [7, 5, 7, 13, 17, 2, 4]
    assert module.places[0].tolist() == plain.places[0].tolist()
    assert isinstance(module.b, np.ndarray)
    assert isinstance(module.places[0], elements.CountedArray)


def test_writing_changes_the_array_itself() -> None:
    module = a_module()

    asked_by("view = a[2:5]\nview *= 10\nnp.multiply(a, 2, out=a)", module)

    assert module.a.tolist() == [0, 2, 40, 60, 80, 10, 12, 14, 16, 18]
