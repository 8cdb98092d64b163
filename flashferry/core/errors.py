"""Every error that an operator may see: its kind, what went wrong, on which device, at which step, what to do.

A kind is what journals, records, metrics and retry rules keep of an error. It is a constant of its class, so that a
class can be renamed and a journal of last year still be read.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from flashferry.core.redaction import masked


class Kind(StrEnum):
    """All kinds of failure, as they are stored: no value here is ever changed, nor given to another failure.

    An unexpected error is kept under the name of its class instead, see `kind_of`.
    """

    # The operator's input, the journal, and what has no kind of its own.
    FLASHFERRY_ERROR = "FlashferryError"
    CONFIG_INVALID = "ConfigInvalid"
    CODEC_ERROR = "CodecError"
    JOURNAL_UNUSABLE = "JournalUnusable"

    # The dialogue with a device.
    DEVICE_UNREACHABLE = "DeviceUnreachable"
    LOGIN_REFUSED = "LoginRefused"
    HOST_KEY_REFUSED = "HostKeyRefused"
    DEVICE_REFUSED = "DeviceRefused"
    INSTALL_REFUSED = "InstallRefused"
    INSTALL_FAILED = "InstallFailed"
    OTHER_DEVICE = "OtherDevice"
    OUTPUT_NOT_UNDERSTOOD = "OutputNotUnderstood"
    QUESTION_LEFT = "QuestionLeft"
    FLASH_BUSY = "FlashBusy"
    DIALOGUE_DISTURBED = "DialogueDisturbed"
    FILE_IN_THE_WAY = "FileExists"
    COPY_FAILED = "CopyFailed"
    NOT_DELIVERED = "NotDelivered"
    DEVICE_OVERLOADED = "DeviceOverloaded"
    TRANSFER_STALLED = "TransferStalled"
    IMAGE_CORRUPT = "ImageCorrupt"
    RESTORE_INCOMPLETE = "RestoreIncomplete"
    STOPPED = "Stopped"
    COPY_STOPPED = "CopyStopped"
    HASH_STOPPED = "HashStopped"
    INTERRUPTED = "Interrupted"

    # Our file server, and the images on it.
    FILE_SERVER_ERROR = "FtpServerError"
    SETTINGS_INVALID = "SettingsInvalid"
    SERVER_START_FAILED = "ServerStartFailed"
    SERVER_GONE = "ServerGone"
    REQUEST_REFUSED = "RequestRefused"
    TICKET_UNKNOWN = "TicketUnknown"
    IMAGE_ERROR = "ImageError"
    IMAGE_UNKNOWN = "ImageUnknown"
    IMAGE_UNREADABLE = "ImageUnreadable"
    CATALOGUE_INVALID = "CatalogueInvalid"
    MANIFEST_INVALID = "ManifestInvalid"

    # A depot's catalogue, and the source that it is filled from.
    CATALOGUE_BUSY = "CatalogueBusy"
    CATALOGUE_FULL = "CatalogueFull"
    SOURCE_UNREACHABLE = "SourceUnreachable"
    SOURCE_REFUSED = "SourceRefused"
    SOURCE_WRONG = "SourceWrong"
    SOURCE_CHANGED = "SourceChanged"
    SYNC_STOPPED = "SyncStopped"

    # What is found or decided, and never raised.
    POLICY_VIOLATION = "PolicyViolation"
    WINDOW_CLOSED = "WindowClosed"
    TOO_MANY_FAILED = "TooManyFailed"
    EXCLUDED_BY_PLAN = "LeftOutByPlan"
    FORGOTTEN = "Forgotten"

    # What keeps a device from fetching from us, as `check --reach` finds it.
    NO_CLIENT = "NO_CLIENT"
    NO_LOGIN = "NO_LOGIN"
    WRONG_SOURCE = "WRONG_SOURCE"
    NO_DATA = "NO_DATA"
    BROKEN_OFF = "BROKEN_OFF"

    # What ended a step of a night in a lab.
    NIGHT_FAULT = "NightFault"
    NO_ROOM = "NoRoom"

    # What became of asking a remote service.
    SERVICE_REFUSED = "ServiceRefused"
    SERVICE_UNUSABLE = "ServiceUnusable"
    APPROVAL_WANTED = "ApprovalWanted"

    # What passes between a centre and its sites.
    WIRE_ERROR = "WireError"
    UNKNOWN_KEY = "UnknownKey"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    ORDER_REFUSED = "OrderRefused"


class FlashferryError(Exception):
    """An expected failure, described in one sentence. Each class has its own kind.

    Attributes:
        kind: What journals, metrics and retry rules know it by.
        message: What was expected and what was seen; no sentence of ours puts a secret in, a device's own words may.
        host: Inventory name of the device, or None where no single device is meant.
        step: The step at which it happened (`check`, `tune`, `pull`, ...), or None.
        hint: What to do next, or None where nothing can be done.
    """

    kind: ClassVar[Kind] = Kind.FLASHFERRY_ERROR
    advice: ClassVar[str | None] = None
    """What to do about an error of the class that brings no hint of its own."""
    no_advice: ClassVar[str | None] = None
    """Why nothing can be done about such an error, where that is so."""

    def __init__(
        self, message: str, *, host: str | None = None, step: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.host = host
        self.step = step
        self.hint = hint if hint is not None else self.advice

    def __str__(self) -> str:
        """Return `host: step: message. hint`, leaving out what is not known, and secrets, wherever they came from."""
        where = "".join(f"{part}: " for part in (self.host, self.step) if part)
        stop = " " if self.message.endswith("?") else ". "
        return masked(f"{where}{self.message}" + (f"{stop}{self.hint}" if self.hint else ""))

    def at(self, *, host: str, step: str) -> FlashferryError:
        """Return self with the device and step filled in where they were not known."""
        self.host = self.host or host
        self.step = self.step or step
        return self


class ConfigInvalid(FlashferryError):
    """The operator's input (inventory, option, image path) is wrong; nothing was touched."""

    kind: ClassVar[Kind] = Kind.CONFIG_INVALID


def kind_of(error: BaseException) -> str:
    """Return the kind under which an error is kept: its own, or the name of its class where it was unexpected."""
    return error.kind.value if isinstance(error, FlashferryError) else type(error).__name__


def reason_of(error: Exception) -> str:
    """Return what an error says, without the number that the system has for it: `No such file or directory`."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
