"""What a client of the device prints where it fails, read from data: seen on a device, or a guess that says so.

A text that was never seen on a device is printed like any other, but the device counts it
(`flashferry.lab.standin.device.Device.guesses`), so that a result that rests on it is recognised.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.datafile import Table, read_table
from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = "flashferry.lab.standin.texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """``%Error VERB url (REASON)``.

    Attributes:
        name: By which a client asks for it, behind the client's name: ``http: refused``.
        verb: opening, reading, writing or copying.
        reason: What stands in parentheses.
        source: Where it was seen; empty for a guess.
        unknown: What is not known; empty where it was seen.
    """

    name: str
    verb: str
    reason: str
    source: str
    unknown: str


Wordings = dict[str, Wording]


@functools.cache
def base_texts(client: str) -> Mapping[str, Wording]:
    """Return what a client prints on a platform that says nothing else.

    Raises LabError: a text is incomplete; file and key are named.
    """
    return _wordings(client, read_table(_PACKAGE, client))


def platform_texts(client: str, own: Table) -> Wordings:
    """Return what a client prints, with what a platform's data file says of its own.

    Raises LabError: the platform names a text that the client does not have, or one is incomplete.
    """
    base = base_texts(client)
    own.only(*base)
    return {**base, **_wordings(client, own)}


def _wordings(client: str, table: Table) -> Wordings:
    return {name: _wording(f"{client}: {name}", table.table(name)) for name in table.values}


def _wording(name: str, table: Table) -> Wording:
    table.only("verb", "reason", "source", "unknown")
    source, unknown = table.text("source", ""), table.text("unknown", "")
    if bool(source) == bool(unknown):
        raise LabError(f"{table.where}: expected either source or unknown, found {'both' if source else 'neither'}.")
    return Wording(name=name, verb=table.text("verb"), reason=table.text("reason"), source=source, unknown=unknown)
