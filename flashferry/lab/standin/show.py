"""The `show` commands."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.booting import as_it_stands, saved_files
from flashferry.lab.standin.hardware import fields
from flashferry.lab.standin.members import without_away

if TYPE_CHECKING:
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]


def version(vty: Vty, _: Arguments) -> str:
    """`show version`."""
    device = vty.device
    return without_away(device, as_it_stands(device, device.platform.texts["version"].format(**fields(device))))


_STUB = (
    "!\n! Last configuration change at 14:03:37 EST Wed Dec 7 2022 by netops\n"
    "! NVRAM config last updated at 19:53:49 EST Mon Dec 5 2022 by netops\n!\n!\n!\n!\n!\nend\n"
)
"""What a user sees who may not see a configuration (ansible-collections/cisco.ios 709)."""


def running_config(vty: Vty, _: Arguments) -> str:
    """`show running-config`; its byte count is that of the text below it."""
    text = vty.device.running_text() if not vty.device.faults.restricted_view else _STUB
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
    from flashferry.lab.standin.interfaces import canonical_interface

    running = vty.device.running
    section = running.find(f"interface {canonical_interface(arguments[0], running)}")
    lines = [section.text, *(f" {child.text}" for child in section.children)] if section else []
    text = "".join(f"{line}\n" for line in ["!", *lines, "end"])
    return f"Building configuration...\n\nCurrent configuration : {len(text)} bytes\n{text}\n"


def startup_config(vty: Vty, _: Arguments) -> str:
    """`show startup-config`."""
    text = vty.device.startup_text if not vty.device.faults.restricted_view else _STUB
    return f"Using {len(text)} out of 33554432 bytes\n{text}\n" if text else "startup-config is not present\n"


def clock_now(vty: Vty, __: Arguments) -> str:
    """`show clock`."""
    return clock.clock_line(vty.device.now()) + "\n"


def hosts(vty: Vty, _: Arguments) -> str:
    """`show hosts`."""
    domain = vty.device.running.value("ip domain name")
    default = f"Default domain is {domain}" if domain else "Default domain is not set"
    return (
        f"{default}\nName/address lookup uses static mappings\n\n"
        "Codes: u - unknown, e - expired, * - OK, ? - revalidate\n"
        "       t - temporary, p - permanent\n\n"
        "Host                      Port  Flags      Age Type   Address(es)\n"
    )


def inventory(vty: Vty, _: Arguments) -> str:
    """`show inventory`."""
    return vty.device.platform.texts["inventory"].format(**fields(vty.device))


def boot(vty: Vty, _: Arguments) -> str:
    """`show boot`: the variable follows the `boot system` lines that were saved."""
    return _boot(vty, "boot")


def bootvar(vty: Vty, _: Arguments) -> str:
    """`show bootvar`: another layout on Catalyst switches, the same on routers."""
    return _boot(vty, "bootvar" if "bootvar" in vty.device.platform.texts else "boot")


def _boot(vty: Vty, text: str) -> str:
    device, files = vty.device, saved_files(vty.device)
    names = "".join(f"{name},12;" for name in files)
    shown = device.platform.texts[text].format(
        variable=f"= {names}" if names else "does not exist",
        next=f"= {';'.join(files)};" if files else "does not exist",
        current=f"= {';'.join(device.boot_files or (device.image,))};",
    )
    return without_away(device, as_it_stands(device, shown))


def issu(vty: Vty, _: Arguments) -> str:
    """`show issu state detail`: behind its locks, what an ASR 1000 says of an upgrade (genieparser).

    In the recording the slot is that of the lock; of another one Genie takes no notice.
    """
    device = vty.device
    text = device.platform.texts["issu"]
    if not device.faults.issu_in_progress:
        return text
    head = text.partition("--- Starting installation")[0]
    slot = text.partition(" ---\n")[0].split()[-1]
    loaded = f"{device.now() - timedelta(minutes=5):%Y%m%d %H:%M:%S}"
    return head.removesuffix(f"{_NO_ISSU}\n") + _ISSU.format(slot=slot, image=device.image, loaded=loaded)


def users(vty: Vty, _: Arguments) -> str:
    """`show users`."""
    rows = ["    Line       User       Host(s)              Idle       Location"]
    for number, (user, peer) in sorted(vty.device.vtys.items()):
        mark = "*" if number == vty.number else " "
        rows.append(f"{mark} {number + 1:2d} vty {number:<5d} {user:<10} idle                 00:00:00   {peer}")
    rows += ["", "  Interface    User               Mode         Idle     Peer Address", ""]
    return "".join(f"{row}\n" for row in rows)


def ip_ssh(vty: Vty, _: Arguments) -> str:
    """`show ip ssh`: lines of the capture of IOS-XE 17 (genieparser); with legacy SSH the algorithms of IOS 15."""
    version = vty.device.running.value("ip ssh version") or "1.99"
    head = f"SSH Enabled - version {version if '.' in version else version + '.0'}"
    rows = [head, *(_OLD_SSH if vty.device.platform.has_legacy_ssh else _NEW_SSH)]
    return "".join(f"{row}\n" for row in rows)


def terminal(vty: Vty, _: Arguments) -> str:
    """`show terminal`: what matters of it here."""
    return f'Line {vty.number + 1}, Location: "", Type: "vt100"\nLength: {vty.rows} lines, Width: 80 columns\n'


def privilege(vty: Vty, _: Arguments) -> str:
    """`show privilege`."""
    return f"Current privilege level is {vty.privilege}\n"


_NO_ISSU = "No ISSU operation is in progress"
_ISSU = """\
Slot being modified: {slot}
  Loadversion time: {loaded} on vty 0
  Last operation: loadversion
  Rollback: automatic, remaining time before rollback: 00:40:00
  Original (rollback) image: {image}
  Running image: {image}
  Operating mode: sso, terminal state reached
"""
_NEW_SSH = (
    "Authentication methods:publickey,keyboard-interactive,password",
    "Hostkey Algorithms:rsa-sha2-512,rsa-sha2-256",
    "Encryption Algorithms:aes128-gcm@openssh.com,aes256-gcm@openssh.com,aes128-ctr,aes192-ctr,aes256-ctr",
    "MAC Algorithms:hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512",
    "KEX Algorithms:curve25519-sha256,ecdh-sha2-nistp256,ecdh-sha2-nistp384,diffie-hellman-group14-sha256",
    "Authentication timeout: 120 secs; Authentication retries: 3",
    "Minimum expected Diffie Hellman key size : 2048 bits",
)
_OLD_SSH = (
    "Authentication methods:publickey,keyboard-interactive,password",
    "Hostkey Algorithms:ssh-rsa",
    "Encryption Algorithms:aes128-ctr,aes192-ctr,aes256-ctr,aes128-cbc,3des-cbc,aes192-cbc,aes256-cbc",
    "MAC Algorithms:hmac-sha1,hmac-sha1-96",
    "Authentication timeout: 120 secs; Authentication retries: 3",
    "Minimum expected Diffie Hellman key size : 1024 bits",
)
