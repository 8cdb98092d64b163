"""The centre's ledger as a database of the state folder. Several commands may have it open at the same time."""

from __future__ import annotations

from flashferry.store.own_database import OwnDatabase
from flashferry.store.sites.schema import FILE, STEPS


class SitesDatabase(OwnDatabase):
    """The ledger's tables in a state folder."""

    file, steps = FILE, STEPS
    called = "the ledger of sites"
    kept = "what sites have in hand goes on there, and each has its own journal of it"
