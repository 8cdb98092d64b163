"""Readers of the values of `data` keys, for hosts, groups and defaults alike.

A reader checks a value and returns it in its type, or None if the key is absent or empty. It raises `ConfigInvalid` for
a wrong value; the caller adds file, host and key to the message.
"""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import keep_secret
from flashferry.core.value_description import control_character, described, unknown_key
from inventory.time_window import DAYS, TimeWindow, check_windows
from inventory.transport_policy import NAMES as TRANSPORT_NAMES

WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""An address, a name or a VRF as one word: it becomes part of a command, where a space or line break would end it."""

INTERFACE = re.compile(r"[A-Za-z][A-Za-z-]*\d+(?:[/.:]\d+)*")
"""An interface name as one word: `GigabitEthernet0/0/0`, `Gi0`, `Loopback0`, `Vlan10`, `Te1/1/1.100`."""

DEPOT_URL = re.compile(
    r"https?://(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[A-Za-z0-9._~/-]*)?"
)
"""URL of a depot, without user name and password."""

_WINDOW_KEYS = ("days", "from", "until", "timezone")
_CLOCKS = {"from": "'22:00'", "until": "'05:00'"}


class HostKeyPolicy(Enum):
    """Treatment of a device with an unknown SSH host key; a changed key is always refused."""

    ACCEPT_NEW = "accept-new"
    STRICT = "strict"


def read_policy(value: object) -> HostKeyPolicy:
    """Read the policy for unknown host keys."""
    if value is None:
        return HostKeyPolicy.ACCEPT_NEW
    try:
        return HostKeyPolicy(value)
    except ValueError:
        known = " or ".join(one.value for one in HostKeyPolicy)
        raise ConfigInvalid(
            f"expected {known}, found {described(value)}",
            hint="'accept-new' keeps the key of a first login, 'strict' wants every key known beforehand",
        ) from None


def read_path(value: object) -> Path | None:
    """Read the path of a file, with `~` expanded; a `Path`, which only the operator can give, is returned as it is."""
    if value is None or isinstance(value, Path):
        return value
    if isinstance(value, str) and value and control_character(value) is None:
        return at_home(value)
    raise ConfigInvalid(
        f"expected the path of a file, found {described(value)}", hint="Give the path as text on one line"
    )


def read_secret(value: object) -> str | None:
    """Read a secret; an error message about it never contains it."""
    if value is None:
        return None
    if isinstance(value, str):
        return read_line(value)
    raise ConfigInvalid(f"expected text, found {type(value).__name__}", hint="Put it in quotes")


def read_line(text: str) -> str:
    """Check a text that is typed into a terminal line, such as a password, and return it.

    Raises:
        ConfigInvalid: It has a line break, which would end the line, or another control character.
    """
    if (found := control_character(text)) is None:
        return text
    raise ConfigInvalid(
        f"expected one line of text, found {found} in it",
        hint="It may be the end of a line: leave it out",
    )


def check_login(username: str | None, password: str | None, enable_secret: str | None) -> None:
    """Check that credentials can be typed into a line, and register the secrets to be masked in all output.

    Raises:
        ConfigInvalid: One of the three has a line break or control character; the message says which.
    """
    keep_secret(password, enable_secret)
    for what, text in (("user name", username), ("password", password), ("enable secret", enable_secret)):
        try:
            read_line(text or "")
        except ConfigInvalid as error:
            raise ConfigInvalid(f"{what}: {error.message}", hint=error.hint) from None


def read_word(value: object) -> str | None:
    """Read a word, such as a site's name, an address or a VRF."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and WORD.fullmatch(value):
        return value
    raise ConfigInvalid(
        f"expected one word of letters, digits, '.', '_', '-', found {described(value)}",
        hint="Write it without blanks; a name with others, as of a city, takes '-' in their place",
    )


def read_interface(value: object) -> str | None:
    """Read the name of an interface."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and INTERFACE.fullmatch(value):
        return value
    raise ConfigInvalid(
        f"expected an interface such as GigabitEthernet0/0, found {described(value)}",
        hint="Give its name as 'show ip interface brief' has it",
    )


def read_depot(value: object) -> str | None:
    """Read the location of a site's depot: host name, address or URL."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and (WORD.fullmatch(value) or DEPOT_URL.fullmatch(value)):
        return value
    raise ConfigInvalid(
        "expected the depot's host name, or its URL such as https://depot.example.net:8443/ without a login, found "
        f"{described(value)}",
        hint="Give the name by which the site's devices reach it; its login is given where the depot is set up",
    )


def read_rate(value: object) -> float | None:
    """Read a link's rate in bit/s, 1000 to 1e12."""
    return _number(value, low=1_000, high=1e12)


def read_share(value: object) -> float | None:
    """Read a share of a link, 0.01 to 1."""
    return _number(value, low=0.01, high=1.0)


def read_copies(value: object) -> int | None:
    """Read a number of copies, at least one."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000:
        raise ConfigInvalid(
            f"expected a whole number from 1 to 10000, found {described(value)}",
            hint="Give how many copies may go to the site at the same time",
        )
    return value


def read_image(value: object) -> str | None:
    """Read an image: a file name, or a path that ends in one; returned as written."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and control_character(value) is None and WORD.fullmatch(value.rpartition("/")[2]):
        return value
    raise ConfigInvalid(
        "expected an image's file name of letters, digits, '.', '_', '-', with its folder or without, found "
        f"{described(value)}",
        hint="Rename the file: some characters of its name would not come through a router's command line",
    )


