"""How a device serves a file of its flash to devices beside it: the lines for that, typed and as they are shown.

Facts
-----
* `tftp-server FS:FILE [alias NAME] [N]` serves one file to the addresses that the standard access list N permits;
  without N to all (Cisco IOS Configuration Fundamentals Command Reference; `tftp-server bootflash:ztp.py alias
  ztp.py` on an IOS-XE router, `tftp-server flash:startup-config myconfig.file 11` in a published list). N is 1 to 99
  there. That newer releases take a named list or a higher number was not seen, so a number is taken that all know.
* A list that is not there permits every address (Cisco: an access list that is applied and not defined permits all). So
  the list is typed before the line that refers to it, and taken back after it.
* `no access-list N` takes the whole list, whatever follows N. A `host` word is not shown: `access-list 9 permit
  10.0.0.1`. IOS-XE 17 shows the same list as `ip access-list standard 9` with numbered lines below it; that a remark is
  shown there among them is assumed.
* Not seen on hardware: how many options the server takes (a block size other than 512 bytes, RFC 2348), how many
  devices it serves at once, what it answers to one that the list denies, and whether it answers within a VRF.
* `ip tftp blocksize N` takes 512 to 8192 and is the client's; without it blocks have 512 bytes, and each of them costs
  a round trip. Where a release does not know it the copy is slow, not wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from flashferry.devices.platforms.named_line import NamedLine
from flashferry.devices.platforms.platform import ChannelWindow, Setting, ValueKind, file_name

_NUMBER = re.compile(r"(?<![\w.:/-])\d{1,2}(?![\w.:/-])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a platform serves a file to devices beside it, and fetches one from a device.

    Attributes:
        command: Start of the line that serves a file.
        numbers: Numbers of lists that are tried, in order.
        blocks: What widens the blocks of a client, the best first.
    """

    command: str
    file: NamedLine
    access_list: NamedLine
    numbers: tuple[int, ...]
    blocks: tuple[ChannelWindow, ...]

    @property
    def lines(self) -> tuple[NamedLine, ...]:
        """Return the kinds of lines."""
        return (self.file, self.access_list)

    def file_line(self, path: str, number: int) -> str:
        """Return the line that serves a file to those whom a list permits."""
        return f"{self.command} {path} {number}"

    def list_line(self, number: int, remark: str) -> str:
        """Return the first line of a list: it permits no address, and names the list's owner."""
        return f"access-list {number} remark {remark}"

    def permit_line(self, number: int, address: str) -> str:
        """Return the line that lets one address in by a list."""
        return f"access-list {number} permit host {address}"

    def free_number(self, configuration: str) -> int | None:
        """Return the number of a list that a configuration names nowhere, or None.

        A number that is only referred to is not free either: what refers to it would change with the list.
        """
        used = {int(one) for one in _NUMBER.findall(configuration)}
        return next((one for one in self.numbers if one not in used), None)

    def serves(self, path: str, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the global lines that serve a file of that name, from wherever, or everything."""
        found = [line for line in lines if f"{line} ".startswith(f"{self.command} ")]
        return tuple(line for line in found if _names(line.removeprefix(self.command), file_name(path)))


def _names(served: str, name: str) -> bool:
    """Return whether what follows the command means a file of that name, or a whole file system."""
    words = served.split()
    files = [words[0], *(words[at + 1] for at, word in enumerate(words[:-1]) if word == "alias")] if words else []
    return any(one.rpartition(":")[2].rpartition("/")[2] in ("", name) for one in files)


COMMAND = "tftp-server"

SERVING = Serving(
    command=COMMAND,
    file=NamedLine(
        what="served file",
        keyword="served file {name}",
        shown_as=re.compile(rf"{COMMAND} (?P<path>[\w-]+:/?(?P<name>[^\s:/][^\s:]*))(?P<rest> .*|)"),
        off=f"no {COMMAND} {{path}}",
    ),
    access_list=NamedLine(
        what="access list",
        keyword="access list {name}",
        shown_as=re.compile(
            r"(?:access-list (?P<name>\d{1,2})(?P<rest> .*)|ip access-list standard (?P<head>\d{1,2}))"
        ),
        off="no access-list {name}",
        entries=re.compile(r"permit \d{1,3}(?:\.\d{1,3}){3}"),
    ),
    numbers=tuple(range(99, 0, -1)),
    blocks=(
        ChannelWindow(
            setting=Setting(
                keyword="tftp blocksize",
                command="ip tftp blocksize",
                tail=r"(?: \d{3,4})?",
                kind=ValueKind.BYTES,
            ),
            smallest_bytes=512,
            largest_bytes=8192,
            least_try_bytes=1024,
            since=(12, 4),
        ),
    ),
)
"""Highest numbers first: people begin with the low ones."""
