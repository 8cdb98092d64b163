"""SFTP, as the client of a device speaks it: SCP's way but for what is spoken inside the channel.

Facts
-----
* XE 17 has a client (`copy sftp:` was used on IE-3400 17.3 and C9200CX 17.12), older releases and IOS have none; the
  refusal of the command tells. IOS's own server speaks no SFTP.
* The text that pyATS has for it reads as SCP's, ` Sending file modes: C0644 3698 sh_ver.txt!` with the first mark glued
  to the name; no real capture is known. Questions, settings and windows are taken to be SCP's.
* One listener of ours serves both, so ports are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.devices.platforms.platform import ChannelWindow, CopyQuestion, Platform, Setting
from flashferry.transports.scp import QUESTIONS, SCP, SOURCE, fingerprints_of, listener_of, words_of
from flashferry.transports.transport import ListenOptions, Offer, Ports, Words

if TYPE_CHECKING:
    from flashferry.fileserver import ListenerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sftp:
    """The file transfer protocol of SSH; see `Transport`."""

    name: str
    title: str
    is_clear_text: bool
    takes_vrf: bool
    needs_trust: bool
    has_channel: bool
    listener_name: str
    ports: Ports
    settings: tuple[Setting, ...]
    questions: tuple[CopyQuestion, ...]
    words: Words

    def url(self, offer: Offer) -> str:
        """Return the URL with the user alone: the password is typed where it is asked for."""
        return f"{self.name}://{offer.username}@{offer.place}"

    def wanted(self, *, source_interface: str | None) -> Iterable[tuple[Setting, str | None]]:
        """Return the source interface, where one is to be set."""
        return () if source_interface is None else ((SOURCE, source_interface),)

    def windows(self, platform: Platform) -> tuple[ChannelWindow, ...]:
        """Return what widens the channel's window."""
        return platform.ssh.windows

    def listener(self, options: ListenOptions) -> ListenerSettings:
        """Return what the file server needs to listen for SSH; see `flashferry.transports.scp.listener_of`."""
        return listener_of(options)

    def fingerprints(self, host_keys: Path) -> tuple[str, ...]:
        """Return the fingerprints of our host keys."""
        return fingerprints_of(host_keys)

    def data_mode(self, _commands: Iterable[str], /) -> str | None:
        """Return None: there is no data connection."""
        return None


SFTP = Sftp(
    name="sftp",
    title="SFTP",
    is_clear_text=False,
    takes_vrf=True,
    needs_trust=False,
    has_channel=True,
    listener_name=SCP.listener_name,
    ports=SCP.ports,
    settings=SCP.settings,
    questions=QUESTIONS,
    words=words_of("SFTP"),
)
