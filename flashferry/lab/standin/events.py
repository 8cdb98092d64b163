"""What happens to a device from outside: faults that are switched, and things that happen at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import asyncssh

from flashferry.lab.errors import LabError
from flashferry.lab.standin.config_session import ConfigSession
from flashferry.lab.standin.faults import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.lab.standin.device import Device

OTHER_USER = "colleague"


def switch(device: Device, switches: dict[str, Any]) -> None:
    """Switch faults of a device, and let happen what is an event.

    Raises LabError: there is no such switch, or a line of the other user is no configuration command.
    """
    device.faults = device.faults.with_switches({k: v for k, v in switches.items() if k not in EVENTS})
    for name in EVENTS:
        if switches.get(name):
            device.happened.append(f"event: {name}")
            _EVENTS[name](device, switches[name])


def _other_user_configures(device: Device, lines: list[str]) -> None:
    session = ConfigSession(device)
    for line in lines:
        if not isinstance(session.take(line), str):
            raise LabError(f"{device.settings.name}: the other user's line {line!r} is no configuration command.")
        device.happened.append(f"typed by another: {line}")
    device.touch(OTHER_USER)
    device.syslog(f"%SYS-5-CONFIG_I: Configured from console by {OTHER_USER} on vty15 (198.51.100.7)")


def _other_user_saves(device: Device, who: str | bool) -> None:
    device.save(OTHER_USER if who is True else str(who))


def _other_user_removes_inactive(device: Device, _: bool) -> None:
    """Beside another operation the device refuses it, as it refuses anybody's."""
    if device.install is None:
        raise LabError(f"{device.settings.name}: there is no install mode to remove anything in.")
    if not device.install.is_busy:
        device.install.remove(device.install.removable())
        device.syslog("%INSTALL-5-INSTALL_COMPLETED_INFO: R0/0: install_engine: Completed install remove")


def _reboot(device: Device, seconds: float | bool) -> None:
    device.restart(None if seconds is True else float(seconds), reason="power-on")


def _drop_ssh(device: Device, _: bool) -> None:
    if device.listener is not None:
        device.listener.drop_connections()


def _new_host_key(device: Device, _: bool) -> None:
    if device.listener is not None:
        device.listener.use_key(asyncssh.generate_private_key("ssh-rsa", key_size=2048))


def _syslog(device: Device, text: str) -> None:
    device.syslog(text)


def _applets_fire(device: Device, _: bool) -> None:
    device.applets.fire()


_EVENTS: dict[str, Callable[[Device, Any], None]] = {
    "other_user_configures": _other_user_configures,
    "other_user_saves": _other_user_saves,
    "other_user_removes_inactive": _other_user_removes_inactive,
    "reboot": _reboot,
    "drop_ssh": _drop_ssh,
    "new_host_key": _new_host_key,
    "syslog": _syslog,
    "applets_fire": _applets_fire,
}
