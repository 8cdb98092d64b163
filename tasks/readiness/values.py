"""The values of readiness: what a check found, a condition with what it rests on, and the answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from flashferry.devices.platforms.platform import FileSystems
from flashferry.images.file_name import ImageRelease, read_file_name
from flashferry.images.image import Image
from tasks.read_config import ConfigurationState
from tasks.software_state import Answer, SoftwareState
from tasks.verify import Signature


class Met(StrEnum):
    """What is known of a condition.

    Attributes:
        DOES_NOT_APPLY: There is nothing of the kind on this device.
    """

    MET = "met"
    NOT_MET = "not met"
    UNKNOWN = "unknown"
    DOES_NOT_APPLY = "does not apply"


class Verdict(StrEnum):
    """Whether a device is ready to boot an image.

    Attributes:
        YES: Each condition is met or does not apply.
        NO: At least one is not met.
        UNKNOWN: None is known not to be met, and at least one is not known.
        RUNS_IT: It runs the image already.
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    RUNS_IT = "runs it already"


class Asked(StrEnum):
    """What is asked, in the order of the report."""

    IMAGE = "image"
    SIGNATURE = "signature"
    INSTALLED = "install summary"
    TIMER = "abort timer"
    SPACE = "room"
    MEMBERS = "members"
    PEER = "standby"
    BOOT = "boot variable"
    REGISTER = "register"
    MANUAL = "manual boot"
    SAVED = "saved configuration"
    ISSU = "upgrade in service"
    OURS = "nothing of ours left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition, and what it rests on.

    Attributes:
        met: What is known of it.
        sentence: That in words, without a full stop.
        command: The command that it rests on.
        lines: The device's lines that it rests on, as printed.
        place: File system, member or supervisor; empty for the device as a whole.
    """

    name: Asked
    met: Met
    sentence: str
    command: str
    lines: tuple[str, ...] = ()
    place: str = ""

    @property
    def prevents_boot(self) -> bool:
        """Return whether it keeps the device from being ready."""
        return self.met in {Met.NOT_MET, Met.UNKNOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether a device is ready to boot an image, and what that rests on.

    Attributes:
        image: Name of the image's file.
        version: Its release, or None where its name has none.
        running: The release that the device runs, as printed.
        mode: How it boots: `install`, `bundle` or `unknown`.
        members: Numbers of the members that were seen; empty for a device that is no stack.
    """

    verdict: Verdict
    image: str
    version: str | None
    running: str
    mode: str
    members: tuple[int, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def is_good(self) -> bool:
        """Return whether nothing is left to be done before it may boot the image."""
        return self.verdict in {Verdict.YES, Verdict.RUNS_IT}

    @property
    def in_the_way(self) -> tuple[Condition, ...]:
        """Return the conditions that keep it from being ready, those that are not met first."""
        return tuple(one for met in (Met.NOT_MET, Met.UNKNOWN) for one in self.conditions if one.met is met)


class Proof(StrEnum):
    """What the hash of a file says.

    Attributes:
        EQUAL: The device computed the expected one.
        OTHER: It computed another.
        NONE: It computed none that can be read.
    """

    EQUAL = "equal"
    OTHER = "other"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one file system holds of the image.

    Attributes:
        place: The member's number, `standby`, or empty for the device that answers.
        file_system: Its name with the colon; empty where the device lists none for that place.
        listing: The answer to `dir`.
        proof: What the hash says; None where the file is not there or of another size.
        command: The command that computed it.
        words: The digest, or why there is none.
    """

    place: str
    file_system: str
    listing: Answer
    proof: Proof | None = None
    command: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """What the device says of the signature inside the image; `outcome` is None where it does not have the command."""

    outcome: Signature | None
    words: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A line of ours that stands in a configuration, and in which one: `running` or `startup`."""

    line: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a check found.

    Attributes:
        inside: The name that the image carries in itself, or None.
        held: What each file system holds of the image; that of the active member first.
        signature: What the device says of the signature; None where that was not asked.
        boot_listings: Answers to `dir` of files that boot variables name and that are on no file system listed, by
            path.
        configuration: Whether the configuration is saved; None where it could not be read.
        compared_by: The command that this rests on.
        leftovers: Lines of ours; None where the configuration could not be read.
        owed: Why a run still has the device by the journal, or None.
        false_copy: By whose proof the image has its hash, where an earlier run found that proof false; or None.
        failed_add: Why the image may lack parts although it is listed as added, or None.
        expected_members: Members at the time of the staging, or None where that is not known.
        is_virtual: Whether it is a virtual router, which boots by no variable.
    """

    image: Image
    inside: str | None = None
    software: SoftwareState
    held: tuple[Held, ...]
    names: FileSystems
    signature: Sealed | None = None
    boot_listings: dict[str, Answer] = field(default_factory=dict)
    configuration: ConfigurationState | None = None
    compared_by: str = "show running-config"
    leftovers: tuple[Leftover, ...] | None = None
    owed: str | None = None
    false_copy: str | None = None
    failed_add: str | None = None
    expected_members: tuple[int, ...] | None = None
    is_virtual: bool = False

    @property
    def image_release(self) -> ImageRelease | None:
        """Return the release of the image; the name inside the file counts first. A patch has none."""
        own = read_file_name(self.image.name)
        inside = read_file_name(self.inside).image_release if self.inside and own.is_image else None
        return inside or own.image_release

    @property
    def is_other_feature_set(self) -> bool:
        """Return whether the device runs another feature set than the image's, which no table distinguishes."""
        names = (self.inside or "", self.image.name)
        encryption = next((found for name in names if (found := read_file_name(name).encryption)), "")
        return self.software.encryption != encryption
