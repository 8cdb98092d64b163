"""What our server saw of a device, and why its copy failed."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid, Kind
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerView:
    """What our server saw of a device, from its first packet on; nothing is forgotten when it leaves.

    Attributes:
        client_seen: Whether a client connected from the device's address, or logged in for it.
        logged_in: Whether its ticket was used.
        came_from: Address that the login came from, or None.
        acked_bytes: Bytes of the file that it acknowledged; this only ever grows.
        failure: The last thing that went wrong by our server's account, or None.
        other_users: Users that were tried in vain from the device's address, masked.
        delivered: Whether it acknowledged the whole image, from the first byte on; None where no server of ours counts
            what the device fetches.
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
        """Return the kind of failure that a device with it has."""
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
    """Return whether the client of a ticket acknowledged the whole image.

    A transfer from the middle of the image (FTP's REST, HTTP's Range) delivers its rest alone, and no copy of ours
    starts
    there: nothing is at the target before it.
    """
    record = progress.record
    has_end = progress.state is TransferState.DELIVERED or progress.bytes_acked >= progress.size_bytes
    return has_end and (record is None or record.offset_bytes == 0)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")

"""File names that a URL and a command line carry unquoted: no blank, no `?` (help), no `%` (escape), no `|`."""


def offered(name: str, pattern: str, offers: Offered, answer: str = "\n") -> CopyQuestion:
    """Return a question that shows what the device assumes: it is confirmed only where that is ours."""
    return CopyQuestion(name=name, pattern=re.compile(pattern, re.IGNORECASE), answer=answer, offers=offers)


SERVER_ASKED = offered("server address", r"Address or name of remote host \[([^\]]*)\]\? ?", Offered.SERVER)

SOURCE_ASKED = offered("source file", r"Source filename \[([^\]]*)\]\? ?", Offered.SOURCE)

"""Some releases ask for both although the URL has them (ASR903, XE 3.16)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of our server.

    Attributes:
        well_known: The one that a URL need not name, and that takes a right of its own to listen on.
        others: Those that are tried where it cannot be had; few, so that a firewall can have a rule for them.
    """

    well_known: int
    others: range


ANY_ADDRESS = "0.0.0.0"  # noqa: S104 -- routers reach us by any interface; tickets decide who gets what

SAYS_LITTLE = re.compile(r"I/O error", re.IGNORECASE)

"""What the clients of HTTP and SSH say whatever went wrong before the first byte."""

_NO_COMMON = "algorithm in common"

