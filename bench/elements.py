"""Count what NumPy is asked to do, in elements of arrays: what a count of opcodes does not see.

Modules get a stand-in for NumPy, whose functions return arrays of a subclass. The subclass counts each operation, and
hands itself on to each result. What is computed stays the same.

An operation is what the project's code asks for: an operator, a method, a subscript, or a function of NumPy. An
operation counts as many elements as its largest array has, among operands and results. NumPy's own Python code does not
count again. Subscripts, `take` and `item` count what they select or store, one at least; subscripts count their masks
and their lists of rows, too. So a loop over an array counts each element. Views are free: slices, `.T`, `reshape`. Not
seen are: `.tolist()` once its elements are Python objects, arithmetic of single NumPy numbers, and functions of NumPy's
submodules, such as `np.linalg`.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

FREE: Final = frozenset({"reshape", "setflags", "squeeze", "swapaxes", "transpose", "view"})
"""Methods of arrays that touch no element."""

asked: Final[Counter[str]] = Counter()
"""Elements by the file that asked for the operation."""

_NUMPYS_FOLDER: Final = str(Path(np.__file__).parent)


class CountedArray(np.ndarray[Any, Any]):
    """An array that counts what is done with it."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _operate(getattr(ufunc, method), *inputs, **options)

    def __getitem__(self, index: Any) -> Any:
        found = _plain(self)[_plain(index)]
        _count(_selected(index, found))
        return _counted(found)

    def item(self, *place: Any) -> Any:
        """Return one element."""
        _count(1)
        return _plain(self).item(*place)

    def take(self, *given: Any, **options: Any) -> Any:
        """Return the elements of some rows: no other element is read."""
        found = _plain(self).take(*map(_plain, given), **options)
        _count(np.size(found))
        return _counted(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        array, index, value = _plain(self), _plain(index), _plain(value)
        _count(max([np.size(array[index]), *map(np.size, _rows_of(index))]))
        array[index] = value


class _Numpy(ModuleType):
    """NumPy, but its functions count and return arrays that count."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return counting(found) if _is_function(found) else found


def in_modules(modules: Iterable[ModuleType]) -> None:
    """Have modules use arrays that count, in this process from now on."""
    stand_in = _Numpy("numpy")
    for module in modules:
        for name, value in list(vars(module).items()):
            if value is np:
                setattr(module, name, stand_in)
            elif isinstance(value, np.ndarray):
                setattr(module, name, _counted(value))
            elif _is_function(value) and str(value.__module__).partition(".")[0] == "numpy":
                setattr(module, name, counting(value))


@functools.cache
def counting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy that counts."""
    return functools.wraps(function)(functools.partial(_operate, function))


def _operate(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Do one operation, and count the elements of its largest array."""
    result = function(*map(_plain, given), **{name: _plain(value) for name, value in options.items()})
    _count(max((part.size for value in (*given, *options.values(), result) for part in _arrays(value)), default=1))
    return _counted(result)


def _count(elements: int) -> None:
    """Count elements for the file that asks, unless NumPy itself does."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    if not frame.f_code.co_filename.startswith(_NUMPYS_FOLDER):
        asked[frame.f_code.co_filename] += elements


def _selected(index: Any, found: Any) -> int:
    """Return how many elements a subscript reads; a view reads none."""
    rows = [np.size(part) for part in _rows_of(index)]
    return max([np.size(found), *rows]) if rows or not isinstance(found, np.ndarray) else 0


def _rows_of(index: Any) -> Iterator[Any]:
    """Yield the masks and the lists of rows in a subscript."""
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, (np.ndarray, list)):
            yield part


def _arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays in an argument or a result."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)


def _plain(value: Any) -> Any:
    """Return an array, or a tuple of arrays, that does not count."""
    if isinstance(value, CountedArray):
        return value.view(np.ndarray)
    return tuple(map(_plain, value)) if type(value) is tuple else value


def _counted(value: Any) -> Any:
    """Return an array, or a tuple of arrays, that counts."""
    if type(value) is np.ndarray:
        return value.view(CountedArray)
    return tuple(map(_counted, value)) if type(value) is tuple else value


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(value, "__name__") and not isinstance(value, (type, np.ufunc))


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    @functools.wraps(function)
    def method(*given: Any, **options: Any) -> Any:
        return _operate(function, *given, **options)

    return method


for _name in set(dir(np.ndarray)) - FREE - set(vars(CountedArray)):
    if not _name.startswith("_") and callable(getattr(np.ndarray, _name)):
        setattr(CountedArray, _name, _method(_name))
