"""netmiko's channel, recorded and read in bounded pieces, and the errors of a prompt that does not come in time.

netmiko takes half a second to import: only `flashferry.devices.driver` imports this module.
"""

from __future__ import annotations

import paramiko
from netmiko.channel import SSHChannel
from netmiko.exceptions import ReadTimeout

from flashferry.devices.prompts import open_question
from flashferry.devices.transcript import Recorder

READ_AT_ONCE_BYTES = 256 * 1024
"""Taken from the channel in one go: a device that writes faster than we read must not keep us reading for ever."""

_PAGED = "The device shows its output by pages: let the user give 'terminal length 0', or set 'length 0' on its vty"


class NoPrompt(ReadTimeout):
    """No prompt came in time.

    Attributes:
        question: What the device waits at, as far as that can be seen, or None.
        hint: What to do about it, or None.
    """

    def __init__(self, seen: str) -> None:
        super().__init__("no prompt in time")
        self.question = open_question(seen)
        self.hint = _PAGED if "--More--" in (self.question or "") else None


class EndlessAnswer(NoPrompt):
    """More came than any answer has; what was seen is no question."""

    def __init__(self, most_chars: int) -> None:
        super().__init__("")
        self.hint = f"It wrote more than {most_chars / 1e6:.0f} MB: give the command by hand and look"


class RecordedChannel(SSHChannel):
    """netmiko's channel, which reads a flood in pieces, and has all that passes recorded.

    netmiko's own session log would have the text as it is, ticket and enable secret included.
    """

    def __init__(self, conn: paramiko.Channel | None, encoding: str, recorder: Recorder) -> None:
        super().__init__(conn=conn, encoding=encoding)
        self._recorder = recorder

    def write_channel(self, out_data: str) -> None:
        """Send a text; one that could not be sent stands in the transcript too."""
        self._recorder.sent(out_data)
        super().write_channel(out_data)

    def read_channel(self) -> str:
        """Return what is there, so much at most."""
        pieces: list[str] = []
        size = 0
        while size < READ_AT_ONCE_BYTES and (piece := self.read_buffer()):
            pieces.append(piece)
            size += len(piece)
        text = "".join(pieces)
        self._recorder.came(text)
        return text
