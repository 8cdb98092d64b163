"""Base class of transports, the copy command, and what our server saw of a device whose copy failed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.core.values import replace
from flashferry.devices.platforms.platform import (
    ChannelWindow,
    CopyQuestion,
    Offered,
    Platform,
    Setting,
    ValueKind,
)
from flashferry.fileserver import TransferState
from inventory.host_view import WORD

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings, Ticket, TransferProgress


class ServerView(Struct, frozen=True, kw_only=True):
    """What our server saw of a device since its first packet, kept after the device disconnects.

    Attributes:
        client_seen: Whether a client connected from the device's address, or logged in for it.
        logged_in: Whether it logged in with its ticket.
        came_from: Address from which it logged in, or None.
        acked_bytes: Bytes of the file that it acknowledged; never decreases.
        failure: The last failure that our server recorded, or None.
        other_users: User names of failed logins from the device's address, masked.
        delivered: Whether it acknowledged the whole image from the first byte; None if no server of ours serves the
            copy.
    """

    client_seen: bool = False
    logged_in: bool = False
    came_from: str | None = None
    acked_bytes: int = 0
    failure: str | None = None
    other_users: tuple[str, ...] = ()
    delivered: bool | None = None
    is_over: bool = False


class FailureCause(StrEnum):
    """Why a copy failed."""

    NO_CLIENT = "no client seen"
    NO_LOGIN = "no login"
    WRONG_SOURCE = "wrong source address"
    NO_DATA = "no data connection"
    BROKEN_OFF = "broken off"

    @property
    def kind(self) -> Kind:
        """Return the error kind of this cause."""
        return _KINDS[self]


_KINDS = {
    FailureCause.NO_CLIENT: Kind.NO_CLIENT,
    FailureCause.NO_LOGIN: Kind.NO_LOGIN,
    FailureCause.WRONG_SOURCE: Kind.WRONG_SOURCE,
    FailureCause.NO_DATA: Kind.NO_DATA,
    FailureCause.BROKEN_OFF: Kind.BROKEN_OFF,
}


def view_of(progress: TransferProgress) -> ServerView:
    """Return what a ticket's progress shows of the device that has it."""
    return ServerView(
        client_seen=progress.state is not TransferState.WAITING,
        logged_in=progress.state not in {TransferState.WAITING, TransferState.CONNECTED},
        acked_bytes=progress.bytes_acked,
        failure=progress.last_error,
        delivered=delivered_whole(progress),
        is_over=progress.state.is_final,
    )


def delivered_whole(progress: TransferProgress) -> bool:
    """Return whether the client of a ticket acknowledged the whole image, from its first byte.

    A transfer from the middle of the image (FTP's REST, HTTP's Range) delivers only the rest. No copy of ours starts
    there, for there is no partial file at its target.
    """
    record = progress.record
    has_end = progress.state is TransferState.DELIVERED or progress.bytes_acked >= progress.size_bytes
    return has_end and (record is None or record.offset_bytes == 0)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""File names that need no quoting in a URL or command line: no space, no `?` (help), no `%` (escape), no `|`."""


def offered(name: str, pattern: str, offers: Offered, answer: str = "\n") -> CopyQuestion:
    """Return a question in which the device offers a default value; it is confirmed only if that is our value."""
    return CopyQuestion(name=name, pattern=re.compile(pattern, re.IGNORECASE), answer=answer, offers=offers)


SERVER_ASKED = offered("server address", r"Address or name of remote host \[([^\]]*)\]\? ?", Offered.SERVER)

SOURCE_ASKED = offered("source file", r"Source filename \[([^\]]*)\]\? ?", Offered.SOURCE)
"""Questions for server and file, which some releases ask although the URL has both (ASR903, XE 3.16)."""


class Ports(Struct, frozen=True, kw_only=True):
    """Ports on which our server listens for a transport.

    Attributes:
        well_known: The protocol's own port, which a URL need not name. Listening on it needs a privilege.
        others: Ports to try if that one is not available; few, so that a firewall can have a rule for them.
    """

    well_known: int
    others: range


ANY_ADDRESS = "0.0.0.0"  # noqa: S104 -- routers reach us by any interface; tickets decide who gets what

SAYS_LITTLE = re.compile(r"I/O error", re.IGNORECASE)
"""Error that the clients of HTTP and SSH print for every failure before the first byte."""

_NO_COMMON = "algorithm in common"
"""Part of our SSH server's message about a failed negotiation, which has the algorithm lists of both sides."""


