"""Whether what the lab needs beside flashferry is installed; a wheel without its extra `lab` has none of it."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec
from typing import Any

from flashferry.cli.command_line import Verb
from flashferry.core.errors import ConfigInvalid

PACKAGES = ("asyncssh", "pyroute2")
"""By their names for `import` and for pip, which are the same."""

HINT = "'pip install {wanted}' in flashferry's own environment installs it; so does the wheel's extra 'lab'"


class LabVerb(Verb):
    """A command of the lab; without what the lab needs it says so in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Do it.

        Raises:
            ConfigInvalid: What it needs is not installed.
        """
        if missing := missing_packages():
            raise ConfigInvalid(f"flashferry lab: {in_words(missing)}", hint=way_out(missing))
        return super().invoke(ctx)


def missing_packages() -> tuple[str, ...]:
    """Return what the lab needs and this environment has not."""
    return tuple(name for name in PACKAGES if find_spec(name) is None)


def in_words(missing: tuple[str, ...]) -> str:
    """Return what is missing."""
    return f"it needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"


def way_out(missing: tuple[str, ...]) -> str:
    """Return the command that installs it, in the versions that this release wants."""
    try:
        lines = requires("flashferry") or []
    except PackageNotFoundError:
        lines = []
    versions = {name: line.partition(";")[0].strip() for line in lines for name in missing if _is_of(line, name)}
    wanted = " ".join(f'"{versions.get(name, name)}"' for name in missing)
    return HINT.format(wanted=wanted)


def _is_of(line: str, name: str) -> bool:
    return re.match(rf"{name}(?![\w-])", line) is not None
