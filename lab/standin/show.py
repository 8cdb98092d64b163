"""The `show` commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.standin import clock
from lab.standin.interfaces import brief

if TYPE_CHECKING:
    from lab.standin.vty import Vty

Arguments = tuple[str, ...]


def version(vty: Vty, _: Arguments) -> str:
    """`show version`."""
    device = vty.device
    return device.platform.texts["version"].format(
        hostname=device.hostname, uptime=clock.duration(device.uptime_s), serial=device.settings.serial
    )


def running_config(vty: Vty, _: Arguments) -> str:
    """`show running-config`; its byte count is that of the text below it."""
    text = vty.device.running_text()
    return f"Building configuration...\n\nCurrent configuration : {len(text)} bytes\n{text}\n"


def running_config_all(vty: Vty, _: Arguments) -> str:
    """`show running-config all`.

    What it prints for values at their default is unconfirmed (facts 3.3), so this prints the same lines; readers
    must not depend on it.
    """
    text = vty.device.running_text()
    count = f"Current configuration with default configurations exposed : {len(text)} bytes"
    return f"Building configuration...\n\n{count}\n{text}\n"


def running_config_interface(vty: Vty, arguments: Arguments) -> str:
    """`show running-config interface X`."""
    from lab.standin.interfaces import canonical_interface

    running = vty.device.running
    section = running.find(f"interface {canonical_interface(arguments[0], running)}")
    lines = [section.text, *(f" {child.text}" for child in section.children)] if section else []
    text = "".join(f"{line}\n" for line in ["!", *lines, "end"])
    return f"Building configuration...\n\nCurrent configuration : {len(text)} bytes\n{text}\n"


def startup_config(vty: Vty, _: Arguments) -> str:
    """`show startup-config`."""
    text = vty.device.startup_text
    return f"Using {len(text)} out of 33554432 bytes\n{text}\n" if text else "startup-config is not present\n"


def clock_now(_: Vty, __: Arguments) -> str:
    """`show clock`."""
    return clock.clock_line(clock.now()) + "\n"


def hosts(vty: Vty, _: Arguments) -> str:
    """`show hosts`."""
    domain = vty.device.running.value("ip domain name")
    default = f"Default domain is {domain}" if domain else "Default domain is not set"
    return (
        f"{default}\nName/address lookup uses static mappings\n\n"
        "Codes: UN - unknown, EX - expired, OK - OK, ?? - revalidate\n"
        "       temp - temporary, perm - permanent\n"
        "       NA - Not Applicable None - Not defined\n\n"
        "Host                      Port  Flags      Age Type   Address(es)\n"
    )


def ip_interface_brief(vty: Vty, _: Arguments) -> str:
    """`show ip interface brief`."""
    return brief(vty.device.running)


def inventory(vty: Vty, _: Arguments) -> str:
    """`show inventory`."""
    return vty.device.platform.texts["inventory"].format(serial=vty.device.settings.serial)


def boot(vty: Vty, _: Arguments) -> str:
    """`show boot`: the variable follows the `boot system` lines."""
    lines = [line.text for line in vty.device.running.lines() if line.text.startswith("boot system ")]
    names = "".join(f"{line.split()[-1]},12;" for line in lines)
    variable = f"= {names}" if names else "does not exist"
    return vty.device.platform.texts["boot"].format(variable=variable)


def tcp_brief(vty: Vty, _: Arguments) -> str:
    """`show tcp brief`: the live connections of the device, SSH and FTP."""
    rows = ["TCB       Local Address               Foreign Address             (state)"]
    for row in vty.device.connections.rows():
        local, foreign = (f"{host}.{port}" for host, port in (row.local, row.foreign))
        rows.append(f"{row.tcb}  {local:<26}  {foreign:<26}  {row.state}")
    return "".join(f"{row}\n" for row in rows)


def archive(_: Vty, __: Arguments) -> str:
    """`show archive` without an archive path."""
    return " Archive feature not enabled\n"


def users(vty: Vty, _: Arguments) -> str:
    """`show users`."""
    rows = ["    Line       User       Host(s)              Idle       Location"]
    for number, (user, peer) in sorted(vty.device.vtys.items()):
        mark = "*" if number == vty.number else " "
        rows.append(f"{mark} {number + 1:2d} vty {number:<5d} {user:<10} idle                 00:00:00   {peer}")
    rows += ["", "  Interface    User               Mode         Idle     Peer Address", ""]
    return "".join(f"{row}\n" for row in rows)


def privilege(vty: Vty, _: Arguments) -> str:
    """`show privilege`."""
    return f"Current privilege level is {vty.privilege}\n"
