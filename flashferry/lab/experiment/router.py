"""A stand-in driven by SSH: configure, copy to its flash, read its own result line."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncssh

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from flashferry.lab.world import DeviceAccess

_RESULT = re.compile(r"(\d+) bytes copied in ([\d.]+) secs? \((\d+) bytes/sec\)")
_LINE_S = 60.0
_LOGIN_S = 120.0
_TARGET = "experiment.bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What the device's own result line says."""

    size_bytes: int
    seconds: float


class _Session:
    """A session in privileged mode."""

    def __init__(self, process: asyncssh.SSHClientProcess[str], prompt: str) -> None:
        self._process = process
        self._prompt = re.compile(rf"{re.escape(prompt[:16])}[^\s#]*#$")

    async def run(self, line: str, *, timeout_s: float = _LINE_S) -> str:
        """Type a line and return what is shown up to the next prompt; questions are answered with Enter."""
        self._process.stdin.write(line + "\n")
        return await self.until_prompt(timeout_s)

    async def until_prompt(self, timeout_s: float = _LINE_S) -> str:
        """Return what is shown up to the next prompt."""
        shown = ""
        async with asyncio.timeout(timeout_s):
            while not self._prompt.search(shown):
                piece = await self._process.stdout.read(65536)
                if not piece:
                    raise LabError(f"The device closed the session: {shown[-200:]}")
                shown += piece
                if re.search(r"\]\? $|\[confirm\]$", shown):
                    self._process.stdin.write("\n")
        return shown


def copy_to_flash(device: DeviceAccess, lines: tuple[str, ...], url: str, *, timeout_s: float) -> Copied:
    """Set exactly these `ip tcp` lines, copy a file to flash and remove it again.

    Raises LabError: the device refused a line or the copy; its own words are given, the URL left out.
    """
    try:
        return asyncio.run(_copy(device, lines, url, timeout_s))
    except TimeoutError:
        raise LabError(f"{device.name}: the copy was not done within {timeout_s:.0f} s.") from None
    except (OSError, asyncssh.Error) as error:
        raise LabError(f"{device.name}: the session failed: {error}.") from error


async def _copy(device: DeviceAccess, lines: tuple[str, ...], url: str, timeout_s: float) -> Copied:
    async with (
        asyncssh.connect(
            device.address, device.port, username=device.username, password=device.password, known_hosts=None,
            config=None, client_keys=None, login_timeout=_LOGIN_S,
        ) as connection,
        connection.create_process(term_type="vt100", term_size=(511, 1000)) as process,
    ):  # fmt: skip
        session = _Session(process, device.name)
        await session.until_prompt()
        await session.run("terminal length 0")
        for line in ("configure terminal", "no ip tcp window-size", "no ip tcp selective-ack", *lines, "end"):
            shown = await session.run(line)
            if "%" in shown:
                raise LabError(f"{device.name}: {line}: {shown.strip()}")
        shown = await session.run(f"copy {url} flash:{_TARGET}", timeout_s=timeout_s)
        await session.run(f"delete /force flash:{_TARGET}")
        found = _RESULT.search(shown)
        if found is None:
            raise LabError(f"{device.name}: no result line: {shown.replace(url, 'URL')[-300:].strip()}")
        return Copied(size_bytes=int(found[1]), seconds=float(found[2]))
