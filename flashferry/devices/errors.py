"""Errors of the dialogue with a device, split by who must act."""

from __future__ import annotations

from flashferry.core.errors import FlashferryError


class DeviceUnreachable(FlashferryError):
    """The network or the device's SSH service must be mended: no session could be opened, or it was lost.

    Attributes:
        cause: Why none could be opened, as `flashferry.devices.login.Cause` has it; None where one was lost.
    """

    cause: str | None = None


class LoginRefused(FlashferryError):
    """The operator must give other credentials: user, password or enable secret were not accepted."""


class HostKeyRefused(LoginRefused):
    """The device's SSH host key is not the one that it is known by, or not known: no password was sent."""


class DeviceRefused(FlashferryError):
    """The device's owner must act: the device does not take a command, or is in a state that we do not touch."""


class OtherDevice(DeviceRefused):
    """Another device answers than the one that a run began with, or that a journal means: nothing was set on it."""


class OutputNotUnderstood(FlashferryError):
    """The device answered something that we have no reading for; nothing is guessed."""


class FlashBusy(OutputNotUnderstood):
    """The device has the file open and tells nothing of it: only another look, later, can tell."""


class DialogueDisturbed(OutputNotUnderstood):
    """Somebody's text stands behind a question, so that nothing could be typed into it: the next time may go well."""


class FileInTheWay(DeviceRefused):
    """The device's owner must act: a file is at the target that our copy did not put there; nothing is overwritten."""


class CopyFailed(FlashferryError):
    """The device ended the copy with an error, or without the bytes."""


class DeviceOverloaded(CopyFailed):
    """The device ended the copy with an I/O error or for want of memory, as with a window too large for it."""


class TransferStalled(FlashferryError):
    """The network or the device stopped taking bytes for longer than the limit."""


class ImageCorrupt(FlashferryError):
    """The file on the device is not the file that was offered."""


class RestoreIncomplete(FlashferryError):
    """The configuration is not what it was; it says which line, and why it was left."""


class Stopped(FlashferryError):
    """Nobody must act: the operator ended this step, or the device's time was over. Nothing else was wrong."""


class CopyStopped(Stopped, TransferStalled):
    """The copy was ended because the run, or the device's time, is to end."""


class HashStopped(Stopped, OutputNotUnderstood):
    """The hash was ended because the run, or the device's time, is to end."""


# The operator's wish to stop, as an error that ends a device's way at the next step.


class Interrupted(Stopped):
    """The operator stopped the run before this step."""
