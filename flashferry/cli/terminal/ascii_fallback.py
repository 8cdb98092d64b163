"""Terminals that cannot show every character: the others are put in its place, and nothing is a traceback.

Facts
-----

- Python encodes what is written with the stream's error handler (codecs, `register_error`); the handler `strict`, which
  standard output has, raises. A terminal that takes Latin-1 has no `…`, no `→` and no blocks of a bar.
- With LC_ALL=C Python writes UTF-8 all the same (PEP 540). Whoever sets it has a terminal of ASCII, to which that is
  three characters of nonsense for each of ours.
- Documents for programs are no text for a terminal: they say themselves that they are UTF-8.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import unicodedata
from collections.abc import Mapping

HANDLER = "flashferry.lookalike"
_LOOKALIKES = {
    **dict.fromkeys("–—‐‑−─━═", "-"),  # noqa: RUF001 -- these very characters
    **dict.fromkeys("│┃║", "|"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’‚′", "'"),  # noqa: RUF001 -- the same
    **dict.fromkeys("•·●", "*"),
    **dict.fromkeys("█▉▊▋▌▓▒", "#"),
    **dict.fromkeys("▍▎▏░", "."),
    **dict(zip("▁▂▃▄▅▆▇", "__..--=", strict=True)),
    "…": "...",
    "→": "->",
    "←": "<-",
    "≥": ">=",
    "≤": "<=",
    "≈": "~",
    "\u00d7": "x",
    "µ": "u",
    "μ": "u",
    "✓": "ok",
    "✔": "ok",
    "✗": "x",
    "✘": "x",
    "°": " deg",
    "§": "section ",
    "€": "EUR",
    "ß": "ss",
    "æ": "ae",
    "ø": "o",
    "ł": "l",
    "Ø": "O",
    "Æ": "AE",
    "Ł": "L",
}


def ascii_for(character: str) -> str:
    """Return what stands for a character where it cannot be shown: its like, its letter without marks, else `?`."""
    if (known := _LOOKALIKES.get(character)) is not None:
        return known
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


def fit_streams(environment: Mapping[str, str] = os.environ) -> None:
    """Have standard output and error show what they can, and an ASCII likeness of what they cannot."""
    codecs.register_error(HANDLER, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="ascii" if is_ascii_asked_for(environment) else None, errors=HANDLER)


def is_ascii_asked_for(environment: Mapping[str, str]) -> bool:
    """Return whether the locale was set to the one that has ASCII alone, and Python was told nothing else."""
    if environment.get("PYTHONIOENCODING") or environment.get("PYTHONUTF8") == "1":
        return False
    return environment.get("LC_ALL") in {"C", "POSIX"}


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(ascii_for, error.object[error.start : error.end])), error.end
