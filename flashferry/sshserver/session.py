"""SSH session: `scp -f` or an SFTP read of one image; every other request is refused.

It is the `SendingHost` of its transfer (`flashferry.fileserver.image_stream`): it lets the sender continue when the
connection has room.
"""

from typing import TYPE_CHECKING, Any

import asyncssh

from flashferry.fileserver import sockets
from flashferry.fileserver.image_stream import Ending, Retrieval
from flashferry.fileserver.protocol import report_loop_error
from flashferry.fileserver.transfer_records import EventKind, TransferState
from flashferry.sshserver.dialogues import (
    NAME,
    AnsweredSending,
    ChannelSending,
    ChannelWriter,
    Dialogue,
    ScpDialogue,
    SftpDialogue,
)
from flashferry.sshserver.scp import requested_name

if TYPE_CHECKING:
    from flashferry.fileserver.ticket_accounts import Account
    from flashferry.images.image import ImageFile
    from flashferry.sshserver.client import SshClient
    from flashferry.sshserver.connection import Channel

_TURNS = 8
_TO_COME = "the client left before it took the image"


class Session(asyncssh.SSHServerSession[bytes]):
    """One session of a client; asyncssh calls it with the client's requests and data.

    Attributes:
        socket: The connection's.
        ioloop: The event loop.
    """

    def __init__(self, client: "SshClient") -> None:
        self.client = client
        self.socket = client.socket
        self.ioloop: Any = client.context.loop
        self.channel: Channel
        self._dialogue: Dialogue | None = None
        self._retrieval: Retrieval | None = None
        self._sending: ChannelSending | None = None
        self._first_window_bytes = 0
        self._wants_space = self._is_called = self._is_over = False

    # Called by asyncssh.

    def connection_made(self, chan: Any) -> None:
        """Store the channel, which reports unsent data at once."""
        self.channel = chan
        self._first_window_bytes = chan.window_bytes
        chan.set_write_buffer_limits(high=0)

    def shell_requested(self) -> bool:
        """Refuse: there is no shell."""
        return False

    def exec_requested(self, command: str) -> bool:
        """Accept `scp -f PATH` only; it is parsed here, and not by a shell."""
        name = requested_name(command)
        self.client.note("exec scp -f" if name is not None else "exec of something else: refused")
        if name is None:
            return False
        self._dialogue = ScpDialogue(self, name)
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        """Accept `sftp` only."""
        is_known = subsystem == "sftp"
        self.client.note("subsystem sftp" if is_known else "another subsystem: refused")
        if is_known:
            self._dialogue = SftpDialogue(self)
        return is_known

    def session_started(self) -> None:
        """Start the dialogue."""
        if self._dialogue is not None:
            self._dialogue.begin()

    def data_received(self, data: bytes, _datatype: Any = None) -> None:
        """Pass the client's bytes to the dialogue; a violation of its protocol ends the connection."""
        self.client.stays_busy()
        if self._dialogue is None or self._is_over:
            return
        try:
            self._dialogue.take(data)
        except ValueError as error:
            self.cut(f"the client broke the protocol: {error}")
            self.client.send_off("Protocol error.")

    def eof_received(self) -> bool:
        """End the session at the client's EOF; a transfer that it has not confirmed fails."""
        was_over, is_sftp = self._is_over, isinstance(self._dialogue, SftpDialogue)
        self.lost()
        if not was_over and self.client.connection.is_open:
            # With SFTP an EOF is the normal end.
            self.channel.exit(0 if is_sftp else 1)
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """End the transfer, if any."""
        self.lost()

    def resume_writing(self) -> None:
        """Continue sending: no data wait for the client's window any more."""
        self.on_space()

    # Requests for the image.

    def retrieve(self, image: "ImageFile", transport: str) -> Retrieval | None:
        """Open an image for a transfer; None if this login does not allow it."""
        account = self.client.account_for(image, transport)
        self._retrieval = self.client.retrieve(account) if account is not None else None
        return self._retrieval

    def send(self, retrieval: Retrieval, transport: str, trailer: bytes = b"") -> ChannelSending | None:
        """Start sending; None if the ticket was withdrawn meanwhile, or the connection is lost."""
        client = self.client
        raw_info = sockets.read_info_bytes(self.socket)
        if raw_info is None or retrieval.account.withdrawn(client.tickets.clock()):
            self.cut("ticket withdrawn")
            return None
        writer = ChannelWriter(client.connection, self.channel, trailer, self._first_window_bytes)
        kind = AnsweredSending if transport == "sftp" else ChannelSending
        self._sending = kind(
            client,
            self,
            retrieval,
            raw_info,
            transport=transport,
            connection=client.connection,
            writer=writer,
            base_acked_bytes=client.base_acked_bytes,
        )
        self._sending.begin()
        return self._sending

    @property
    def is_transferring(self) -> bool:
        """Whether a transfer was granted that has not ended."""
        return self._retrieval is not None

    @property
    def waits_to_send(self) -> bool:
        """Whether a transfer was granted that has not started."""
        return self._retrieval is not None and self._sending is None

    def fail(self, reason: str) -> None:
        """Record the failure of a granted transfer, caused by the client."""
        sending, retrieval = self._sending, self._retrieval
        if sending is not None:
            sending.refused(reason)
        elif retrieval is not None:
            self._release()
            self._report_failure(retrieval.account, reason)

    def cut(self, reason: str) -> None:
        """End the transfer, if any, and with it the connection."""
        if self._sending is not None:
            self._sending.cut(reason)
        else:
            self.fail(reason)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer, if any, in favour of a newer one of its ticket, and with it the connection."""
        if self._sending is not None:
            self._sending.yield_to_newer(reason)
        elif self._retrieval is not None:
            self.fail(reason)
            # Otherwise a client that becomes ready would wait for a file that is never sent.
            self.sending_ended(Ending.CUT)

    def lost(self) -> None:
        """Handle a client that has disconnected or sent EOF."""
        if self._is_over:
            return
        self._is_over = True
        if self._sending is not None:
            self._sending.settle(f"the client closed the {NAME} early")
        elif self._retrieval is not None:
            self._report_failure(self._retrieval.account, _TO_COME)
        self._release()
        self.client.forget(self)

    def _report_failure(self, account: "Account", reason: str) -> None:
        self.client.tickets.change(account, EventKind.FAILED, reason, state=TransferState.FAILED)

    def _release(self) -> None:
        if self._retrieval is not None:
            self._retrieval.file.close()
        self._retrieval = self._sending = None
        self._wants_space = False

    # Called by the sender of the image.

    def await_space(self) -> None:
        """Let the sender write whenever the connection has room."""
        self._wants_space = True
        self.on_space()

    def leave_loop(self) -> None:
        """Stop calling the sender."""
        self._wants_space = False

    def handle_error(self) -> None:
        """Report an exception in our code, and end the connection."""
        report_loop_error("ssh session")
        self.client.connection.abort()

    def sending_ended(self, ending: Ending) -> None:
        """Continue the dialogue after a delivery; otherwise abort the connection, for SCP cannot end within a file."""
        self._release()
        self.client.stays_busy()
        if ending is not Ending.DELIVERED:
            self._is_over = True
            self.client.forget(self)
            self.client.connection.abort()

    def on_space(self) -> None:
        """Schedule the next piece in a separate turn of the loop."""
        if not self._is_called and (self._wants_space or isinstance(self._dialogue, SftpDialogue)):
            self._is_called = True
            self.ioloop.asyncio.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_called = False
        if self._dialogue is not None and not self._is_over:
            self._dialogue.go_on()
        for _ in range(_TURNS):
            if self._sending is None or not self._wants_space or not self.has_space:
                return
            self._sending.write()
        # Let other connections of this process have their turn.
        self.on_space()

    @property
    def has_space(self) -> bool:
        """Whether data may be sent now."""
        return self.client.connection.has_space and self.channel.takes_data
