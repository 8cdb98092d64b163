"""What a device is to have, and what a check of it found."""

from __future__ import annotations

from dataclasses import dataclass

from flashferry.devices.session import Facts
from flashferry.images.fit import ImageFit
from flashferry.images.image import Image, ImageFile
from flashferry.transports import PUSH
from flashferry.transports.choice import allowed
from flashferry.transports.transport import Transport
from inventory.host_view import HostView
from tasks.authorization import Authorization
from tasks.configuration_state import ConfigurationState
from tasks.fetching.ceilings import Ceiling
from tasks.flash_space import MemberSpace
from tasks.tcp_config import TcpLines
from tasks.verify import VerifyReport
from templates.version import SoftwareVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenFile:
    """A file that this device proved in this process.

    Attributes:
        modified: When the file was changed last, as the device printed it after the proof; empty where that is not
            known.
    """

    report: VerifyReport
    modified: str

    def is_at(self, path: str, modified: str) -> bool:
        """Return whether a file of that image's size is the one that was proven, not written to since."""
        return bool(modified) and (self.report.path, self.modified) == (path, modified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The image that a device is to have.

    Attributes:
        image: Its name on the device, size and digests.
        inside: The name that the file carries in itself, or None.
        is_insisted: Whether it is staged also on a platform that it is not for.
        adds: Whether it is added (`install add`) after the copy, which needs its size once more.
        proven: The file as the device proved it before, or None: a file of its size is hashed.
    """

    image: Image
    inside: str | None = None
    is_insisted: bool = False
    adds: bool = False
    proven: ProvenFile | None = None

    @classmethod
    def of(cls, file: ImageFile, *, is_insisted: bool = False, adds: bool = False) -> Wanted:
        """Return a file of ours as the image that a device is to have."""
        return cls(image=file, inside=file.inside, is_insisted=is_insisted, adds=adds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnPath:
    """How the device is to reach us by the inventory; None where it does not say."""

    vrf: str | None = None
    source_interface: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """By what a device may fetch, and what its link gives to copies.

    Attributes:
        transports: The protocols, in order of preference.
        is_stated: Whether the inventory names them: then the check asks whether the device can.
        may_be_pushed: Whether its image may come by push: then it need not be able to fetch.
        link_rate_bps: What copies may have of its link in bits per second, or None where that is not known.
    """

    transports: tuple[Transport, ...] = ()
    is_stated: bool = False
    may_be_pushed: bool = False
    link_rate_bps: float | None = None

    @classmethod
    def of(cls, host: HostView) -> Fetching:
        """Return what the inventory says of a device."""
        policy = host.transport_policy
        is_stated = bool(policy.stated) or policy.clear_text is not None
        return cls(
            transports=allowed(policy),
            is_stated=is_stated,
            may_be_pushed=PUSH.name in policy.names,
            link_rate_bps=host.cap_bps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a device is and has.

    Attributes:
        version: What `show version` shows.
        file_system: Where an image belongs, for example `bootflash:`.
        free_bytes: Free space on it, or None where the device does not show it.
        running: The lines of the running configuration that staging may change.
        rtt_s: Least round-trip time of the SSH connection, or None.
        server_address: Our own address towards the device.
        already_there: Whether the image is on the device, proven by size and hash.
        refusal: Why the device must not be staged, or None.
        notes: What the operator should know, in sentences.
        members: Free space on the other members of a stack.
        configuration: Whether the configuration is saved, locked or about to be rolled back; None where the image is
            there already.
        authorization: What the user may do; None likewise.
        proof: How the image that is there already was proven, or None.
        refusal_hint: What to do about a refusal, or None.
        image: Whether the image is for this platform, or None without an image.
        trustpoints: Certificate authorities that it trusts and that may be ours; None where that was not read.
        ceilings: How fast it can fetch at most by each protocol that it may use, tuned.
        overwrites_silently: Whether the device overwrites a file without a question (`file prompt quiet`).
    """

    facts: Facts
    version: SoftwareVersion
    file_system: str
    free_bytes: int | None
    running: TcpLines
    startup: TcpLines
    rtt_s: float | None
    server_address: str
    already_there: bool
    refusal: str | None
    notes: tuple[str, ...] = ()
    members: tuple[MemberSpace, ...] = ()
    configuration: ConfigurationState | None = None
    authorization: Authorization | None = None
    proof: VerifyReport | None = None
    refusal_hint: str | None = None
    image: ImageFit | None = None
    trustpoints: tuple[str, ...] | None = None
    ceilings: tuple[Ceiling, ...] = ()
    overwrites_silently: bool = False
