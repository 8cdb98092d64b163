"""Faults of one device, switched from outside while it runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import asyncssh

from flashferry.lab.errors import LabError
from flashferry.lab.standin.config_session import ConfigSession

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import FlashWriter
    from flashferry.lab.standin.ssh_client.settings import Refill


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong; the default is nothing.

    Attributes:
        syslog_in_copy: A syslog line and a foreign autoconfig error appear inside the run of marks of a copy that
            succeeds, as C9300 captures show.
        silent_start_s: A copy is silent for so long before its first mark, and takes no data meanwhile.
        hold_copy_at_bytes: A copy, or a push to the device's SCP server, takes nothing more once so many bytes are on
            the flash, until this is None again: what comes waits in the window. Each time `happened` gets a line that
            starts with ``held:``.
        hold_command_pattern: A line that this expression finds, in any mode, is held like that before it is executed.
        hold_boot: A restart does not end until this is false again.
        keeps_partial_file: What is there of a failed copy stays on the flash, whatever the platform does.
        disk_full_after_bytes: The flash fills up when a copy has written so many bytes, though there was room.
        dir_breaks_at_80: `dir` breaks a row at 80 columns whatever `terminal width` says; a name too long for its row
            stands on the line after it, as a 3750-X shows it.
        delete_asks_about: `delete` asks about this file system, such as ``flash-2``, and deletes there.
        restricted_view: The user sees a stub of any configuration: eleven lines, `end` among them.
        claims_image: Path on the lab's host of an image that a copy of its name is claimed to be: the device reports,
            lists and hashes the whole of it, and its flash holds zeros. None: the device is honest.
        claims_after_bytes: It fetches so much before; 0: it does not even connect.
        slow_flash_bytes_per_s: The flash writes at this rate; None for the platform's.
        refuse_config_pattern: Configuration lines that this expression finds are refused by authorization.
        ignore_config_pattern: Configuration lines that it finds are accepted silently and not entered.
        ineffective_config_pattern: `ip tcp` lines that it finds are shown, but sockets do not follow them.
        largest_window_bytes: The largest `ip tcp window-size` that is in range, as before window scaling; None for that
            of the command.
        ssh_refill: The SSH client opens its channel's window by this rule (``half``, ``three packets``, ``packet``);
            None for that of the release, which is not known of any.
        ssh_client_offers: The SSH client offers these lists in place of its own, by ``kex``, ``encryption``, ``mac``
            and ``host_keys``.
        ssh_host_key_changed: The device remembers another key of every server, and refuses.
        ssh_asks_host_key: The device asks before it takes the key of a server that it does not know.
        ssh_channel_ends_after_bytes: The SSH client gives its channel up when a copy has brought so many bytes.
        ssh_breaks_on_rekey: The SSH client does not survive new keys in mid-connection, from either side.
        ssh_bulk_mode_breaks_after_bytes: With `ip ssh bulk-mode` on, the connection is reset when a copy has brought so
            many bytes, as users of a cat9000v report.
        ssh_sink_error: A copy by SCP comes whole, and the device's last word is this error all the same.
        ssh_crypto_bytes_per_s: The SSH client decrypts at this rate; None for that of its model.
        asks_what_url_has: `copy` asks for the server and the file although the URL has both, as an ASR903 does.
        glued_banner: The banner has no line end, so that the first prompt stands on its last line.
        password_twice: `enable` asks for the password a second time although it was right.
        load_header: Two lines about load and time stand in front of any `show` output.
        nvram_differs: `write` asks before it overwrites, as after a change of software.
        blocked_transports: Protocols of `copy` that do not get through, beside those that the world blocks: a list.
        https_bytes_per_s: The device decrypts HTTPS at this rate, a model; None for the platform's.
        no_http_client: The release has no HTTP client: `copy` does not know http: and https:.
        install_counts_undone: `install add` and `install activate` also refuse a configuration that was changed and
            changed back since it was saved; whether a release does is not known.
        install_add_fails: `install add` takes the image apart and ends with FAILED all the same; the table lists it.
        install_activate_fails: `install activate` fails for its lock, as with Cisco's bug CSCvx27665.
        install_bytes_per_s: `install add` takes an image apart at this rate; None for the platform's.
        member_leaves_after_bytes: The member that a copy inside the box goes to leaves (`members_away`) when so many
            bytes are on its flash; None for never.
        members_away: Members that are not there: numbers of switches, or ``standby``, as texts. Their file systems and
            what the tables say of them are gone; what lies on their flash is there again when they come back.
        boots_old_image: A restart into another image ends with the old one running, what was activated taken back.
        never_boots: A restart ends at ROMMON's prompt: SSH does not answer any more. Switched off, the event `reboot`
            brings the device back, as an operator at its console would.
        config_register: The register from the next restart on, such as ``0x2100``: one that ends in 0, or that passes
            the startup configuration over, ends that restart at ROMMON's prompt. None for the platform's.
        manual_boot: `boot manual` is on, where the platform knows it: a restart waits at the console.
        ports_down_after_boot: Interfaces that are down once the device has restarted: a list of full names.
        cdp_neighbors: Neighbours that CDP shows, a list of names; no fault, but what the next one needs.
        neighbors_lost: So many of them are gone once the device has restarted.
        eem_never_counts: An applet's countdown is taken and never begins, nor is the applet registered.
        clock_offset_s: The clock is wrong by so much, fast or, negative, slow.
        seconds_per_minute: How long a minute of `revert timer`, of the auto-abort timer and of an applet's countdown
            lasts, to shorten a rehearsal.
    """

    syslog_in_copy: bool = False
    silent_start_s: float = 0.0
    hold_copy_at_bytes: int | None = None
    hold_command_pattern: str | None = None
    hold_boot: bool = False
    drop_ssh_after_bytes: int | None = None
    copy_outlives_session: bool = False
    keeps_partial_file: bool = False
    reboot_after_bytes: int | None = None
    dead_control: bool = False
    flash_full: bool = False
    disk_full_after_bytes: int | None = None
    dir_breaks_at_80: bool = False
    delete_asks_about: str | None = None
    restricted_view: bool = False
    flip_byte: bool = False
    claims_image: str | None = None
    claims_after_bytes: int = 0
    slow_flash_bytes_per_s: float | None = None
    image_not_executable: bool = False
    refuse_config_pattern: str | None = None
    refuse_exec_pattern: str | None = None
    ignore_config_pattern: str | None = None
    ineffective_config_pattern: str | None = None
    largest_window_bytes: int | None = None
    ssh_refill: Refill | None = None
    ssh_sftp_requests: int | None = None
    ssh_client_offers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ssh_wrong_password: bool = False
    ssh_host_key_changed: bool = False
    ssh_asks_host_key: bool = False
    ssh_channel_ends_after_bytes: int | None = None
    ssh_rekey_after_bytes: int | None = None
    ssh_breaks_on_rekey: bool = False
    ssh_bulk_mode_breaks_after_bytes: int | None = None
    ssh_sink_error: str | None = None
    ssh_crypto_bytes_per_s: float | None = None
    tftp_serves_bytes_per_s: float | None = None
    tftp_serves_wrong_bytes: bool = False
    tftp_reboots_after_bytes: int | None = None
    config_locked_by: str | None = None
    prompt_delay_s: float = 0.0
    garble_echo: bool = False
    asks_what_url_has: bool = False
    glued_banner: bool = False
    password_twice: bool = False
    load_header: bool = False
    nvram_differs: bool = False
    reply_timeout_s: float | None = None
    blocked_transports: tuple[str, ...] = ()
    https_bytes_per_s: float | None = None
    no_http_client: bool = False
    install_busy: bool = False
    install_counts_undone: bool = False
    install_add_fails: bool = False
    install_activate_fails: bool = False
    install_bytes_per_s: float | None = None
    issu_in_progress: bool = False
    member_leaves_after_bytes: int | None = None
    members_away: tuple[str, ...] = ()
    boots_old_image: bool = False
    never_boots: bool = False
    config_register: str | None = None
    manual_boot: bool = False
    ports_down_after_boot: tuple[str, ...] = ()
    cdp_neighbors: tuple[str, ...] = ()
    neighbors_lost: int = 0
    eem_never_counts: bool = False
    clock_offset_s: float = 0.0
    boot_s: float | None = None
    seconds_per_minute: float = 60.0

    def with_switches(self, switches: dict[str, Any]) -> Faults:
        """Return a copy with some switches set. Raises LabError: there is no such switch."""
        known = [each.name for each in fields(self)]
        for name in switches:
            if name not in known:
                raise LabError(f"There is no fault {name!r}; there are {', '.join([*known, *EVENTS])}.")
        return replace(self, **switches)


