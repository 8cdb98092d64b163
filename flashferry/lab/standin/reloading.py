"""`reload`: questions, then every session is gone until the device is back with its startup configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.vty import Vty


async def reload(vty: Vty, _: tuple[str, ...]) -> None:
    """`reload`: asks to save what was changed, and for a confirmation (Cisco command reference)."""
    device = vty.device
    if device.is_modified:
        answer = await vty.terminal.ask("System configuration has been modified. Save? [yes/no]: ", "")
        if answer.lower() not in {"yes", "y", "no", "n"}:
            vty.terminal.write("% Please answer 'yes' or 'no'.\n")
            return
        if answer.lower().startswith("y"):
            vty.terminal.write("Building configuration...\n")
            device.save(vty.user)
            vty.terminal.write("[OK]\n")
    if await vty.terminal.confirm("Proceed with reload? "):
        device.syslog(
            f"%SYS-5-RELOAD: Reload requested by {vty.user} on vty{vty.number} ({vty.peer}). "
            "Reload Reason: Reload Command."
        )
        vty.is_over = True
        device.restart()
