"""What every verb of the lab checks first: that the packages which the lab needs are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flashferry.cli.command_line import Verb
from flashferry.cli.doctor import in_words, missing_packages
from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.lab.errors import LabError


class LabVerb(Verb):
    """A command of the lab; without what the lab needs it says so in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        """Do it. Raises ConfigInvalid: what it needs is not installed."""
        check_packages()
        return super().invoke(ctx)


def check_packages() -> None:
    """Check that what the lab needs is installed. Raises ConfigInvalid: something is not."""
    if missing := missing_packages():
        raise ConfigInvalid(f"flashferry lab: {in_words(missing)}", hint=extra_hint("lab"))


@contextmanager
def lab_errors() -> Iterator[None]:
    """Raise what the lab refuses as ConfigInvalid, in the lab's own sentence."""
    try:
        yield
    except LabError as error:
        raise ConfigInvalid(str(error).rstrip(".")) from None
