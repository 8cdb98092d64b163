"""The push of a device's image: our side writes it, by the device's own SCP server, in place of the copy.

Facts
-----
* A push overwrites its target without a question. So the target is read once more just before the first byte, and
  nothing is sent where a file is there.
* The session prints nothing meanwhile: progress is what the device's TCP acknowledges, the end its server's reply.
* What an aborted push leaves on flash is unknown for every release; it is read, as after any copy.
* Sending blocks on the socket and on the device, so it runs in a thread of its own, which this one watches; an early
  end of the push closes the connection.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.core.files import descriptor_of
from flashferry.devices.connection import session_of
from flashferry.devices.errors import (
    SESSION_LOST,
    CopyFailed,
    CopyStopped,
    DeviceUnreachable,
    FileInTheWay,
    LoginRefused,
    TransferStalled,
)
from flashferry.devices.login import lost
from flashferry.devices.scp_source import ScpRefused, ScpSource, path_on
from flashferry.devices.session import DeviceSession
from flashferry.fileserver import ImageFile
from flashferry.images.files import administration, has_content_of
from tasks.copy import STEP
from tasks.copy_watch import CopyLimits
from tasks.partial_file import file_at

if TYPE_CHECKING:
    from flashferry.fileserver import PushAccount

_ANSWER_S = 30.0
_POLL_S = 1.0
_LAST_JOIN_S = 10.0
_NEARLY_ALL = 0.99
"""The acknowledged count is a little low during the push, see `flashferry.fileserver.processes.pushes`."""

_HINTS = {
    "Administratively disabled": "Look whether the device took 'ip scp server enable': 'show running-config | include "
    "ip scp' shows it",
    "Privilege": "SCP to the device takes a user whose login leads to privilege 15 and who may give commands (exec "
    "authorization); 'enable' comes too late",
}
_LOG = "Look at the device's log and flash; 'dir' shows what it left there"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOrder:
    """A push and its callbacks.

    Attributes:
        image: What to send.
        target: `bootflash:image.bin`.
        limits: How long to wait for what.
        prepare: Sets the connection's socket options.
        open_account: Returns the server's account, given a function that closes the connection.
        acked: Returns the acknowledged bytes, and emits progress; called once a second.
        interrupted: Whether the operator stops the run; called as often.
    """

    image: ImageFile
    target: str
    limits: CopyLimits
    prepare: Callable[[socket.socket], None]
    open_account: Callable[[Callable[[], None]], PushAccount]
    acked: Callable[[], int]
    interrupted: Callable[[], bool]


def push_to_device(task: Task, order: PushOrder) -> Result:
    """Nornir task: push an image; return None, for the device reports nothing. See `push_image`."""
    push_image(session_of(task), order)
    return Result(host=task.host, result=None, changed=True)


def push_image(session: DeviceSession, order: PushOrder) -> None:
    """Write an image to a device and wait until its server confirms all of it.

    The session is open, and stays as it is.

    Raises:
        CopyFailed: The device's server refused, or ended it.
        FileInTheWay: Something is at the target; nothing was sent.
        TransferStalled: A limit was reached; the connection was closed.
        CopyStopped: The operator stops the run; the connection was closed.
        DeviceUnreachable: The connection was lost in the middle of it.
    """
    host = session.name
    try:
        source = session.open_source(order.prepare)
    except (LoginRefused, DeviceUnreachable) as error:
        # The session goes on: this is the push's fault alone, and another transport may do.
        raise CopyFailed(error.message, host=host, step=STEP, hint=error.hint) from None
    account = order.open_account(source.close)
    try:
        _start(session, source, order.image, order.target)
        _open_account(account, source, host)
        _Sending(host, source, order, account).send_all()
    except BaseException as error:
        failure = error.message if isinstance(error, FlashferryError) else type(error).__name__
        account.conclude(account.cut_because or failure, source.channel())
        raise
    else:
        account.conclude()
    finally:
        source.close()


def _start(session: DeviceSession, source: ScpSource, image: ImageFile, target: str) -> None:
    """Start the device's SCP server, and check at the last moment that nothing is at the target.

    The device does not ask before it overwrites: the file is opened, and emptied, when it is announced.
    """
    host = session.name
    try:
        source.start(path_on(target), limit_s=_ANSWER_S)
        found = file_at(session, target).size_bytes
        if found is not None:
            raise FileInTheWay(
                f"{target} exists, {found:,} bytes; nothing is overwritten",
                host=host,
                step=STEP,
                hint="Find out who put it there; delete or rename it if it is not needed, then stage again",
            )
        source.announce(image.name, image.size_bytes)
    except ScpRefused as refused:
        raise _refused(refused, host) from None
    except lost() as error:
        reply = str(error) or "it said nothing"
        raise CopyFailed(f"the device's SCP server does not answer: {reply}", host=host, step=STEP, hint=_LOG) from None


def _open_account(account: PushAccount, source: ScpSource, host: str) -> None:
    try:
        account.begin(
            source.socket,
            peer_address=source.peer_address,
            cipher=source.cipher,
            mac=source.mac,
            server=source.server,
            channel=source.channel(),
        )
    except OSError as error:
        raise DeviceUnreachable(
            f"the push's SSH session was lost before the first byte: {error}", host=host, step=STEP, hint=SESSION_LOST
        ) from None


def _refused(refused: ScpRefused, host: str) -> CopyFailed:
    said = str(refused)
    hint = next((hint for words, hint in _HINTS.items() if words.lower() in said.lower()), _LOG)
    return CopyFailed(f"the device's SCP server says: {said}", host=host, step=STEP, hint=hint)


class _Sending:
    """The sending thread, and its watch."""

    def __init__(self, host: str, source: ScpSource, order: PushOrder, account: PushAccount) -> None:
        self._host, self._source, self._order, self._account = host, source, order, account
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._started_s = self._progress_s = time.monotonic()
        self._acked_bytes = 0

    def send_all(self) -> None:
        """Send all of it, watched; raises what `push_image` does."""
        sender = threading.Thread(target=self._send, name=f"push-{self._host}", daemon=True)
        sender.start()
        try:
            while not self._done.wait(_POLL_S):
                self._account.look(self._source.channel())
                self._check(time.monotonic())
        finally:
            # Whatever was raised, sending ends.
            if not self._done.is_set():
                self._source.close()
            sender.join(_LAST_JOIN_S)
        self._raise_error()

    def _send(self) -> None:
        try:
            descriptor = descriptor_of(self._order.image.path)
            try:
                self._send_file(descriptor)
            finally:
                os.close(descriptor)
        except BaseException as error:  # noqa: BLE001 -- raised by the watching thread
            self._error = error
        finally:
            self._done.set()

    def _send_file(self, descriptor: int) -> None:
        identity, status = self._order.image.identity, os.fstat(descriptor)
        opened = administration(status)
        if not has_content_of(identity, opened, status):
            raise ValueError("image changed on disk before it was sent")
        self._source.send(descriptor, self._order.image.size_bytes, self._account.wrote, end_s=self._order.limits.end_s)
        if not has_content_of(identity, opened, os.fstat(descriptor)):
            raise ValueError("image changed on disk while it was sent")

    def _check(self, now_s: float) -> None:
        if self._order.interrupted():
            raise CopyStopped("the operator interrupted the push", host=self._host, step=STEP)
        acked = self._order.acked()
        if acked > self._acked_bytes:
            self._acked_bytes, self._progress_s = acked, now_s
        silent_s, limits = now_s - self._progress_s, self._order.limits
        if not self._acked_bytes and silent_s > limits.start_s:
            raise self._stalled(f"no byte was taken within {limits.start_s:.0f} s")
        # After the last byte the device may still write flash; only its server's reply shows the end.
        most_s = limits.end_s if self._is_nearly_done else limits.stall_s
        if self._acked_bytes and silent_s > most_s:
            raise self._stalled(f"no progress for {most_s:.0f} s after {self._acked_bytes} bytes")
        if now_s - self._started_s > limits.total_s:
            raise self._stalled(f"{self._acked_bytes} bytes in {limits.total_s:.0f} s, the limit")

    @property
    def _is_nearly_done(self) -> bool:
        return self._acked_bytes >= _NEARLY_ALL * self._order.image.size_bytes

    def _stalled(self, reason: str) -> TransferStalled:
        return TransferStalled(reason, host=self._host, step=STEP)

    def _raise_error(self) -> None:
        error, host = self._error, self._host
        if error is None:
            return
        if isinstance(error, ScpRefused):
            raise _refused(error, host) from None
        if isinstance(error, ValueError):
            raise CopyFailed(
                str(error), host=host, step=STEP, hint="Put the image back as it was, then stage again"
            ) from None
        if self._account.cut_because:
            raise CopyFailed(self._account.cut_because, host=host, step=STEP, hint=_LOG) from None
        if isinstance(error, lost()):
            reply = f": {error}" if str(error) else ""
            raise DeviceUnreachable(
                f"the push's SSH session was lost after {self._acked_bytes} bytes{reply}",
                host=host,
                step=STEP,
                hint=SESSION_LOST,
            ) from None
        raise error