class Messages(Struct, frozen=True, kw_only=True):
    """Messages for failed copies of a transport.

    Attributes:
        no_client: Message that no client connected; `from` and the addresses are appended.
        no_data: Message that a device logged in but fetches nothing.
        hints: What to do, by cause.
        stuck: What was expected and what to do, by cause, for a copy that does not start.
        says_little: Matches an error that the device prints for every cause before the first byte; None if it prints a
            different one for each cause.
        no_common: What to do if device and server have no common algorithm; may be empty.
    """

    no_client: str
    no_data: str
    hints: Mapping[FailureCause, str]
    stuck: Mapping[FailureCause, tuple[str, str]]
    says_little: re.Pattern[str] | None = None
    no_common: str = ""

    def hint_for(self, failure: str | None) -> str | None:
        """Return what to do about a failure that our server recorded, or None."""
        return self.no_common or None if _NO_COMMON in (failure or "") else None


class ListenOptions(Struct, frozen=True, kw_only=True):
    """Settings of a listener; each protocol uses those that concern it.

    Attributes:
        port: Port to listen on; 0 takes any free one.
        passive_ports: First and last port for data connections; None lets the kernel choose.
        masquerade_address: Address to name to passive clients behind NAT; None names the one that they connected to.
        certificate: File with our certificate followed by those of its issuers, or None.
        key: File with its private key, or None.
        host_keys: Folder of the SSH host keys, which are generated there once; None without one.
    """

    address: str
    port: int = 0
    passive_ports: tuple[int, int] | None = None
    masquerade_address: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    host_keys: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Server, image and credentials of a device's copy.

    Attributes:
        server: Our address as the device reaches it.
        port: Our port; 0 if it is not known yet.
        image: Catalogue name.
        username: User name of the ticket: letters and digits only, for `%xy` is not allowed in the URL and `?` would
            call the help.
        password: Password of the ticket, likewise.
        vrf: VRF to use, or None.
        fingerprints: Fingerprints of our SSH host keys in all forms that devices show; empty if not known.
    """

    transport: Transport
    server: str
    port: int
    image: str
    username: str = field(repr=False)
    password: str = field(repr=False)
    vrf: str | None = None
    fingerprints: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Return the part of the URL after the credentials: server, port unless it is the well-known one, and image."""
        # Old releases may not accept a port in the URL.
        is_usual = self.port == self.transport.ports.well_known
        return f"{self.server}/{self.image}" if is_usual else f"{self.server}:{self.port}/{self.image}"

    @property
    def place_without_port(self) -> str:
        """Return server and image without a port, as a device may print them."""
        return f"{self.server}/{self.image}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport(ABC):
    """A protocol by which an image is copied to a device.

    Attributes:
        name: Name in options and inventory, in lower case; also the scheme of its URLs.
        title: Name in sentences.
        is_clear_text: Whether image and ticket cross the network in clear text.
        listener_name: Name of the listener; equal for protocols that share one.
        ports: Ports that our server listens on for it.
        words: Messages for a failed copy.
        source: Configuration line of its source interface; None if the device opens no connection.
        takes_vrf: Whether the copy command accepts a VRF; if not, the source interface alone selects it.
        needs_trust: Whether the device must already trust our certificate.
        has_channel: Whether it uses a channel with a window of its own inside TCP's.
        questions: Questions that the copy command asks with this protocol, tried before those of every protocol.
        is_over_tcp: Whether it uses TCP, so that the device's TCP settings matter.
    """

    name: str
    title: str
    is_clear_text: bool
    listener_name: str
    ports: Ports
    words: Messages
    source: Setting | None
    takes_vrf: bool = True
    needs_trust: bool = False
    has_channel: bool = False
    questions: tuple[CopyQuestion, ...] = (SERVER_ASKED, SOURCE_ASKED)
    is_over_tcp: bool = True

    @property
    def scheme(self) -> str:
        """Return the scheme of its URLs, as the device prints it."""
        return self.name

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return all configuration lines that it may set on a device, besides those of TCP and of channel windows."""
        return () if self.source is None else (self.source,)

    def needed_settings(self, *, source_interface: str | None) -> Iterable[tuple[Setting, str | None]]:
        """Return the configuration lines that a copy needs, each with its value."""
        return () if self.source is None or source_interface is None else ((self.source, source_interface),)

    def windows(self, platform: Platform, /) -> tuple[ChannelWindow, ...]:
        """Return the settings that widen its channel's window, the best first; empty without a channel."""
        return platform.ssh.windows if self.has_channel else ()

    def url(self, offer: Offer) -> str:
        """Return the URL, with the credentials if the device takes them from there."""
        return f"{self.name}://{offer.username}:{offer.password}@{offer.place}"

    @abstractmethod
    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return the settings of a listener for it; see `flashferry.transports.listeners`.

        Raises:
            ConfigInvalid: An option that it needs is missing.
            SettingsInvalid: An option is out of its range.
        """

    def fingerprints(self, _host_keys: Path, /) -> tuple[str, ...]:
        """Return the fingerprints of our host keys that a device may ask about; empty without SSH.

        Raises:
            SettingsInvalid: A host key cannot be read, made or used.
        """
        return ()

    def data_mode(self, _commands: Iterable[str], /) -> str | None:
        """Return FTP's data mode by the commands that our server received; None for protocols without one."""
        return None


