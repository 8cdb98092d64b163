"""What a copy asks once its source is open.

Facts 4.3: class-B flash asks whether to erase it, and Enter means yes to both questions (public log of a C3640);
a header that is not recognised brings ``Abort Copy? [confirm]``, where Enter aborts (genielibs capture).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.vty import Vty


async def begin_questions(vty: Vty, flash: Flash) -> bool:
    """Ask; False ends the copy. `file prompt quiet` asks nothing (Cisco command reference)."""
    if vty.device.running.value("file prompt") == "quiet":
        return True
    if vty.device.platform.copy.erase_question:
        await _erase(vty, flash)
    if vty.device.faults.image_not_executable:
        vty.terminal.write("\n%Warning: File not a valid executable for this system\n")
        return not await vty.terminal.confirm("Abort Copy? ")
    return True


async def _erase(vty: Vty, flash: Flash) -> None:
    terminal = vty.terminal
    if not await terminal.confirm(f"\nErase {flash.prefix} before copying? "):
        return
    if not await terminal.confirm("Erasing the flash filesystem will remove all files! Continue? "):
        return
    entries = flash.entries()
    terminal.write(f"Erasing device... {'e' * max(4, len(entries))} ...erased\nErase of {flash.prefix} complete\n")
    for entry in entries:
        flash.delete(entry.name)
