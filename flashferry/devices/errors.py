"""Errors of the dialogue with a device, split by who must act."""

from __future__ import annotations

from typing import ClassVar

from flashferry.core.errors import FlashferryError, Kind

SESSION_LOST = "Look whether the device reloaded, its line's limits ended the session, or the path to it broke"
"""Hint about a session that was lost."""


class DeviceUnreachable(FlashferryError):
    """The network or the device's SSH service needs repair: no session could be opened, or it was lost.

    Attributes:
        cause: Value of `flashferry.devices.login.Cause` if no session could be opened; None if one was lost.
    """

    kind: ClassVar[Kind] = Kind.DEVICE_UNREACHABLE

    cause: str | None = None


class LoginRefused(FlashferryError):
    """The operator must give other credentials: user, password or enable secret were not accepted."""

    kind: ClassVar[Kind] = Kind.LOGIN_REFUSED


class HostKeyRefused(LoginRefused):
    """The device's SSH host key differs from the known one, or is unknown; no password was sent."""

    kind: ClassVar[Kind] = Kind.HOST_KEY_REFUSED


class DeviceRefused(FlashferryError):
    """The device's owner must act: the device refuses a command, or is in a state in which we change nothing."""

    kind: ClassVar[Kind] = Kind.DEVICE_REFUSED


class InstallRefused(DeviceRefused):
    """The device refuses an install command, with a reason; nothing was activated or removed."""

    kind: ClassVar[Kind] = Kind.INSTALL_REFUSED


class InstallFailed(InstallRefused):
    """The device started to add an image and reported a failure; its tables may be incomplete."""

    kind: ClassVar[Kind] = Kind.INSTALL_FAILED


class OtherDevice(DeviceRefused):
    """The address belongs to another device than the one of a run or a journal; nothing was changed on it."""

    kind: ClassVar[Kind] = Kind.OTHER_DEVICE


class OutputNotUnderstood(FlashferryError):
    """The device's output could not be parsed; nothing is guessed."""

    kind: ClassVar[Kind] = Kind.OUTPUT_NOT_UNDERSTOOD
    advice: ClassVar[str | None] = "Give the command by hand and look at what the device says"


class QuestionLeft(OutputNotUnderstood):
    """A prompt followed a question that was not answered: the next text typed might be its answer."""

    kind: ClassVar[Kind] = Kind.QUESTION_LEFT


class FlashBusy(OutputNotUnderstood):
    """The device has the file open, so its size or content cannot be read yet."""

    kind: ClassVar[Kind] = Kind.FLASH_BUSY
    advice: ClassVar[str | None] = "Look again in a while: something on the device still has the file open"


class DialogueDisturbed(OutputNotUnderstood):
    """Other output followed a question, so it could not be answered safely; a retry may succeed."""

    kind: ClassVar[Kind] = Kind.DIALOGUE_DISTURBED
    advice: ClassVar[str | None] = (
        "Stage it again; where it comes often, keep log lines off the vty lines ('no logging monitor')"
    )


class FileExists(DeviceRefused):
    """The device's owner must act: the target has a file that our copy did not write; nothing is overwritten."""

    kind: ClassVar[Kind] = Kind.FILE_EXISTS


class CopyFailed(FlashferryError):
    """The device ended the copy with an error, or without the bytes."""

    kind: ClassVar[Kind] = Kind.COPY_FAILED
    advice: ClassVar[str | None] = "Look at the device's log and flash; 'dir' shows what it left there"


class NotDelivered(CopyFailed):
    """The device reports success although our server did not deliver the whole image."""

    kind: ClassVar[Kind] = Kind.NOT_DELIVERED
    advice: ClassVar[str | None] = (
        "Do not boot from it: what lies there did not come from our server. Look for a cache or a proxy of the device "
        "('show running-config | include ip http client'), delete the file, then stage again"
    )


class DeviceOverloaded(CopyFailed):
    """The device ended the copy with an I/O error or for lack of memory, perhaps because its window is too large."""

    kind: ClassVar[Kind] = Kind.DEVICE_OVERLOADED
    advice: ClassVar[str | None] = (
        "Look at its memory and flash; '--window-bytes' gives it a smaller window, '--no-tune' none of ours"
    )


class TransferStalled(FlashferryError):
    """The network or the device stopped taking bytes for longer than the limit."""

    kind: ClassVar[Kind] = Kind.TRANSFER_STALLED
    advice: ClassVar[str | None] = (
        "Look for loss or an overload on the way, and at the device's flash; 'flashferry probe' times both"
    )


class ImageCorrupt(FlashferryError):
    """The file on the device differs from the image that was served."""

    kind: ClassVar[Kind] = Kind.IMAGE_CORRUPT


class RestoreIncomplete(FlashferryError):
    """The configuration was not restored completely; the message says which line remains, and why."""

    kind: ClassVar[Kind] = Kind.RESTORE_INCOMPLETE


class Stopped(FlashferryError):
    """No action is needed: the operator stopped this step, or the device's time was over."""

    kind: ClassVar[Kind] = Kind.STOPPED
    advice: ClassVar[str | None] = None
    no_advice: ClassVar[str | None] = "it was meant; how to go on is said once for the run, not for each device"


class CopyStopped(Stopped, TransferStalled):
    """The copy was stopped because the run, or the device's time, ends."""

    kind: ClassVar[Kind] = Kind.COPY_STOPPED


class HashStopped(Stopped, OutputNotUnderstood):
    """The computation of a hash was stopped because the run, or the device's time, ends."""

    kind: ClassVar[Kind] = Kind.HASH_STOPPED


class Interrupted(Stopped):
    """The operator stopped the run before this step."""

    kind: ClassVar[Kind] = Kind.INTERRUPTED