EVENTS = (
    "other_user_configures",
    "other_user_saves",
    "other_user_removes_inactive",
    "reboot",
    "drop_ssh",
    "new_host_key",
    "syslog",
    "applets_fire",
)
"""What happens at once instead of being switched: lines that another user types (a list), who saves (a name), `install
remove inactive` with a yes (true), a restart (seconds, or true for the platform's), the end of all SSH connections
(true), another host key (true), a syslog line (its text), the end of all countdowns of applets (true)."""

OTHER_USER = "colleague"


def switch(device: Device, switches: dict[str, Any]) -> None:
    """Switch faults of a device, and let happen what is an event.

    Raises LabError: there is no such switch, or a line of the other user is no configuration command.
    """
    device.faults = device.faults.with_switches({k: v for k, v in switches.items() if k not in EVENTS})
    for name in EVENTS:
        if switches.get(name):
            device.happened.append(f"event: {name}")
            _happen(device, name, switches[name])


def _happen(device: Device, name: str, value: Any) -> None:
    match name:
        case "other_user_configures":
            _other_user_configures(device, value)
        case "other_user_saves":
            device.save(OTHER_USER if value is True else str(value))
        case "other_user_removes_inactive":
            _other_user_removes_inactive(device)
        case "reboot":
            device.restart(None if value is True else float(value), reason="power-on")
        case "drop_ssh" if device.listener is not None:
            device.listener.drop_connections()
        case "new_host_key" if device.listener is not None:
            device.listener.use_key(asyncssh.generate_private_key("ssh-rsa", key_size=2048))
        case "syslog":
            device.syslog(value)
        case "applets_fire":
            device.applets.fire()


