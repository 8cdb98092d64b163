"""A console on a device without SSH: keys in, screen out."""

import asyncio
from pathlib import Path
from typing import Any

from flashferry.lab.standin.commands import build_trees
from flashferry.lab.standin.device import Device, DeviceSettings
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.terminal import Terminal
from flashferry.lab.standin.vty import Vty
from tests.patience import PATIENCE_S


class _Keys:
    """A channel that has all its keys from the start and stays open until the session ends."""

    def __init__(self, keys: str) -> None:
        self._keys = keys.encode("latin-1")
        self.over = asyncio.Event()
        self.shown = b""

    async def read(self) -> bytes:
        keys, self._keys = self._keys, b""
        if not keys:
            await self.over.wait()
        return keys

    def write(self, data: bytes) -> None:
        self.shown += data

    def abort(self) -> None:
        self.over.set()


class Console:
    """Types on a device; every call is a session of its own, at a window of ``rows`` lines."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def type(self, *lines: str, rows: int = 0, user: str = "ferry", leaves: bool = True) -> str:
        """Type lines, each ended by Enter unless it ends with a backslash, leave, and return the screen."""
        last = ("end", "exit") if leaves else ()
        keys = "".join(line[:-1] if line.endswith("\\") else f"{line}\r" for line in (*lines, *last))
        return asyncio.run(self._session(keys, rows, user)).replace("\r\n", "\n")

    def show(self, command: str) -> str:
        """Return the output of one command on a wide terminal, without its echo and the prompts."""
        screen = self.type("terminal width 0", command)
        return screen.partition(f"{command}\n")[2].rpartition(f"\n{self.device.hostname}#end")[0] + "\n"

    async def _session(self, keys: str, rows: int, user: str) -> str:
        channel = _Keys(keys)
        terminal = Terminal(channel, longest_line=254)
        vty = Vty(
            self.device, terminal, number=0, user=user, peer="198.18.0.1",
            trees=build_trees(self.device.platform), rows=rows,
        )  # fmt: skip
        pump = asyncio.ensure_future(terminal.pump())
        await asyncio.wait_for(vty.run(), PATIENCE_S)
        pump.cancel()
        return channel.shown.decode("latin-1")


def new_console(root: Path, platform: str = "csr1000v-16.11", **settings: Any) -> Console:
    """Return a console on a new device of a platform."""
    own = {"name": "r1", "address": "198.18.1.11", "username": "ferry", "password": "w", "enable_secret": "e"}
    device = Device(load_platform(platform), DeviceSettings(**(own | settings)), root)
    device.vtys[0] = ("ferry", "198.18.0.1")
    return Console(device)
