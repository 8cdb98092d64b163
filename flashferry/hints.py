"""Commands that results and errors name: where this one was given a state folder, they need it too."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

_QUOTED = re.compile(r"'(flashferry (?:recover|report|status|stage --resume|run (?!list)\w+)\b[^']*)'")
"""A command of ours that reads the journal, as sentences quote it."""


class _Given:
    """The state folder that the operator named, for as long as this command runs."""

    state_dir: Path | None = None


def remember(state_dir: Path | None) -> Path | None:
    """Keep and return what `--state-dir` was given; a callback of that option, called without it too.

    What the environment says, the next command of the same shell finds by itself.
    """
    is_everywhere = state_dir is not None and str(state_dir) == os.environ.get("FLASHFERRY_STATE_DIR")
    _Given.state_dir = None if is_everywhere else state_dir
    return state_dir


def command(words: str) -> str:
    """Return the command line to type for a verb that reads the journal: `report RUN`, say."""
    return f"flashferry {words}{_option()}"


def here(text: str) -> str:
    """Return a sentence whose quoted commands look where this one did."""
    option = _option()
    return _QUOTED.sub(lambda found: found[0] if "--state-dir" in found[1] else f"'{found[1]}{option}'", text)


def _option() -> str:
    return f" --state-dir {shlex.quote(str(_Given.state_dir))}" if _Given.state_dir is not None else ""
