"""Credentials of a run: the environment wins over the inventory, so that no secret need stand in a file."""

from __future__ import annotations

import os

from nornir.core import Nornir
from nornir.core.inventory import Defaults, Host

from tasks.connection import ENABLE_SECRET

USERNAME = "FLASHFERRY_USERNAME"
PASSWORD = "FLASHFERRY_PASSWORD"  # noqa: S105 -- the name of a variable
ENABLE = "FLASHFERRY_ENABLE_SECRET"


def apply_environment(nornir: Nornir) -> Nornir:
    """Set the credentials that the environment gives, in memory; return the same Nornir.

    Also on the inventory's defaults: `recover` logs in to devices that are no longer in the inventory.
    """
    username, password, enable = (os.environ.get(name) for name in (USERNAME, PASSWORD, ENABLE))
    targets: list[Host | Defaults] = [nornir.inventory.defaults, *nornir.inventory.hosts.values()]
    for one in targets:
        if username:
            one.username = username
        if password:
            one.password = password
        if enable:
            one.data[ENABLE_SECRET] = enable
    return nornir
