"""A transport: the protocol that its file in this folder fulfils, and what a device is told by it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.platforms.platform import CopyQuestion, Platform, Setting
from flashferry.transports.witness import Hindrance
from inventory.view import WORD

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings, Ticket

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""File names that a URL and a command line carry unquoted: no blank, no `?` (help), no `%` (escape), no `|`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Ports of our server.

    Attributes:
        well_known: The one that a URL need not name, and that takes a right of its own to listen on.
        others: Those that are tried where it is not to be had; few, so that a firewall can have a rule for them.
    """

    well_known: int
    others: range


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What people are told where a copy does not come about.

    Attributes:
        nobody_came: That nobody connected; `from` and the addresses follow.
        nothing_flows: That a device logged in and takes nothing.
        hints: What to do, by what is in the way.
        stuck: What was missed and what to do, likewise, where a copy that was waited for does not begin.
    """

    nobody_came: str
    nothing_flows: str
    hints: Mapping[Hindrance, str]
    stuck: Mapping[Hindrance, tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a device is told: where it finds an image, and with which credentials.

    Attributes:
        transport: The protocol.
        server: Our address as the device reaches it.
        port: Our port; 0 where it is not known yet.
        image: Catalogue name.
        username: The ticket's: letters and digits only, for `%xy` is forbidden in a URL and `?` would call the help.
        password: The same.
        vrf: VRF to use, or None.
    """

    transport: Transport
    server: str
    port: int
    image: str
    username: str = field(repr=False)
    password: str = field(repr=False)
    vrf: str | None = None

    @property
    def place(self) -> str:
        """Return server and image as they stand in the URL behind the credentials."""
        # Old releases may not take a port in the URL.
        is_usual = self.port == self.transport.ports.well_known
        return f"{self.server}/{self.image}" if is_usual else f"{self.server}:{self.port}/{self.image}"


class Transport(Protocol):
    """A protocol by which a device fetches; its members are frozen values."""

    @property
    def name(self) -> str:
        """Return what it is called, which is how its URLs begin."""
        ...

    @property
    def ports(self) -> Ports:
        """Return the ports that our server listens on for it."""
        ...

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Return every configuration line beside TCP's that it may set on a device."""
        ...

    @property
    def questions(self) -> tuple[CopyQuestion, ...]:
        """Return what the copy command asks with this protocol, beside what it asks with any."""
        ...

    @property
    def words(self) -> Words:
        """Return what people are told where a copy does not come about."""
        ...

    def url(self, offer: Offer) -> str:
        """Return the URL, with the credentials where the device takes them."""
        ...

    def wanted(self, *, source_interface: str | None) -> Iterable[tuple[Setting, str | None]]:
        """Return which of its settings a copy needs, each with its value; the interface is where it is to come from."""
        ...

    def listener(
        self, *, address: str, port: int, passive_ports: tuple[int, int] | None, masquerade_address: str | None
    ) -> ListenerSettings:
        """Return what the file server needs to listen for it; see `flashferry.transports.listening`."""
        ...

    def data_mode(self, commands: Iterable[str]) -> str | None:
        """Return how the data connection was asked for, by the commands that our server was given; None: not at all."""
        ...


def offer_of(transport: Transport, ticket: Ticket, *, server: str, port: int, vrf: str | None = None) -> Offer:
    """Return what a device is told that a ticket was issued for."""
    return Offer(
        transport=transport,
        server=server,
        port=port,
        image=ticket.image_name,
        username=ticket.username,
        password=ticket.password,
        vrf=vrf,
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
    """Return the command with which a device fetches an image.

    Args:
        offer: Where it is.
        target: For example `bootflash:image.bin`, or `null:`.
        platform: The device's.

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
    command = platform.copy_command(offer.transport.url(offer), target, offer.vrf)
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
    return platform.copy_command(offer.transport.url(named), target, offer.vrf)
