"""One device: its configuration, files, connections and faults."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError
from flashferry.lab.standin import clock, hardware
from flashferry.lab.standin.config_rules import Place, Refusal, find
from flashferry.lab.standin.config_session import Applets, ConfigSession
from flashferry.lab.standin.configuration import decode7, matches9, parse_lines
from flashferry.lab.standin.configure import Archive
from flashferry.lab.standin.connections import ConnectionTable
from flashferry.lab.standin.faults import Faults
from flashferry.lab.standin.flash import Flash
from flashferry.lab.standin.hardware import is_away, running_release, software_lines
from flashferry.lab.standin.install import InstallState, release_of
from flashferry.lab.standin.receiver import OPTIMISTIC
from flashferry.lab.standin.ssh_client.pull import KnownHosts
from flashferry.lab.standin.tftp import TftpServer
from flashferry.lab.standin.trustpoints import trustpoint_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from flashferry.lab.standin.commands import Scheduled
    from flashferry.lab.standin.config_session import ConfigLock
    from flashferry.lab.standin.platform import Platform
    from flashferry.lab.standin.ssh import Listener

DEFAULT_BYTES = 4096
"""`logging buffered` without a size (Cisco command reference)."""


@dataclass(slots=True)
class LogBuffer:
    """The last messages, as many as fit; `monitored` is how many a session saw by `terminal monitor`."""

    size_bytes: int = DEFAULT_BYTES
    count: int = 0
    monitored: int = 0
    _lines: list[str] = field(default_factory=list)

    def add(self, line: str, *, monitored: bool) -> None:
        """Take a message."""
        self.count += 1
        self.monitored += monitored
        self._lines.append(line)
        self.resize(self.size_bytes)

    def resize(self, size_bytes: int) -> None:
        """Hold more, or less; the oldest messages are dropped."""
        self.size_bytes = size_bytes
        while self._lines and sum(len(line) + 1 for line in self._lines) > size_bytes:
            del self._lines[0]

    def clear(self) -> None:
        """Forget the messages."""
        self._lines.clear()

    def lines(self) -> list[str]:
        """Return the messages, the oldest first."""
        return list(self._lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """What a world gives a device of its own; the attributes are those of `flashferry.lab.world_spec.DeviceSpec`.

    An empty user name or enable secret: there is none but those of the configuration lines.
    """

    name: str
    address: str
    username: str
    password: str = field(repr=False)
    enable_secret: str = field(repr=False)
    port: int = 22
    privilege: int = 15
    serial: str = "9LABSTANDIN"
    config_lines: tuple[str, ...] = ()
    flash_free_bytes: int | None = None
    refused_commands: tuple[str, ...] = ()
    extended_passive: bool | None = None
    trustpoints: tuple[tuple[str, str], ...] = ()
    blocked_transports: tuple[str, ...] = ()
    control_plane_packets_per_s: int | None = None
    receiver: str = OPTIMISTIC


def check_lines(name: str, lines: tuple[str, ...]) -> None:
    """Check that configuration lines are known; those that begin with a blank belong to the section above them.

    Raises LabError: one is not known; only its first words are named, for there may be a secret after them.
    """
    stack: tuple[Place, ...] = ()
    for line in lines:
        found = find(stack if line.startswith(" ") else (), line)
        if isinstance(found, Refusal):
            raise _unknown(name, line)
        stack = (*stack[: len(found.place.lines)], *filter(None, (found.opened,)))


def _unknown(name: str, line: str) -> LabError:
    start = " ".join(line.split()[:3])
    return LabError(f"{name}: the stand-in does not know the configuration line '{start} ...'.")


class Device:
    """A stand-in device.

    Attributes:
        happened: What happened to it, in its order, for the lab's own eyes: commands given that restart, install or
            save, what was refused by a fault, restarts and what they ended with, timers that ran out, events of others.
    """

    def __init__(self, platform: Platform, settings: DeviceSettings, root: Path) -> None:
        self.platform = platform
        self.settings = settings
        root.mkdir(mode=0o700)
        self.flash = Flash(platform.flash, root / "0", free_bytes=settings.flash_free_bytes)
        others = enumerate(platform.other_flashes, start=1)
        self.file_systems = (self.flash, *(Flash(figures, root / str(i)) for i, figures in others))
        self.connections = ConnectionTable()
        self.known_hosts = KnownHosts()
        self.last_ssh_path = ""
        self.archive = Archive(self)
        self.applets = Applets(self)
        self.config_lock: ConfigLock | None = None
        self.scheduled_reload: Scheduled | None = None
        self.listener: Listener | None = None
        self.tftp = TftpServer(self)
        self.link_control: Path | None = None
        self.faults = Faults()
        self.monitors: list[Callable[[str], None]] = []
        self.vtys: dict[int, tuple[str, str]] = {}
        self.guesses: dict[str, int] = {}
        self.happened: list[str] = []
        self.is_modified = False
        self.image = platform.image
        self.install = InstallState(self, platform.install) if platform.install is not None else None
        self._booted_version = self.install.running.version if self.install is not None else ""
        self.reload_reason = ""
        self._reason = ""
        self.dead_ports: tuple[str, ...] = ()
        self.lost_neighbors = 0
        self._booted_s = time.monotonic()
        self._log = LogBuffer()
        self.running = platform.configuration(serial=settings.serial, address=settings.address)
        self._configure(self._first_lines())
        self._changed: tuple[datetime, str] = (clock.now(), "")
        self._saved: tuple[datetime, str] | None = None
        self.startup_text = self._stamped(self.running.render())
        self._blank = self.running.refilled([])
        self.boot_files = hardware.saved_files(self)
        self._log_boot()

    @property
    def hostname(self) -> str:
        """The configured name."""
        return self.running.value("hostname") or "Router"

    @property
    def uptime_s(self) -> float:
        """Seconds since it booted."""
        return time.monotonic() - self._booted_s

    @property
    def log(self) -> LogBuffer:
        """What was logged since it booted; its size is that of the `logging buffered` line."""
        words = (self.running.value("logging buffered") or "").split()
        self._log.resize(next((int(word) for word in words if word.isdecimal() and int(word) > 7), DEFAULT_BYTES))
        return self._log

    @property
    def release(self) -> str | None:
        """The release that runs, as file names have it, where it is not the stock one; else None."""
        if self.install is not None and self.image.endswith("packages.conf"):
            # What was activated runs from the restart on, which comes some seconds after the prompt.
            running, stock = self._booted_version, self.install.figures.version
            return None if running == stock else ".".join(running.split(".")[:3])
        return None if self.image == self.platform.image else release_of(self.image)

    @property
    def runs(self) -> str:
        """What runs: the version of the package, or the image's file."""
        return self._booted_version if self.install is not None and self.image.endswith("packages.conf") else self.image

    def clock_line(self) -> str:
        """Return what `show clock` prints."""
        return clock.clock_line(self.now())

    def knows_prefix(self, prefix: str) -> bool:
        """Return whether a name before a colon means anything to this device."""
        if self.faults.no_http_client and prefix.lower() in {"http", "https"}:
            return False
        return prefix.lower() in self.platform.prefixes

    def file_system(self, prefix: str) -> Flash | None:
        """Return the file system that a name before a colon means; None for those that hold no files of ours.

        That of a member that is away is not there.
        """
        found = next((each for each in self.file_systems if each.owns(prefix)), None)
        return None if found is None or is_away(self, found) else found

    @property
    def is_unsaved(self) -> bool:
        """Whether running and startup configuration differ, but for the stamps on top."""
        return self._blank.refilled(parse_lines(self.startup_text)).render() != self.running.render()

    def running_text(self) -> str:
        """Return the running configuration as the device would show it, from the stamp to ``end``."""
        return self._stamped(self.running.render())

    def touch(self, user: str) -> None:
        """Note that a user has left configuration mode: the last-change stamp, and what follows the configuration."""
        self._changed = (self.now(), user)
        self.is_modified = True
        self.applets.settle()
        self.tftp.follow()
        if self.listener is not None:
            self.listener.follow_window()

    def save(self, user: str) -> None:
        """Write the running configuration to the startup configuration."""
        self._saved = (self.now(), user)
        self.startup_text = self.running_text()
        self.is_modified = False
        if self.archive.saves_on_write:
            self.archive.store()

    def shut_down(self) -> None:
        """Lose what a device loses without power: sessions, connections, the running configuration."""
        self.archive.confirm()
        self.config_lock = None
        self.tftp.stop()
        self.monitors.clear()
        self.vtys.clear()

    def restart(self, seconds: float | None = None, reason: str = "Reload Command") -> None:
        """Drop every session and be away for some time, by default as long as the platform takes.

        Then give the reason.
        """
        self._reason = reason
        if self.scheduled_reload is not None:
            self.scheduled_reload.timer.cancel()
            self.scheduled_reload = None
        self.happened.append(f"restart: {reason}")
        if self.listener is not None:
            own = self.platform.boot_s if self.faults.boot_s is None else self.faults.boot_s
            self.listener.restart(own if seconds is None else seconds)

    def boot(self) -> bool:
        """Come up with the startup configuration and the image that it names; False where it stays at ROMMON."""
        image = self._booted_image()
        if image is None or self.faults.never_boots:
            self.happened.append("stays at ROMMON")
            return False
        self._booted_s = time.monotonic()
        self._booted_version = self.install.running.version if self.install is not None else ""
        self.running = self._blank.refilled(parse_lines(self.startup_text))
        self.is_modified = False
        self._log = LogBuffer()
        self.image, self.reload_reason = image, self._reason
        if self.install is not None:
            self._booted_version = self.install.running.version
        self.boot_files = hardware.saved_files(self)
        self.dead_ports, self.lost_neighbors = tuple(self.faults.ports_down_after_boot), self.faults.neighbors_lost
        self.happened.append(f"boot: {self.runs}")
        self.happened += [f"port down: {port}" for port in self.dead_ports]
        self._log_boot()
        self.applets.restart()
        self.tftp.follow()
        return True

    def _booted_image(self) -> str | None:
        if not self.faults.boots_old_image:
            return hardware.next_image(self)
        if self.install is not None and self.install.is_uncommitted:
            self.install.abort()
        return self.image

    def _log_boot(self) -> None:
        version = running_release(self, self.platform.texts["version"])
        self.syslog(f"%SYS-5-RESTART: System restarted --\n{software_lines(version)}")
        self.syslog("%SSH-5-ENABLED: SSH 2.0 has been enabled")

    def syslog(self, text: str) -> None:
        """Log a message, and send it to the sessions that monitor."""
        line = f"{clock.syslog_stamp(self.now())}: {text}"
        self.log.add(line, monitored=bool(self.monitors))
        for monitor in list(self.monitors):
            monitor(line)

    def password_fits(self, user: str, password: str) -> bool:
        """Return whether the running configuration has this user with this password."""
        hashed = (self.running.value(f"username {user}") or "").rpartition("secret 9 ")[2]
        return matches9(password, hashed)

    def enable_fits(self, secret: str) -> bool:
        """Return whether this is the enable secret."""
        hashed = (self.running.value("enable secret") or "").rpartition("9 ")[2]
        return matches9(secret, hashed)

    def client_credentials(self, client: str) -> tuple[str | None, str | None]:
        """Return username and password of the lines of a client (`ip ftp`, `ip http client`), None where absent."""
        shown = self.running.value(f"{client} password")
        return self.running.value(f"{client} username"), decode7(shown.split()[-1]) if shown else None

    def note_guess(self, name: str) -> None:
        """Count that a text was printed that was never seen on a device."""
        if name:
            self.guesses[name] = self.guesses.get(name, 0) + 1

    def now(self) -> datetime:
        """Return what the device takes the time to be."""
        return clock.now() + timedelta(seconds=self.faults.clock_offset_s)

    def take_vty(self, user: str, peer: str) -> int | None:
        """Return a free vty line, or None when all are in use."""
        free = (n for n in range(self.platform.vty_lines) if n not in self.vtys)
        number = next(free, None)
        if number is not None:
            self.vtys[number] = (user, peer)
        return number

    def _configure(self, lines: tuple[str, ...]) -> None:
        """Type lines; a section ends where a line does not begin with a blank."""
        session = ConfigSession(self)
        for line in lines:
            if not line.startswith(" "):
                session.leave_section(wholly=True)
            if not isinstance(session.take(line.strip()), str):
                raise _unknown(self.settings.name, line)

    def _first_lines(self) -> tuple[str, ...]:
        own, recording = self.settings, self.platform.recording
        # A recorded configuration has its own name; else the prompts have it.
        has_name = self.platform.recorded_configuration is not None and self.running.find("hostname") is not None
        name = (recording.hostname if recording is not None else "") or own.name
        return (
            *(() if has_name else (f"hostname {name}",)),
            *((f"enable secret {own.enable_secret}",) if own.enable_secret else ()),
            *((f"username {own.username} privilege {own.privilege} secret {own.password}",) if own.username else ()),
            *(line for name, pem in own.trustpoints for line in trustpoint_lines(name, pem)),
            *own.config_lines,
        )

    def _stamped(self, body: str) -> str:
        moment, user = self._changed
        lines = [f"! Last configuration change at {clock.stamp(moment)}{f' by {user}' if user else ''}"]
        if self._saved is not None:
            moment, user = self._saved
            lines.append(f"! NVRAM config last updated at {clock.stamp(moment)} by {user}")
        return "".join(f"{line}\n" for line in ("!", *lines, "!")) + body
