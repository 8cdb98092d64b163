"""Table of the `data` keys that flashferry reads, with reader, meaning and documentation.

Reading, the checks of files and plugins, `--filter`, the first inventory of `flashferry init` and the table of
docs/inventory.md are derived from this table. All other keys in `data` are the user's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from inventory import value_readers


class Key(Struct, frozen=True, kw_only=True):
    """One key of `data`.

    Attributes:
        name: Its name.
        read: Reader of its value, see `inventory.value_readers`; called with None if the key is absent.
        meaning: Its meaning, in Markdown, for the table of docs/inventory.md.
        values: Unit and range, for that table.
        default: Default, for that table.
        note: Comment on it in a first inventory; empty if it is not listed there.
        example: Its lines in a first inventory.
        is_shared: Whether it belongs to the site, so that all devices of a site must have the same value.
        is_public: Whether its value may be shown.
        is_number: Whether a text, as in a cell of a table, is converted to a number.
    """

    name: str
    read: Callable[[object], Any]
    meaning: str
    values: str
    default: str
    note: str = ""
    example: tuple[str, ...] = ()
    is_shared: bool = False
    is_public: bool = True
    is_number: bool = False


KEYS = (
    Key(
        name="site",
        read=value_readers.read_word,
        meaning="name of the site, whose link its devices share",
        values="one word",
        default="none: its link is shared with no other device",
    ),
    Key(
        name="link_rate_bps",
        read=value_readers.read_rate,
        meaning="rate of the site's WAN link; window, cap and predicted time come from it",
        values="bit/s, 1,000 to 10^12",
        default="unknown: no cap, copies find their pace themselves",
        note="Rate of the WAN link in bit/s. From it come the TCP window and the cap; without it copies have no cap.",
        example=("link_rate_bps: 10_000_000",),
        is_shared=True,
        is_number=True,
    ),
    Key(
        name="cap_share",
        read=value_readers.read_share,
        meaning="share of the link that all copies of the site may take together; stated, it holds for a learned rate "
        "too",
        values="0.01 to 1",
        default="0.8 of a stated rate",
        note="Share of the link that copies may take together; 0.8 of a stated rate where it is not given.",
        example=("cap_share: 0.8",),
        is_shared=True,
        is_number=True,
    ),
    Key(
        name="max_copies",
        read=value_readers.read_copies,
        meaning="copies over the site's link at once",
        values="1 to 10,000",
        default="as the run has it",
        note="How many copies may run over the link at once; as the run has it where it is not given.",
        example=("max_copies: 4",),
        is_shared=True,
        is_number=True,
    ),
    Key(
        name="depot",
        read=value_readers.read_depot,
        meaning="the site's depot: images go over the WAN once, to it, and the devices pull over the LAN",
        values="host name, or URL without a login",
        default="none",
        note="The site's depot, host name or URL: images cross the WAN once, to it, and the routers pull over the LAN.",
        example=("depot: depot.branch1.example.net",),
        is_shared=True,
    ),
    Key(
        name="neighbours",
        read=value_readers.read_flag,
        meaning="devices of the site serve each other an image that one of them has proven, see "
        "[neighbours.md](neighbours.md); a `depot` goes before it",
        values="`true`, `false`",
        default="`false`",
        note="Where no host can stand: one router pulls over the WAN and serves the others; a depot goes before it.",
        example=("neighbours: true",),
        is_shared=True,
    ),
    Key(
        name="lan_rate_bps",
        read=value_readers.read_rate,
        meaning="rate of the LAN between depot or neighbours and devices; forecasts go by it",
        values="bit/s, 1,000 to 10^12",
        default="assumed: 100 Mbit/s, and the plan says so",
        note="Rate of the LAN between depot or neighbours and the routers in bit/s.",
        example=("lan_rate_bps: 1_000_000_000",),
        is_shared=True,
        is_number=True,
    ),
    Key(
        name="windows",
        read=value_readers.read_windows,
        meaning="when the site may be worked at, see below",
        values="list, at least one",
        default="at any time",
        note="When the site may be worked at; at any time where it is not given. On these days a window opens.",
        example=(
            "windows:",
            '  - {days: [mon, tue, wed, thu], from: "22:00", until: "05:00", timezone: Europe/Berlin}',
        ),
        is_shared=True,
        is_public=False,
    ),
    Key(
        name="server_address",
        read=value_readers.read_word,
        meaning="our address as the devices reach it",
        values="one word",
        default="near end of the SSH session",
        note="Our address as these routers reach it, where it is not the near end of the SSH session.",
        example=("server_address: 192.0.2.100",),
        is_public=False,
    ),
    Key(
        name="vrf",
        read=value_readers.read_word,
        meaning="VRF through which the devices reach us",
        values="one word",
        default="none",
        note="VRF through which they reach us.",
        example=("vrf: Mgmt-intf",),
    ),
    Key(
        name="source_interface",
        read=value_readers.read_interface,
        meaning="interface of the devices' client, whichever transport it is; set for the copy, and restored",
        values="such as `Loopback0`",
        default="as the device has it",
        note="Interface that the routers' client shall use; set for the copy and restored.",
        example=("source_interface: Loopback0",),
    ),
    Key(
        name="transports",
        read=value_readers.read_transports,
        meaning="by which protocols the devices may fetch, the preferred one first, see below",
        values="list of `ftp`, `http`, `scp`, `https`, `sftp`, `push`",
        default="all but `push`, in that order",
        note="Transports by which they may fetch, the preferred one first; without it ftp, http, scp, https, sftp.",
        example=("transports: [scp, sftp]",),
    ),
    Key(
        name="clear_text",
        read=value_readers.read_clear_text,
        meaning="whether login and image may cross in clear text; `false` forbids FTP and HTTP",
        values="`true`, `false`",
        default="`true`",
        note="Forbid those that carry login and image in clear text, FTP and HTTP.",
        example=("clear_text: false",),
    ),
    Key(
        name="image",
        read=value_readers.read_image,
        meaning="the image of this device; goes before all rules",
        values="file name, or a path; see below",
        default="by the rules",
        note="The image of all of them, where no rule shall decide.",
        example=("image: c2900-universalk9-mz.SPA.158-3.M9.bin",),
    ),
    Key(
        name="console_access",
        read=value_readers.read_flag,
        meaning="someone can reach the console should the device not come back from a restart; without it `activate` "
        "wants `--i-have-console-access`",
        values="`true`, `false`",
        default="`false`",
        note="Someone can reach their consoles should one not come back from a restart.",
        example=("console_access: true",),
    ),
    Key(
        name="upstream",
        read=value_readers.read_flag,
        meaning="others are reached through it: `activate` restarts it after them, one of a site at a time",
        values="`true`, `false`",
        default="`false`",
        note="Others are reached through them: they are restarted last.",
        example=("upstream: true",),
    ),
    Key(
        name="host_keys",
        read=value_readers.read_policy,
        meaning="a device whose SSH host key is not known: refuse, or remember the key",
        values="`strict`, `accept-new`",
        default="`accept-new`",
    ),
    Key(
        name="known_hosts",
        read=value_readers.read_path,
        meaning="file of known SSH host keys",
        values="path below the state folder, where a relative one starts",
        default="`known_hosts` there",
        is_public=False,
    ),
    Key(
        name="enable_secret",
        read=value_readers.read_secret,
        meaning="enable secret, better given by environment",
        values="one line of text",
        default="none",
        is_public=False,
    ),
)

READERS: Mapping[str, Callable[[object], Any]] = {key.name: key.read for key in KEYS}
"""The reader of each key."""

SHARED = tuple(key.name for key in KEYS if key.is_shared)
"""Keys that must have the same value for all devices of a site."""


def check_values(
    data: Mapping[Any, Any],
    *,
    where: str,
    name: str,
    line: Callable[[str], str] = lambda key: "",  # noqa: ARG005
) -> None:
    """Check the values of our keys in the `data` of a host, a group or the defaults.

    Args:
        data: The mapping as written.
        where: The file or other source.
        name: The host or group.
        line: Returns the line of a key, as the end of an error message.

    Raises:
        ConfigInvalid: A value is wrong; the message names source, name and key, and never quotes the value.
    """
    for key, read in READERS.items():
        try:
            read(data.get(key))
        except ConfigInvalid as error:
            message = f"{where}: data key '{key}': {error.message}{line(key)}"
            raise ConfigInvalid(message, host=name, hint=error.hint) from None
