"""What a test holds: a copy at a byte, a line before it is executed, a restart before it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from flashferry.lab.standin.copy_download import FlashTarget
from flashferry.lab.standin.device import Device
from flashferry.lab.standin.faults import HeldWriter, switch
from flashferry.lab.standin.ssh import Listener
from tests.patience import PATIENCE_S, until

PLATFORM = "csr1000v-16.11"


@pytest.fixture
def device(make_console: Callable[..., Any]) -> Device:
    found: Device = make_console(PLATFORM).device
    return found


def opened(device: Device, stop: threading.Event) -> HeldWriter:
    vty: Any = SimpleNamespace(device=device)
    sink = FlashTarget(vty, device.flash, "image.bin", verifies=False).open(None, stop)
    assert isinstance(sink, HeldWriter)
    return sink


def size_bytes(device: Device) -> int:
    found = device.flash.find("image.bin")
    return found.size_bytes if found is not None else 0


def held(device: Device) -> list[str]:
    return [one for one in device.happened if one.startswith("held: ")]


def test_a_copy_stands_at_the_byte_until_it_is_released(device: Device) -> None:
    """Not one byte more is on the flash before the release, and all of them are after it."""
    switch(device, {"hold_copy_at_bytes": 70_001})
    sink = opened(device, threading.Event())
    writer = threading.Thread(target=lambda: [sink.write(b"x" * 65_536), sink.write(b"y" * 65_536), sink.close()])
    writer.start()
    until(lambda: held(device), "the hold")
    assert size_bytes(device) == 70_001
    assert writer.is_alive()
    switch(device, {"hold_copy_at_bytes": None})
    writer.join(PATIENCE_S)
    assert size_bytes(device) == 131_072
    assert held(device) == ["held: copy at 70001 bytes"]


def test_a_copy_moves_on_to_the_next_hold(device: Device) -> None:
    """A later byte releases it as far as that byte."""
    switch(device, {"hold_copy_at_bytes": 10})
    sink = opened(device, threading.Event())
    writer = threading.Thread(target=lambda: [sink.write(b"x" * 100), sink.close()])
    writer.start()
    until(lambda: len(held(device)) == 1, "the first hold")
    switch(device, {"hold_copy_at_bytes": 30})
    until(lambda: len(held(device)) == 2, "the second hold")
    assert size_bytes(device) == 30
    switch(device, {"hold_copy_at_bytes": None})
    writer.join(PATIENCE_S)


def test_a_copy_that_is_held_can_be_aborted(device: Device) -> None:
    """It ends without the rest."""
    switch(device, {"hold_copy_at_bytes": 10})
    stop = threading.Event()
    sink = opened(device, stop)
    writer = threading.Thread(target=lambda: [sink.write(b"x" * 100), sink.close()])
    writer.start()
    until(lambda: held(device), "the hold")
    stop.set()
    writer.join(PATIENCE_S)
    assert size_bytes(device) == 10


@pytest.mark.parametrize("lines", [("show clock",), ("configure terminal", "hostname other")])
def test_a_line_is_held_before_it_is_executed(make_console: Callable[..., Any], lines: tuple[str, ...]) -> None:
    """In exec and in configuration mode; what it does, it does after the release."""
    console = make_console(PLATFORM)
    device = console.device
    name = device.hostname
    switch(device, {"hold_command_pattern": "^(show clock|hostname)"})
    user = threading.Thread(target=console.type, args=lines)
    user.start()
    until(lambda: held(device) == [f"held: {lines[-1]}"], "the hold")
    assert device.hostname == name
    switch(device, {"hold_command_pattern": None})
    user.join(PATIENCE_S)
    assert device.hostname == ("other" if len(lines) > 1 else name)


def test_a_restart_ends_when_it_is_released(device: Device) -> None:
    """However short it is."""

    async def play() -> None:
        device.listener = listener = Listener(device, SimpleNamespace(), _not_opened)  # type: ignore[arg-type]
        switch(device, {"hold_boot": True, "boot_s": 0.0, "reboot": True})
        while not held(device):
            await asyncio.sleep(0)
        assert not any(one.startswith("boot: ") for one in device.happened)
        switch(device, {"hold_boot": False})
        while not any(one.startswith("boot: ") for one in device.happened):
            await asyncio.sleep(0)
        listener.close()

    async def _not_opened(*_: object) -> Any:
        return SimpleNamespace(close=lambda: None)

    asyncio.run(asyncio.wait_for(play(), PATIENCE_S))
