"""Makes text of others safe for a terminal: it cannot move the cursor or imitate another line."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return one line of text with invisible characters escaped, as ``\x1b``.

    Those are the characters that Python's ``str.isprintable`` excludes: controls, line ends, what turns the direction
    of writing, other invisible ones, spaces but the ordinary one, and halves of surrogate pairs.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def visible_lines(text: str) -> str:
    """Return text with each of its lines visible; for texts whose line ends are our own."""
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))