def _other_user_configures(device: Device, lines: list[str]) -> None:
    session = ConfigSession(device)
    for line in lines:
        if not isinstance(session.take(line), str):
            raise LabError(f"{device.settings.name}: the other user's line {line!r} is no configuration command.")
        device.happened.append(f"typed by another: {line}")
    device.touch(OTHER_USER)
    device.syslog(f"%SYS-5-CONFIG_I: Configured from console by {OTHER_USER} on vty15 (198.51.100.7)")


def _other_user_removes_inactive(device: Device) -> None:
    """Beside another operation the device refuses it, as it refuses anybody's."""
    if device.install is None:
        raise LabError(f"{device.settings.name}: there is no install mode to remove anything in.")
    if not device.install.is_busy:
        device.install.remove(device.install.removable())
        device.syslog("%INSTALL-5-INSTALL_COMPLETED_INFO: R0/0: install_engine: Completed install remove")


_POLL_S = 0.02


async def hold(device: Device, what: str, is_held: Callable[[], bool]) -> None:
    """Note that something is held, and wait until it is not."""
    note(device, what)
    while is_held():
        await asyncio.sleep(_POLL_S)


def note(device: Device, what: str) -> None:
    """Note what is held, where a test can see it."""
    device.happened.append(f"held: {what}")


def allowed_bytes(device: Device, size_bytes: int) -> int | None:
    """Return how many bytes a copy that has so many may still take: 0 while it is held, None for all there are."""
    limit = device.faults.hold_copy_at_bytes
    return None if limit is None else max(0, limit - size_bytes)


class HeldWriter:
    """A writer that stops at the byte at which the device holds its copies; ``stop`` ends the wait, too."""

    def __init__(self, device: Device, inner: FlashWriter, stop: threading.Event) -> None:
        self._device = device
        self._inner = inner
        self._stop = stop
        self._size_bytes = 0

    def write(self, chunk: bytes) -> None:
        """Write a piece, up to that byte and after the release from there. Raises NoSpaceError: it does not fit."""
        while chunk and not self._stop.is_set():
            part = chunk[: allowed_bytes(self._device, self._size_bytes)]
            if part:
                self._inner.write(part)
                self._size_bytes += len(part)
                chunk = chunk[len(part) :]
            self._wait()

    def close(self) -> None:
        """Finish the file."""
        self._inner.close()

    def _wait(self) -> None:
        if allowed_bytes(self._device, self._size_bytes) != 0:
            return
        self._inner.flush()
        note(self._device, f"copy at {self._size_bytes} bytes")
        while allowed_bytes(self._device, self._size_bytes) == 0 and not self._stop.wait(_POLL_S):
            pass
