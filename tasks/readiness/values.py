"""The values of a readiness check: evidence, conditions, verdict. Pure."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from flashferry.devices.platforms.platform import FileSystems
from flashferry.images.file_name import ImageRelease, read_file_name
from flashferry.images.image import Image
from tasks.read_config import ConfigurationState
from tasks.software_state import Answer, SoftwareState
from tasks.verify import Signature


class Met(StrEnum):
    """Whether a condition is met.

    Attributes:
        DOES_NOT_APPLY: The device has nothing of the kind.
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
        UNKNOWN: None is not met, and at least one is unknown.
        RUNS_IT: It runs the image already.
    """

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    RUNS_IT = "runs it already"


class Asked(StrEnum):
    """The conditions, in the order of the report."""

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


class Condition(Struct, frozen=True, kw_only=True):
    """One condition and its evidence.

    Attributes:
        sentence: The result in words, without a full stop.
        command: The command whose output decides it.
        lines: The device's lines that decide it, as printed.
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


class Readiness(Struct, frozen=True, kw_only=True):
    """The verdict on a device and an image, with all conditions.

    Attributes:
        image: Name of the image's file.
        version: Its release, or None if its name has none.
        running: The running release, as printed.
        mode: How it boots: `install`, `bundle` or `unknown`.
        members: Numbers of the members; empty for a device that is not a stack.
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
        """Return whether nothing is left to be done before the device may boot the image."""
        return self.verdict in {Verdict.YES, Verdict.RUNS_IT}

    @property
    def blocking(self) -> tuple[Condition, ...]:
        """Return the conditions that keep the device from being ready, those that are not met first."""
        return tuple(one for met in (Met.NOT_MET, Met.UNKNOWN) for one in self.conditions if one.met is met)


class Proof(StrEnum):
    """The result of hashing a file.

    Attributes:
        EQUAL: The device computed the expected hash.
        OTHER: It computed another.
        NONE: It computed none that can be read.
    """

    EQUAL = "equal"
    OTHER = "other"
    NONE = "none"


class Held(Struct, frozen=True, kw_only=True):
    """What one file system holds of the image.

    Attributes:
        place: The member's number, `standby`, or empty for the device that answers.
        file_system: Its name with the colon; empty if the device lists none for that member.
        listing: The output of `dir`.
        proof: The result of hashing; None if the file is not there or of another size.
        command: The command that hashed it.
        words: The digest, or why there is none.
    """

    place: str
    file_system: str
    listing: Answer
    proof: Proof | None = None
    command: str = ""
    words: str = ""


class Sealed(Struct, frozen=True, kw_only=True):
    """The device's result for the image's signature; `outcome` is None if it does not have the command."""

    outcome: Signature | None
    words: str
    command: str


class Leftover(Struct, frozen=True, kw_only=True):
    """A line of ours in a configuration, and in which one: `running` or `startup`."""

    line: str
    where: str


class Evidence(Struct, frozen=True, kw_only=True):
    """All that a check found.

    Attributes:
        inside: The name that the image carries inside, or None.
        held: What each file system holds of the image; that of the active member first.
        signature: The device's result for the signature; None if that was not asked for.
        boot_listings: Listings, by path, of boot files that are on no file system listed.
        configuration: Whether the configuration is saved; None if it could not be read.
        compared_by: The command that shows that.
        leftovers: Lines of ours; None if the configuration could not be read.
        owed: Why a run still holds the device by the journal, or None.
        false_copy: Which proof an earlier run found false, if the image's hash rests on it; or None.
        failed_add: Why the image may lack parts although it is listed as added, or None.
        expected_members: Members at the time of the staging, or None if unknown.
        is_virtual: Whether it is a virtual router, which boots without a boot variable.
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