"""Of our SSH server's sentence, which has both lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """The messages for a copy that fails.

    Attributes:
        no_client: That no client connected; `from` and the addresses follow.
        no_data: That a device logged in and takes nothing.
        hints: What to do, by the cause.
        stuck: What was missed and what to do, likewise, for a copy that does not start.
        says_little: Finds an error that the device prints for any cause before the first byte; None where each cause
            has
            its words.
        no_common: What to do where device and server have no algorithm in common; may be empty.
    """

    no_client: str
    no_data: str
    hints: Mapping[FailureCause, str]
    stuck: Mapping[FailureCause, tuple[str, str]]
    says_little: re.Pattern[str] | None = None
    no_common: str = ""

    def hint_for(self, failure: str | None) -> str | None:
        """Return what to do about a failure by our server's account of it, or None."""
        return self.no_common or None if _NO_COMMON in (failure or "") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where our server listens for a protocol, and with what; a protocol takes what concerns it.

    Attributes:
        port: Its port; 0 takes any free one.
        passive_ports: Range for data connections, or None: the kernel chooses.
        masquerade_address: Address to name to passive clients behind NAT; None names the one they came to.
        certificate: File with the certificate that we show, with those of its issuers after it; None without one.
        key: File with its private key, or None.
        host_keys: Folder of the SSH host keys, which are made there once; None without one.
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
    """Where a device finds an image, and with which credentials.

    Attributes:
        server: Our address as the device reaches it.
        port: Our port; 0 where it is not known yet.
        image: Catalogue name.
        username: The ticket's: letters and digits only, for `%xy` is forbidden in a URL and `?` would call the help.
        password: The same.
        vrf: VRF to use, or None.
        fingerprints: Of our SSH host keys, as devices may show them; none where they are not known.
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
        """Return server and image as they stand in the URL after the credentials."""
        # Old releases may not take a port in the URL.
        is_usual = self.port == self.transport.ports.well_known
        return f"{self.server}/{self.image}" if is_usual else f"{self.server}:{self.port}/{self.image}"

    @property
    def place_without_port(self) -> str:
        """Return the same as a device may print it."""
        return f"{self.server}/{self.image}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport(ABC):
    """A protocol by which an image comes to a device.

    Attributes:
        name: What it is called, which is how its URLs start.
        title: As people write it.
        is_clear_text: Image and ticket cross the network in clear.
        listener_name: The same for protocols that one listener of ours serves.
        ports: Those that our server listens on for it.
        words: The messages for a copy that fails.
        source: The line that names the source interface of its copies; None where the device opens no connection.
        takes_vrf: The copy command takes a VRF with it; else the source interface decides alone.
        needs_trust: The device must trust our certificate already.
        has_channel: It goes through a channel with a window of its own inside TCP's.
        questions: What the copy command asks with this protocol, before what it asks with any.
        is_over_tcp: It goes over TCP, so that TCP's lines concern it.
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
        """Return how its URLs begin, as the device spells them."""
        return self.name

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return every configuration line beside TCP's and its windows' that it may set on a device."""
        return () if self.source is None else (self.source,)

    def needed_settings(self, *, source_interface: str | None) -> Iterable[tuple[Setting, str | None]]:
        """Return which of its settings a copy needs, each with its value."""
        return () if self.source is None or source_interface is None else ((self.source, source_interface),)

    def windows(self, platform: Platform, /) -> tuple[ChannelWindow, ...]:
        """Return what widens a window of its own inside TCP's, the best first; none without such a window."""
        return platform.ssh.windows if self.has_channel else ()

    def url(self, offer: Offer) -> str:
        """Return the URL, with the credentials where the device takes them."""
        return f"{self.name}://{offer.username}:{offer.password}@{offer.place}"

    @abstractmethod
    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return what the file server needs to listen for it; see `flashferry.transports.serving`.

        Raises:
            ConfigInvalid: It needs what the options do not have.
            SettingsInvalid: An option is out of its range.
        """

    def fingerprints(self, _host_keys: Path, /) -> tuple[str, ...]:
        """Return the fingerprints that a device may ask about; none where it asks about none.

        Raises:
            SettingsInvalid: A host key cannot be read, made or used.
        """
        return ()

    def data_mode(self, _commands: Iterable[str], /) -> str | None:
        """Return how the data connection was asked for, by the commands that our server got; None: not at all."""
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
    """Return where a device finds the image of its ticket."""
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
    """Return why a copy cannot go by a VRF with this protocol, or None."""
    if vrf is None or source_interface is not None or transport.takes_vrf:
        return None
    return (
        f"VRF '{vrf}' of the inventory: the device's {transport.title} client takes none with the copy command, its "
        "source interface alone decides; expected 'source_interface' in the inventory, an interface of that VRF"
    )


def checked_name(image: str) -> str:
    """Return an image name that a copy command can carry.

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
    """Return the command with which a device fetches an image to a target such as `bootflash:image.bin` or `null:`.

    Raises:
        ConfigInvalid: The command would be too long for the device, or a name holds what it cannot take.
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
    """Return the copy command for people: words stand where the credentials are.

    Raises:
        ConfigInvalid: With the credentials it would be none; see `copy_command`.
    """
    copy_command(offer, target, platform)
    named = replace(offer, username="<user>", password="<password>")  # noqa: S106 -- the word, not one
    return platform.copy_command(offer.transport.url(named), target, _vrf(offer))


def _vrf(offer: Offer) -> str | None:
    return offer.vrf if offer.transport.takes_vrf else None
