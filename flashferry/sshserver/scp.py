"""The bytes of SCP, from the side that sends: what a client asks for, and what it answers. No I/O in here.

Facts
-----

- SCP has no standard; `scp.c` of OpenSSH is what all follow. The client runs `scp -f PATH` here, with flags before the
  path (`-v`, `-p`, `-r`, `-d`), and is the sink. PATH is not quoted by OpenSSH: a shell would have been there to take
  it apart, here nothing is.
- The sink speaks first: a byte of 0. The line `C0644 SIZE NAME` may be on its way by then, for a sink reads nothing
  before it has said so (sink() of scp.c); that saves a round trip. It answers the line; then come SIZE bytes and a byte
  of 0, it answers.
- An answer is a byte of 0; or one of 1 or 2, a text and a line feed. The last one comes when the file is where it
  belongs: the device's own word of delivery, or why not, such as no space.
- NAME must be the base name that the client asked for, or OpenSSH refuses it (`filename does not match request`).
"""

from dataclasses import dataclass

MOST_ANSWER_BYTES = 2048
"""A sink whose answer is longer is no sink."""

_OK, _WARNING, _FATAL = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What a sink answered: that all is well, or in its own words why not."""

    is_ok: bool
    text: str = ""


class Answers:
    """Takes a sink's answers apart, however they are cut."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, data: bytes) -> list[Answer]:
        """Take bytes in and return the answers that are whole now.

        Raises:
            ValueError: These are no answers of a sink.
        """
        self._left += data
        found = []
        while self._left and (answer := self._next()) is not None:
            found.append(answer)
        if len(self._left) > MOST_ANSWER_BYTES:
            raise ValueError("an answer without an end")
        return found

    def _next(self) -> Answer | None:
        kind = self._left[0]
        if kind == _OK:
            del self._left[0]
            return Answer(is_ok=True)
        if kind not in (_WARNING, _FATAL):
            raise ValueError(f"expected an answer of SCP, found byte 0x{kind:02x}")
        text, end, _ = self._left.partition(b"\n")
        if not end:
            return None
        del self._left[: len(text) + 1]
        return Answer(is_ok=False, text=readable(bytes(text[1:])))


def requested_name(command: str) -> str | None:
    """Return the base name that a command asks to be sent; None if it is no `scp -f PATH`.

    Args:
        command: As the client sent it. Flags before the path may be any but those that send to us.
    """
    program, _, rest = command.strip().partition(" ")
    if program.rsplit("/", 1)[-1] != "scp":
        return None
    flags, rest = "", rest.lstrip()
    while rest.startswith("-"):
        flag, _, rest = rest.partition(" ")
        rest = rest.lstrip()
        if flag == "--":
            break
        flags += flag[1:]
    if "f" not in flags or "t" in flags:
        return None
    return _unquoted(rest).rsplit("/", 1)[-1] or None


def _unquoted(path: str) -> str:
    for quote in ("'", '"'):
        if len(path) > 1 and path[0] == path[-1] == quote:
            return path[1:-1]
    return path


def header(size_bytes: int, name: str) -> bytes:
    """Return the line before a file."""
    return f"C0644 {size_bytes} {name}\n".encode()


TRAILER = b"\0"
"""What stands behind a file's last byte: we have read all of it."""


def complaint(text: str) -> bytes:
    """Return an error for the client's user."""
    return b"\x01scp: " + text.encode() + b"\n"


def readable(text: bytes, most: int = 200) -> str:
    """Return a stranger's text on one line of so many letters at most, without what a terminal would obey."""
    decoded = text.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in decoded).strip()[:most]
