"""`reload`: questions, then every session is gone until the device is back with its startup configuration.

A stack prints a line before it asks (recorded of Catalyst 9200 and 9300). With a second processor that is hot the
question is the one that unicon knows of high availability; of an ASR 1000 it was never recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.vty import Vty


_STACK = "Reload command is being issued on Active unit, this will reload the whole stack\n"
_WITH_STANDBY = "This will reload the active unit and force a switch of activity "


async def reload(vty: Vty, _: tuple[str, ...]) -> None:
    """`reload`: asks to save what was changed, and for a confirmation (Cisco command reference)."""
    device = vty.device
    if device.is_modified and not await _is_save_answered(vty):
        return
    if await vty.terminal.confirm(_question(vty)):
        device.syslog(
            f"%SYS-5-RELOAD: Reload requested by {vty.user} on vty{vty.number} ({vty.peer}). "
            "Reload Reason: Reload Command."
        )
        vty.is_over = True
        device.restart()


async def _is_save_answered(vty: Vty) -> bool:
    """Ask whether to save, and save; False where the answer is neither yes nor no."""
    answer = (await vty.terminal.ask("System configuration has been modified. Save? [yes/no]: ", "")).lower()
    if answer not in {"yes", "y", "no", "n"}:
        vty.terminal.write("% Please answer 'yes' or 'no'.\n")
        return False
    if answer.startswith("y"):
        vty.terminal.write("Building configuration...\n")
        vty.device.save(vty.user)
        vty.terminal.write("[OK]\n")
    return True


def _question(vty: Vty) -> str:
    """Return what stands before the `[confirm]` of a reload."""
    platform = vty.device.platform
    if platform.install is not None and platform.install.is_stack:
        return f"{_STACK}Proceed with reload? "
    if "STANDBY HOT" in platform.outputs.get("show redundancy states", ""):
        vty.device.note_guess("reload: question with a second processor")
        return _WITH_STANDBY
    return "Proceed with reload? "
