"""Output encoding of the terminal, and masked secrets in uncaught errors, log lines and warnings."""

from __future__ import annotations

import codecs
import io
import logging
import os
import sys
import threading
import traceback
import unicodedata
import warnings
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType

from flashferry.core.redaction import sanitize_lines

HANDLER = "flashferry.lookalike"

_ASCII_FOR = {
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
    """Return an ASCII substitute for a character: a similar one, its letter without accents, or `?`."""
    if (known := _ASCII_FOR.get(character)) is not None:
        return known
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


def fit_streams() -> None:
    """Make standard output and error replace characters that they cannot encode by ASCII substitutes."""
    codecs.register_error(HANDLER, _replaced)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="ascii" if is_ascii_asked_for(os.environ) else None, errors=HANDLER)


def is_ascii_asked_for(environment: Mapping[str, str]) -> bool:
    """Return whether the locale is set to ASCII and Python's UTF-8 mode is not set otherwise."""
    if environment.get("PYTHONIOENCODING") or environment.get("PYTHONUTF8") == "1":
        return False
    return environment.get("LC_ALL") in {"C", "POSIX"}


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(ascii_for, error.object[error.start : error.end])), error.end


def guard() -> None:
    """Sanitize and mask everything that libraries, threads and the interpreter print.

    Logging handlers and exception hooks that are set already are kept.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Shown())
    if warnings.formatwarning.__module__ == warnings.__name__:
        usual = warnings.formatwarning
        warnings.formatwarning = lambda *given, **more: sanitize_lines(usual(*given, **more))
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _thread_failed
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _not_raised


def print_trace(error: BaseException) -> None:
    """Print an unexpected error with its traceback; a closed terminal is not an error."""
    _print(type(error), error, error.__traceback__)


def _print(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    with suppress(OSError):
        sys.stderr.write(sanitize_lines("".join(traceback.format_exception(kind, error, trace))))


def _thread_failed(found: threading.ExceptHookArgs) -> None:
    if issubclass(found.exc_type, SystemExit):
        return
    with suppress(OSError):
        sys.stderr.write(sanitize_lines(f"Exception in thread {found.thread.name if found.thread else '?'}:\n"))
    _print(found.exc_type, found.exc_value, found.exc_traceback)


def _not_raised(found: sys.UnraisableHookArgs) -> None:
    with suppress(OSError):
        sys.stderr.write(sanitize_lines(f"{found.err_msg or 'Exception ignored'}:\n"))
    _print(found.exc_type, found.exc_value, found.exc_traceback)


class _Shown(logging.Formatter):
    """Formats log records with secrets masked; a traceback keeps its lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return sanitize_lines(super().format(record))
