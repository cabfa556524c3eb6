"""The types of annotations: they tell `volsched snapshot --anonymise` how to replace the text.

A plugin or action declares them beside its annotations::

    ANNOTATION_TYPES = {"example.com/rack": "name", "example.com/racks-*": ("resource", "amount")}

A key that ends in ``*`` is a prefix; it has two types, of the rest of the key and of the text. A declared annotation
without a type counts as a name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

AnnotationType: TypeAlias = Literal[
    "name", "word", "truth", "digits", "numbers", "amount", "duration", "resource", "cards", "card amounts", "ids"
]
"""``name`` is replaced, and so are those among ``ids`` that are no number. ``word`` stays where Kubernetes or Volcano
documents it; ``truth``, ``digits``, ``numbers`` (with commas), ``amount`` and ``duration`` stay where the text is one.
``cards`` is a list ``A|B``, ``card amounts`` a JSON object of cards."""

TYPES: tuple[str, ...] = get_args(AnnotationType)

AnnotationTypes: TypeAlias = dict[str, AnnotationType | tuple[AnnotationType, AnnotationType]]