def offer_of(
    transport: Transport,
    ticket: Ticket,
    *,
    server: str,
    port: int,
    vrf: str | None = None,
    fingerprints: tuple[str, ...] = (),
) -> Offer:
    """Return the offer of a ticket's image."""
    return Offer(
        transport=transport,
        server=server,
        port=port,
        image=ticket.image_name,
        username=ticket.username,
        password=ticket.password,
        vrf=vrf,
        fingerprints=fingerprints,
    )


def source_setting(keyword: str, command: str) -> Setting:
    """Return the configuration line that names the source interface of a protocol's copies."""
    return Setting(
        keyword=keyword,
        command=command,
        tail=r"(?: [A-Za-z][\w-]*(?: ?\d[\w/.:]*)?)?",
        kind=ValueKind.INTERFACE,
        is_tuning=False,
    )


def return_path_refusal(transport: Transport, *, vrf: str | None, source_interface: str | None) -> str | None:
    """Return why a copy by this protocol cannot use a VRF, or None."""
    if vrf is None or source_interface is not None or transport.takes_vrf:
        return None
    return (
        f"VRF '{vrf}' of the inventory: the device's {transport.title} client takes none with the copy command, its "
        "source interface alone decides; expected 'source_interface' in the inventory, an interface of that VRF"
    )


def checked_name(image: str) -> str:
    """Check that a copy command can contain an image name, and return it.

    Raises:
        ConfigInvalid: It has other characters.
    """
    if not _NAME.fullmatch(image):
        raise ConfigInvalid(
            f"image name {image!r}: expected letters, digits, '.', '_', '+' and '-' only, which is what an IOS "
            "command line carries",
            hint="Rename the file",
        )
    return image


def copy_command(offer: Offer, target: str, platform: Platform) -> str:
    """Return the command by which a device copies an image to a target such as `bootflash:image.bin` or `null:`.

    Raises:
        ConfigInvalid: The command would be too long for the device, or a name has characters that it cannot contain.
    """
    checked_name(offer.image)
    for what, word in (("server address", offer.server), ("VRF", offer.vrf or "x")):
        if not WORD.fullmatch(word):
            raise ConfigInvalid(
                f"{what} {word!r}: expected letters, digits, '.', '_' and '-' only",
                hint="Correct it in the inventory ('server_address', 'vrf'), or give another with --address",
            )
    command = platform.copy_command(offer.transport.url(offer), target, _vrf(offer))
    if len(command) > platform.copying.longest_command:
        raise ConfigInvalid(
            f"image name '{offer.image}': the copy command would have {len(command)} characters, an IOS line takes "
            f"{platform.copying.longest_command}",
            hint="Give the file a shorter name",
        )
    return command


def shown_command(offer: Offer, target: str, platform: Platform) -> str:
    """Return the copy command for display, with placeholders instead of the credentials.

    Raises:
        ConfigInvalid: The command with the credentials would be invalid; see `copy_command`.
    """
    copy_command(offer, target, platform)
    named = replace(offer, username="<user>", password="<password>")  # noqa: S106 -- the word, not one
    return platform.copy_command(offer.transport.url(named), target, _vrf(offer))


def _vrf(offer: Offer) -> str | None:
    return offer.vrf if offer.transport.takes_vrf else None
