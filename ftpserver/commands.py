"""The FTP commands a client may use, and how they appear in a log.

The list is what routers and common clients need to fetch one file (RFC 959, 2428, 3659). Commands that write, list, or
describe the server do not exist here.
"""

from __future__ import annotations

from typing import Any

_LONGEST_ARGUMENT = 100
# Name to (needs a login, argument: True required, False forbidden, None optional).
_TABLE: dict[str, tuple[bool, bool | None]] = {
    "ABOR": (True, False),
    # A NOOP where no space has to be announced (RFC 959 4.1.3); what it announces, a STOR, does not exist.
    "ALLO": (True, True),
    "CWD": (True, None),
    "EPRT": (True, True),
    "EPSV": (True, None),
    "FEAT": (False, False),
    "MODE": (True, True),
    "NOOP": (False, False),
    "PASS": (False, None),
    "PASV": (True, False),
    "PORT": (True, True),
    "PWD": (True, False),
    "QUIT": (False, False),
    "REST": (True, True),
    "RETR": (True, True),
    "SIZE": (True, True),
    "STRU": (True, True),
    "SYST": (False, False),
    "TYPE": (True, True),
    "USER": (False, True),
}

ABSENT = frozenset(
    (
        *("ACCT", "APPE", "CDUP", "DELE", "HELP", "LIST", "MDTM", "MFMT", "MKD", "MLSD", "MLST", "NLST"),
        *("OPTS", "REIN", "RMD", "RNFR", "RNTO", "SITE", "SMNT", "STAT", "STOR", "STOU"),
        *("XCUP", "XCWD", "XMKD", "XPWD", "XRMD"),
    )
)
"""Commands of RFC 959, 1123 and 3659 that do not exist here: 502, where an unknown one is 500 (RFC 959 4.2)."""

COMMANDS: dict[str, dict[str, Any]] = {
    name: {"perm": None, "auth": auth, "arg": argument, "help": name} for name, (auth, argument) in _TABLE.items()
}
"""The table in the form pyftpdlib wants; no command has a permission, because none touches a file system."""

_SECRET = frozenset({"USER", "PASS"})


def masked_command(name: str, argument: str) -> str:
    """Return a command for the log: credentials hidden, and arguments of unknown commands too, for all we know."""
    if name not in COMMANDS:
        return f"{_visible(name[:8])} ***"
    if name in _SECRET:
        return f"{name} ***"
    return f"{name} {_visible(argument[:_LONGEST_ARGUMENT])}".rstrip()


def _visible(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
