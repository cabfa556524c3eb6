"""Manifests as objects, read by libyaml: the loader that is written in Python takes seconds for the CRDs alone."""

from __future__ import annotations

from typing import Any

import yaml


def yaml_documents(text: str) -> list[Any]:
    """Return the documents of a YAML text that are not empty; raises yaml.YAMLError where it is none."""
    return [found for found in yaml.load_all(text, Loader=yaml.CSafeLoader) if found]
