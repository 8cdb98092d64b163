"""Settings of a server, as checked values. Contradictions are refused here, before anything starts."""

import ipaddress
import logging
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from flashferry.core.values import field_names, replace
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.socket_tuning import FALL_BACK_AFTER_S

LOG = logging.getLogger("flashferry.ftpserver")
"""The server's logger; its name is kept for existing logging configurations."""

CONGESTION_CONTROLS = ("auto", "bbr", "cubic", "reno", "system")

_PROTOCOL_NAME = re.compile(r"\w+(\.\w+)*:\w+")
_PROCESS_NAME = re.compile(r"[a-z]+")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingsInvalid(message)


class SenderProfile(Struct, frozen=True, kw_only=True):
    """How image data is sent.

    Attributes:
        congestion_control: `auto` (see `flashferry.fileserver.socket_tuning`), `bbr`, `cubic`, `reno`, or
            `system`: the kernel's.
        cap_bytes_per_s: Pacing cap per transfer in payload bytes per second; None for none.
        dscp: Differentiated services code point of data and control, 0 to 63 (1 is lower effort, RFC 8622).
        mss_bytes: Segment size requested on data connections, 88 to 32767; None leaves it to the path.
        notsent_lowat_bytes: Most unsent bytes in the kernel (TCP_NOTSENT_LOWAT); few keep the count of sent bytes
            exact.
        fall_back_after_s: BBR is replaced by CUBIC after more than 5 % were retransmitted for so long.
        unacked_limit_s: A connection without acknowledgements for so long is ended (TCP_USER_TIMEOUT).
        stall_after_s: A transfer without acknowledged bytes for so long is reported as stalled.
        give_up_after_s: A transfer without acknowledged bytes for so long fails, even if the peer keeps a zero window.
    """

    congestion_control: str = "auto"
    cap_bytes_per_s: int | None = None
    dscp: int = 0
    mss_bytes: int | None = None
    notsent_lowat_bytes: int = 512 * 1024
    fall_back_after_s: float = FALL_BACK_AFTER_S
    unacked_limit_s: float = 60.0
    stall_after_s: float = 10.0
    give_up_after_s: float = 900.0

    def __post_init__(self) -> None:
        _require(
            self.congestion_control in CONGESTION_CONTROLS,
            f"congestion_control: expected one of {', '.join(CONGESTION_CONTROLS)}, found {self.congestion_control!r}",
        )
        _require(
            self.cap_bytes_per_s is None or self.cap_bytes_per_s >= 1000,
            f"cap_bytes_per_s: expected at least 1000 or none, found {self.cap_bytes_per_s}",
        )
        _require(0 <= self.dscp <= 63, f"dscp: expected 0 to 63, found {self.dscp}")
        _require(
            self.mss_bytes is None or 88 <= self.mss_bytes <= 32767,
            f"mss_bytes: expected 88 to 32767 or none, found {self.mss_bytes}",
        )
        for name in ("notsent_lowat_bytes", "fall_back_after_s", "unacked_limit_s", "stall_after_s", "give_up_after_s"):
            _require(getattr(self, name) > 0, f"{name}: expected more than 0, found {getattr(self, name)}")

    def under(self, congestion_control: str) -> "SenderProfile":
        """Return the profile with another congestion control; unchanged if the name is empty."""
        return replace(self, congestion_control=congestion_control) if congestion_control else self


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of clients; the defaults do not affect routers, not even a thousand behind one NAT.

    Attributes:
        login_deadline_s: A session that has not logged in by then is closed.
        idle_s: A logged-in session without commands or transfer for so long is closed.
        data_connect_s: Time limit for establishing a data connection.
        sessions: Most sessions in total; None derives it from the open-file limit, at most 4000. A number that the
            limit does not allow is an error at start.
        anonymous_sessions_per_address: Sessions of one address that have not logged in yet.
        failed_login_delay_s: Delay of the reply to a failed login.
        failed_logins: Number of failures of one address within `ban_s` after which it is locked out for `ban_s`, unless
            a ticket names it.
        ban_s: See above.
        commands_burst: Commands that a session may send at once.
        commands_per_s: Commands per second that it may send after that.
        queued_replies: Replies that a client may leave unread.
        drain_s: Time for running transfers to finish after SIGTERM.
    """

    login_deadline_s: float = 30.0
    idle_s: float = 300.0
    data_connect_s: float = 30.0
    sessions: int | None = None
    anonymous_sessions_per_address: int = 1000
    failed_login_delay_s: float = 3.0
    failed_logins: int = 3
    ban_s: float = 60.0
    commands_burst: int = 60
    commands_per_s: float = 10.0
    queued_replies: int = 64
    drain_s: float = 3600.0

    def __post_init__(self) -> None:
        for name in field_names(type(self)):
            value = getattr(self, name)
            if name != "failed_login_delay_s" and value is not None:
                _require(value > 0, f"{name}: expected more than 0, found {value}")


class ListenerSettings(Struct, frozen=True, kw_only=True):
    """Settings of one listener.

    Attributes:
        protocol: Import path of the protocol, `package.module:NAME`; see `protocol.ProtocolFactory`.
        listen_address: IPv4 or IPv6 address to listen on; `0.0.0.0` all of IPv4, `::` both.
        port: Port to listen on; 0 takes any free one.
        other_ports: Ports to try, in order, if that one is not available.
        transports: Names of the transports served, which are the schemes of their URLs; at least one.
        process: Name of the process that serves it. Listeners with the same name share a process and its event loop.
        options: The protocol's own settings as plain values (numbers, texts, lists of them), checked by the protocol.
    """

    protocol: str
    listen_address: str = "0.0.0.0"  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0
    other_ports: tuple[int, ...] = ()
    transports: tuple[str, ...] = ("ftp",)
    process: str = "main"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require(bool(self.transports), "transports: expected at least one, found none")
        _require(
            _PROTOCOL_NAME.fullmatch(self.protocol) is not None,
            f"protocol: expected a name such as package.module:NAME, found {self.protocol!r}",
        )
        _require(
            _PROCESS_NAME.fullmatch(self.process) is not None,
            f"process: expected small letters, found {self.process!r}",
        )
        _require_address("listen_address", self.listen_address)
        for port in (self.port, *self.other_ports):
            _require(0 <= port <= 65535, f"port: expected 0 to 65535, found {port}")


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Settings of a server.

    Attributes:
        image_paths: Image files, or directories whose regular files are images. Names must be unique.
        listeners: The protocols to serve, at least one; the server's port is that of the first.
        profile: Socket settings of the sender.
        limits: Limits of clients; the limit on sessions is per process.
        sites_by_network: Whether the site of a transfer without one is the network of its client: the /24, with IPv6
            the /48 (`link_rate_store.network_of`).
        sample_interval_s: Interval of TCP_INFO readings per transfer, 0.05 to 60.
        stream_samples: Whether each progress event includes its reading, for telemetry as JSON lines.
        hash_cache_path: File that keeps digests between runs; None keeps them in memory only.
    """

    image_paths: tuple[Path, ...]
    listeners: tuple[ListenerSettings, ...]
    profile: SenderProfile = field(default_factory=SenderProfile)
    limits: Limits = field(default_factory=Limits)
    sites_by_network: bool = False
    sample_interval_s: float = 1.0
    stream_samples: bool = False
    hash_cache_path: Path | None = None

    def __post_init__(self) -> None:
        _require(bool(self.listeners), "listeners: expected at least one, found none")
        _require(
            0.05 <= self.sample_interval_s <= 60,
            f"sample_interval_s: expected 0.05 to 60, found {self.sample_interval_s}",
        )

    @property
    def processes(self) -> tuple[str, ...]:
        """The names of the processes that serve, in the order of the listeners."""
        return tuple(dict.fromkeys(listener.process for listener in self.listeners))

    def of_process(self, name: str) -> "ServerSettings":
        """Return the settings with the listeners of one process only."""
        return replace(self, listeners=tuple(one for one in self.listeners if one.process == name))

    def at_ports(self, ports: tuple[int, ...]) -> "ServerSettings":
        """Return the settings with the listeners' ports replaced, in order."""
        at = zip(self.listeners, ports, strict=True)
        return replace(self, listeners=tuple(replace(listener, port=port, other_ports=()) for listener, port in at))


def _require_address(name: str, text: str) -> None:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise SettingsInvalid(
            f"{name}: expected an IP address such as 192.0.2.1, found {text!r}", hint="Give an address, no name"
        ) from None
