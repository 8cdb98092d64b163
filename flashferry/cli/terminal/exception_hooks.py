"""What is said where nothing was to be said: uncaught errors, log lines of libraries, warnings.

Their texts are foreign, so they pass the door to the outside like all others; a traceback stays one, for it is needed
to mend what was wrong.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from contextlib import suppress
from types import TracebackType

from flashferry.core.outside import shown_lines


def guard() -> None:
    """Have whatever libraries, threads and the interpreter itself print shown, not obeyed, and without secrets.

    Who has set up logging, or hooks of their own, keeps them.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Shown())
    if warnings.formatwarning.__module__ == warnings.__name__:
        usual = warnings.formatwarning
        warnings.formatwarning = lambda *given, **more: shown_lines(usual(*given, **more))
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _thread_failed
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _not_raised


def print_trace(error: BaseException) -> None:
    """Print an error that nobody expected, with where it came from; a closed terminal is no error."""
    _print(type(error), error, error.__traceback__)


def _print(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    with suppress(OSError):
        sys.stderr.write(shown_lines("".join(traceback.format_exception(kind, error, trace))))


def _thread_failed(found: threading.ExceptHookArgs) -> None:
    if issubclass(found.exc_type, SystemExit):
        return
    with suppress(OSError):
        sys.stderr.write(shown_lines(f"Exception in thread {found.thread.name if found.thread else '?'}:\n"))
    _print(found.exc_type, found.exc_value, found.exc_traceback)


def _not_raised(found: sys.UnraisableHookArgs) -> None:
    with suppress(OSError):
        sys.stderr.write(shown_lines(f"{found.err_msg or 'Exception ignored'}:\n"))
    _print(found.exc_type, found.exc_value, found.exc_traceback)


class _Shown(logging.Formatter):
    """A record as it may be shown; that of a traceback in lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return it."""
        return shown_lines(super().format(record))
