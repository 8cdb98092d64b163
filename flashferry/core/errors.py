"""Base class of all errors for operators: what went wrong, on which device, at which step, and what to do.

Journals, records, metrics and retry rules store an error's kind. It is a constant of the class and not its name, so old
journals can still be read after a class was renamed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from flashferry.core.redaction import masked


class Kind(StrEnum):
    """All kinds of failure. The values are stored, so never change one or use it for another failure.

    For an unexpected error the name of its class is stored, see `kind_of`.
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
    FILE_EXISTS = "FileExists"
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
    NO_CAPACITY = "NoRoom"

    # What became of asking a remote service.
    SERVICE_REFUSED = "ServiceRefused"
    SERVICE_UNUSABLE = "ServiceUnusable"
    APPROVAL_NEEDED = "ApprovalWanted"

    # What passes between a centre and its sites.
    WIRE_ERROR = "WireError"
    UNKNOWN_KEY = "UnknownKey"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    ORDER_REFUSED = "OrderRefused"


class FlashferryError(Exception):
    """An expected failure, described in one sentence. Each class has its own kind.

    Attributes:
        kind: Its kind in journals, metrics and retry rules.
        message: What was expected and what was seen. It may quote a device's output, which may have a secret.
        host: Inventory name of the device, or None if it is not about a single device.
        step: The step at which it happened (`check`, `tune`, `pull`, ...), or None.
        hint: What to do next, or None if nothing can be done.
    """

    kind: ClassVar[Kind] = Kind.FLASHFERRY_ERROR
    advice: ClassVar[str | None] = None
    """Hint for an error of the class that is raised without one."""
    no_advice: ClassVar[str | None] = None
    """Reason why nothing can be done about such an error, or None."""

    def __init__(
        self, message: str, *, host: str | None = None, step: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.host = host
        self.step = step
        self.hint = hint if hint is not None else self.advice

    def __str__(self) -> str:
        """Return `host: step: message. hint` without the parts that are None, with known secrets masked."""
        where = "".join(f"{part}: " for part in (self.host, self.step) if part)
        stop = " " if self.message.endswith("?") else ". "
        return masked(f"{where}{self.message}" + (f"{stop}{self.hint}" if self.hint else ""))

    def at(self, *, host: str, step: str) -> FlashferryError:
        """Set host and step unless they are set already, and return self."""
        self.host = self.host or host
        self.step = self.step or step
        return self


class ConfigInvalid(FlashferryError):
    """The operator's input (inventory, option, image path) is wrong; nothing was touched."""

    kind: ClassVar[Kind] = Kind.CONFIG_INVALID


def kind_of(error: BaseException) -> str:
    """Return the kind to store for an error: its own, or the class name of an unexpected one."""
    return error.kind.value if isinstance(error, FlashferryError) else type(error).__name__


def reason_of(error: Exception) -> str:
    """Return what an error says, without the number that the system has for it: `No such file or directory`."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
