"""Credentials of a run: the environment wins over the inventory, so that no secret need stand in a file."""

from __future__ import annotations

import os

from nornir.core import Nornir

from tasks.connection import ENABLE_SECRET

USERNAME = "FLASHFERRY_USERNAME"
PASSWORD = "FLASHFERRY_PASSWORD"  # noqa: S105 -- the name of a variable
ENABLE = "FLASHFERRY_ENABLE_SECRET"


def apply_environment(nornir: Nornir) -> Nornir:
    """Set the credentials that the environment gives on every host, in memory; return the same Nornir."""
    username, password, enable = (os.environ.get(name) for name in (USERNAME, PASSWORD, ENABLE))
    for host in nornir.inventory.hosts.values():
        if username:
            host.username = username
        if password:
            host.password = password
        if enable:
            host.data[ENABLE_SECRET] = enable
    return nornir
