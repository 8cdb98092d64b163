"""The first configuration of a router in a lab: that SSH lets the night in, and that it is known to be ours. Pure.

Facts
-----

- A node reads its first configuration at boot: an IOL and an iosv as their startup configuration, a csr1000v and a
  cat8000v as a text on a CD (CVAC). SSH version 2 needs a host name, a domain name and a key.
- `crypto key generate rsa modulus 2048` in such a text gives the key on IOL and on C8000V, by the configurations that
  containerlab and vrnetlab boot them with. Whether iosv obeys it is not confirmed; where it does not, SSH never answers
  and the night ends as a fault of the lab, with the console's log kept.
- The password stands in clear text in what the controller imports: IOS makes a hash of it when it reads the line. It is
  made for one night and is worth nothing afterwards.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface

from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import masked
from flashferry.nightly.settings import NodeLogin
from flashferry.nightly.topology.definitions import RouterKind

DOMAIN = "lab"

_HOST_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}")
_NAMED = re.compile(r"^\s*hostname\s+(\S+)", re.MULTILINE)
_LAST_LINES = ("line vty 0 4", " login local", " transport input ssh", "crypto key generate rsa modulus 2048", "end")
_NO_SECRET_SIGN = re.compile(r"[?\s]")
_SSH_LINE = re.compile(r"^\s*transport input\s.*\b(ssh|all)\b", re.MULTILINE)
_SECRET_LINE = re.compile(
    r"(?P<kept>(?:(?:\b|(?=-))(?:password|secret|community|key-string|ascii"
    r"|-key\s+\d+\s+md5|authentication-key(?!\s+\d+\s+md5)"
    r"|pre-shared-key(?:\s+(?:local|remote))?(?!\s+(?:address|hostname|local|remote)\b)"
    r"|(?:server|isakmp)\s+key)"
    r"|^[ \t]+key|pre-shared-key\s+(?:address|hostname)\s+.*\bkey)\s+(?:[0-9]\s+)?)(?P<secret>[^\s\"']+)",
    re.IGNORECASE | re.MULTILINE,
)
"""What an IOS configuration keeps secret."""
_NEEDED = (
    (re.compile(r"^\s*(username|aaa new-model)\b", re.MULTILINE), "line 'username'"),
    (re.compile(r"^\s*line vty\b", re.MULTILINE), "line 'line vty'"),
    (_SSH_LINE, "'transport input ssh' below 'line vty'"),
    (re.compile(r"^\s*ip address (dhcp|\d)", re.MULTILINE), "line 'ip address'"),
)


def day0(
    kind: RouterKind,
    *,
    name: str,
    login: NodeLogin,
    mark: str = "",
    address: IPv4Interface | None = None,
    gateway: IPv4Address | None = None,
) -> str:
    """Return the first configuration of a router.

    Args:
        kind: What it is.
        name: Its host name: letters, digits and '-', at most 63, a letter first.
        login: Its user, who gets privilege 15.
        mark: What its first interface is described as, by which it is known from all other routers; empty for none.
        address: That of its first interface; None: by DHCP.
        gateway: Its way out, where its address is given.

    Raises:
        ConfigInvalid: Name or login is none that IOS takes in such a line.
    """
    check_words(name, login)
    lines = [
        *(("platform console serial",) if kind.has_serial_line else ()),
        f"hostname {name}",
        "no ip domain lookup",
        f"ip domain name {DOMAIN}",
        f"username {login.username} privilege 15 secret {login.password}",
        *((f"enable secret {login.secret}",) if login.secret else ()),
        "ip ssh version 2",
        f"interface {kind.interface}",
        *((f" description {mark}",) if mark else ()),
        f" ip address {f'{address.ip} {address.netmask}' if address else 'dhcp'}",
        " no shutdown",
        *((f"ip route 0.0.0.0 0.0.0.0 {gateway}",) if address and gateway else ()),
        *_LAST_LINES,
    ]
    return "\n".join(lines)


def check_words(name: str, login: NodeLogin) -> None:
    """Refuse a host name or a login that IOS does not take in a line.

    Raises:
        ConfigInvalid: It is one.
    """
    if not _HOST_NAME.fullmatch(name):
        raise ConfigInvalid(
            f"router {name}: expected a host name of at most 63 letters, digits and '-', a letter first, found another",
            hint="Give the site another name: a router is named after it",
        )
    if any(_NO_SECRET_SIGN.search(one) for one in (login.username, login.password, login.secret or "")):
        raise ConfigInvalid(
            "devices.login: expected user and password without blanks and question marks, found one",
            hint="IOS takes a blank for the end of it and a question mark for a call for help; choose another",
        )


def without_secrets(text: str) -> str:
    """Return configurations, or what a console said, without secrets, those of a user's own too."""
    # Ours first, whole: a line's secret ends at a quote for the other rule, and the rest of it would stay.
    return _SECRET_LINE.sub(r"\g<kept>***", masked(text))


def missing_for_ssh(configuration: str) -> str | None:
    """Return what a configuration lacks to let SSH in, or None: as far as its lines show it."""
    return next((sentence for needed, sentence in _NEEDED if not needed.search(configuration)), None)


def host_name(configuration: str) -> str | None:
    """Return what a configuration has its router call itself, or None where it does not say."""
    found = _NAMED.search(configuration)
    return found[1] if found else None