def read_transports(value: object) -> tuple[str, ...]:
    """Read the allowed transports, the preferred one first; empty if the key is absent.

    In a cell of a table they are one text, separated by commas, semicolons or spaces.
    """
    if value is None or value == "":
        return ()
    names = re.split(r"[\s,;]+", value.strip()) if isinstance(value, str) else value
    known = ", ".join(TRANSPORT_NAMES)
    if not isinstance(names, list):
        raise ConfigInvalid(f"expected a list of {known}, found {described(value)}", hint=_TRANSPORTS_HINT)
    if not names:
        raise ConfigInvalid(
            f"expected at least one of {known}, found an empty list",
            hint="Leave the key out where all are allowed, or set it to 'null' to override a group's",
        )
    for name in names:
        if name not in TRANSPORT_NAMES:
            raise ConfigInvalid(f"expected some of {known}, found {described(name, _PROTOCOLS)}", hint=_TRANSPORTS_HINT)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigInvalid(f"expected each transport once, found {twice} twice", hint="Leave one of them out")
    return tuple(names)


def read_clear_text(value: object) -> bool | None:
    """Read whether login and image may be sent in clear text."""
    if isinstance(value, str) and value.strip().lower() in _BOOLEANS:
        return _BOOLEANS[value.strip().lower()]
    if value is None or value == "" or isinstance(value, bool):
        return value if isinstance(value, bool) else None
    raise ConfigInvalid(
        f"expected true or false, found {described(value)}",
        hint="Without quotes: false forbids FTP and HTTP, which carry login and image in clear text",
    )


def read_flag(value: object) -> bool:
    """Read a boolean; False if the key is absent."""
    if isinstance(value, str) and value.strip().lower() in _BOOLEANS:
        return _BOOLEANS[value.strip().lower()]
    if value is None or value == "":
        return False
    if isinstance(value, bool):
        return value
    raise ConfigInvalid(f"expected true or false, found {described(value)}", hint="Write it without quotes")


def read_windows(value: object) -> tuple[TimeWindow, ...]:
    """Read the maintenance windows of a site; empty if the key is absent."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ConfigInvalid(f"expected a list of windows, found {described(value)}", hint=_WINDOW_HINT)
    if not value:
        raise ConfigInvalid(
            "expected at least one window, found none",
            hint="Leave the key out for a site that is always open, or set it to 'null' to override a group's",
        )
    windows = tuple(_window(number, one) for number, one in enumerate(value, start=1))
    check_windows(windows)
    return windows


def _window(number: int, value: object) -> TimeWindow:
    """Read one window; `number`, from 1, is its number in error messages."""
    if not isinstance(value, dict):
        raise ConfigInvalid(f"window {number}: expected a mapping, found {described(value)}", hint=_WINDOW_HINT)
    for key in value:
        if key not in _WINDOW_KEYS:
            raise ConfigInvalid(f"window {number}: {unknown_key(key, _WINDOW_KEYS)}", hint=_WINDOW_HINT)
    opens, closes = (_clock(number, key, value.get(key)) for key in _CLOCKS)
    zone = value.get("timezone")
    if zone is not None and not isinstance(zone, str):
        raise ConfigInvalid(
            f"window {number}: timezone: expected a name such as Europe/Berlin, found {described(zone)}",
            hint="Give the IANA name of the site's zone in quotes, or leave the key out for UTC",
        )
    try:
        return TimeWindow(opens=opens, closes=closes, days=_days(value.get("days")), timezone=zone or "UTC")
    except ConfigInvalid as error:
        raise ConfigInvalid(f"window {number}: {error.message}", hint=error.hint) from None


def _clock(number: int, key: str, value: object) -> str:
    """Read a time of day. Some YAML parsers read 22:00 as the number 1320, in base 60, which is refused."""
    if isinstance(value, str):
        text = "00:00" if value == "24:00" and key == "until" else value
        return text.zfill(5) if re.fullmatch(r"\d:\d\d", text) else text
    hint = "Put it in quotes" if isinstance(value, int) else "Write hours and minutes, in quotes"
    raise ConfigInvalid(
        f"window {number}: {key}: expected a time such as {_CLOCKS[key]}, found {described(value)}", hint=hint
    )


def _days(value: object) -> tuple[str, ...]:
    if value is None:
        return DAYS
    if not isinstance(value, list):
        raise ConfigInvalid(
            f"days: expected a list such as [mon, tue], found {described(value)}",
            hint="Write the days in brackets, also one alone: [sat]",
        )
    for one in value:
        if not isinstance(one, str):
            raise ConfigInvalid(
                f"days: expected some of {', '.join(DAYS)}, found {described(one)}",
                hint="Give each day by its first three letters, in quotes",
            )
    return tuple(one.lower() for one in value)


def _number(value: object, *, low: float, high: float) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigInvalid(
            f"expected a number from {low:g} to {high:g}, found {described(value)}",
            hint="Write it in digits, without a unit: 50000000 for 50 Mbit/s, 0.8 for 80 %",
        )
    return float(value)


def at_home(path: str) -> Path:
    """Return a path with `~` expanded; that of an unknown user is left unchanged."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


_TRANSPORTS_HINT = "Write it as [http, scp], the preferred one first; docs/inventory.md says what each is"
_PROTOCOLS = frozenset({*TRANSPORT_NAMES, "tftp", "rcp", "ssh", "telnet", "ftps", "auto", "all"})
"""Words that may be given as a transport by mistake, and may be quoted because they are no secrets."""
_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
"""Words for true and false in a cell of a table."""

_WINDOW_HINT = 'Write it as [{days: [mon, tue], from: "22:00", until: "05:00", timezone: Europe/Berlin}]'
