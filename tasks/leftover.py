"""What a broken copy left on a device's flash. Looks only: nothing is deleted unless the operator asks."""

from __future__ import annotations

from tasks.errors import DeviceRefused
from tasks.session import DeviceSession
from templates.rows import DirFile, rows


def leftover(session: DeviceSession, target: str) -> str | None:
    """Return path and size of the file at a copy's target, or None where there is none.

    Args:
        session: An open session.
        target: For example `bootflash:image.bin`; `null:` leaves nothing.
    """
    if target == "null:":
        return None
    try:
        found = rows(DirFile, session.ask(f"dir {target}"))
    except DeviceRefused:
        return None
    return f"{target}, {found[0].size_bytes:,} bytes" if found else None
