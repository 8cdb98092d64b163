"""Transports that exist in tests alone."""

from __future__ import annotations

from flashferry.core.values import replace
from flashferry.transports import transport_named
from flashferry.transports.ftp import FTP
from flashferry.transports.transport import Transport


def named(*names: str) -> tuple[Transport, ...]:
    """Return transports of some names that do as FTP does, each at the listener of its own."""
    return tuple(
        replace(
            FTP,
            name=name,
            title=name.upper(),
            listener_name=transport_named(name).listener_name,
            is_clear_text=transport_named(name).is_clear_text,
        )
        for name in names
    )
