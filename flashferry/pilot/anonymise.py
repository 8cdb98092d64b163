"""Replacement of names, addresses and numbers that identify a network in device output. Pure.

An original has the same replacement in all texts of a pilot. Facts that the rules rest on:

* The blocks for documentation (RFC 5737, RFC 3849) and benchmarks (RFC 2544) are not routed. The last octet of an IPv4
  address stays, so that addresses of one /24 still share one; masks, wildcards and loopback addresses stay unchanged.
* In a configuration, names may occur anywhere, so only known text is kept: words of IOS itself (`ios_words.txt`),
  numbers, interfaces, and words of `show version`. Descriptions, remarks, banners and locations are replaced as a
  whole, certificates and keys digit by digit.
* A name found in a configuration is replaced in all other texts too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from flashferry.devices.masked_stream import without_secrets
from flashferry.pilot.exchanges import Exchange, Session

_V4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w)(?!\.\d)")
_V6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:)[0-9A-Fa-f:]{2,39}(?![\w:])")
_MAC = re.compile(
    r"(?<![\w.:-])(?:[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}"
    r"|[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2})(?:\1[0-9A-Fa-f]{2}){4})(?![\w.:-])"
)
_PRINT = re.compile(r"SHA256:[A-Za-z0-9+/=]{20,}|(?<![\w:])(?:[0-9A-Fa-f]{2}:){15}[0-9A-Fa-f]{2}(?![\w:])")
_LONG = re.compile(r"(?<![\w+/=.-])(?=[^\s]*[a-z])(?=[^\s]*[A-Z])(?=[^\s]*\d)[A-Za-z0-9+/=]{32,}(?![\w+/=.-])")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?!cisco\.com\b)[\w-]+(?:\.[\w-]+)+")
_DOMAIN = re.compile(r"(?<![\w./@%-])(?:[\w-]+\.)+[A-Za-z]{2,}(?![\w-])")

_HOSTS = re.compile(r"^hostname (\S+)|^(\S+) uptime is |^(?:Device|System Name|Switch name)\s*: (\S+)", re.MULTILINE)
_DOMAINS = re.compile(r"^ip domain(?:[ -]name|[ -]list)(?: vrf \S+)? (\S+)", re.MULTILINE)
_USERS = re.compile(
    r"^ ?username (\S+)|(?:change at|updated at) [^\n]*? by (\S+)$"
    r"|(?:[Cc]onfigured from|requested|Command) \S*? ?by (\S+)"
    r"|\[user: ([^\]\s]+)\]|(?:logging in to \S+ port \d+ as |user )'([^']+)'",
    re.MULTILINE,
)
_SERIALS = re.compile(
    r"(?:Processor board ID|[Ss]erial [Nn]umber\s*:?|\bSN\s*:|^license udi pid \S+ sn|chassis-id)[ \t]+"
    r"([A-Za-z0-9-]{5,})"
    # Serial numbers of boards (FTX1842A0BC) and of virtual routers (9UJ2YL5QK3D).
    r"|(?<![\w-])([A-Z]{3}\d{4}[A-Z0-9]{4}|9(?=[A-Z0-9]*[A-Z])[A-Z0-9]{10})(?![\w-])",
    re.MULTILINE,
)
_NUMBERS = re.compile(
    r"(?<=router bgp )\d+|(?<=remote-as )\d+|(?<=local-as )\d+|(?<=engineID local )\w+|(?<=dialer string )\S+"
)
_OURS = re.compile(r"(alias exec flashferry-\S+ )\S+@\S+")

_FREE = re.compile(
    r"^(?P<head>[+-]?\s*(?:no )?(?:description|contact\S*|location|street-address|customer-id|site-id"
    r"|snmp-server (?:contact|location|chassis-id)|(?:access-list \S+ |\d+ )?remark))[ \t]+\S.*$"
)
_BANNER = re.compile(r"^banner \S+ (?P<mark>\^C|\S)(?P<rest>.*)$")
_BLOCK = re.compile(r"^\s+(?:certificate|key-string)(?=\s|$)")
_BLOCK_END = re.compile(r"^\s*(?:quit|exit)\b|^\S")
_CERTIFICATE = re.compile(r"^\s+[0-9A-F]{8}(?: [0-9A-F]{2,8})+\s*$")
_CONFIGURATION = re.compile(r"^(?:do )?(?:show (?:running|startup)-config|show archive config|more )")
_ROW = re.compile(r"^(?P<head>\s*\d+\s+[drwx-]{2,4}\s.*?\s{2})(?P<name>\S+)\s*$")
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z-]*?\d[\d/.:]*")
_PLAIN = re.compile(r"[\W\d_]+|0x[0-9A-Fa-f]+|\d+[a-z]?")
_FILE_SYSTEM = r"(?:flash-?\d*|bootflash|nvram|harddisk|disk\d|slot\d|usb\d|system|null|crashinfo):/?"
_IMAGE = re.compile(
    rf"{_FILE_SYSTEM}|(?:{_FILE_SYSTEM})?(?:"
    r"(?:asr|cat|cbr|cgr|csr|ess|isr|ncs|rsp|vg|vios|iosv|i86|[cC]\d|ie\d|ir\d|s\d)[\w.-]*(?:universalk9|advipservices"
    r"|adventerprise|ipbase|iosxe|\.SPA\.|rpboot|-mz\b|-m\b)[\w.-]*"
    r"|packages\.conf|nvram|vlan\.dat|e1000_bia\.txt|(?:private|startup|running)-config|multiple-fs|config(?:\.text)?"
    r"|\.?(?:boot|core|tracelogs|installer|lost\+found|prst_sync|rollback_timer|ssh|dbpersist|virtual-instance"
    r"|license_evlog|gs_script|onep|pnp-info|pnp-tech|sysboot|SHARED-IOX|syslog|iox|guest-share|memleak\.tcl"
    r"|throughput_monitor_params|cvac\.log|crashinfo))"
)
_OF_PILOT = re.compile(r"(?:probe-\d+|reach|flashferry-pilot-\w+)\.bin")
_FILES = frozenset(
    {"apdp", "apsp", "bak", "bin", "cer", "cfg", "conf", "crt", "csv", "dat", "dll", "gz", "html", "jar", "json", "log"}
    | {"lua", "ova", "out", "pem", "pkg", "prv", "pub", "py", "smu", "spa", "sys", "tar", "tcl", "text", "tmp", "txt"}
    | {"ver", "xml", "zip"}
)
"""Ends of file names: what looks like a domain with one of them is none."""

_NO_LINES = ("!", "%", "^", "Building ", "Current ", "Using ", "Load for ", "Time source ")
_LEAST_NAME = 3


@cache
def ios_words() -> frozenset[str]:
    """Return words of IOS in lower case, which identify nothing."""
    return frozenset(files("flashferry.pilot").joinpath("ios_words.txt").read_text(encoding="utf-8").split())


class Anonymiser:
    """Replaces what identifies a network, with the same replacement everywhere.

    Args:
        sessions: All sessions; names found in them are replaced everywhere.
        hosts: Known names of devices and of this host.
        users: Known user names.
        words: Further words to replace, such as passwords.
    """

    def __init__(
        self,
        sessions: Iterable[Session],
        *,
        hosts: Iterable[str] = (),
        users: Iterable[str] = (),
        words: Iterable[str] = (),
    ) -> None:
        self._names: dict[str, str] = {}
        self._networks: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._kept: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self._size = 0
        everything = [(one, one.answer) for session in sessions for one in session.exchanges]
        texts = [text for _, text in everything]
        self._words = {word.lower() for text in texts for word in re.findall(r"\w+", text)}
        self._taken = {found[0].rpartition(".")[0] for text in texts for found in _V4.finditer(text)}
        for secret in filter(None, words):
            self._names.setdefault(secret, "***")
        known = dict.fromkeys(name for text in texts for name in _found(_HOSTS, text))
        for name in (*known, *hosts, *(_prompt_name(one) for one, _ in everything)):
            self._name(name, "router")
        for text in texts:
            for name in _found(_DOMAINS, text):
                self._name(name, "domain", "{}.example")
            for name in _found(_USERS, text):
                self._name(name, "user")
            for name in _found(_SERIALS, text):
                self._serial(name)
        for name in users:
            self._name(name, "user")
        self._keep_words(text for one, text in everything if one.command == "show version")
        for one, text in everything:
            if _CONFIGURATION.match(one.command):
                self._configuration(without_secrets(text))
            elif one.is_configuring:
                self._configuration(without_secrets(one.command))

    def text(self, text: str, *, command: str = "", is_configuration: bool = False) -> str:
        """Return a text anonymised.

        Args:
            text: Device output, or a sentence of flashferry.
            command: The command that produced it, or empty.
            is_configuration: Whether it is configuration lines, whatever the command.
        """
        text = without_secrets(text)
        if is_configuration or _CONFIGURATION.match(command):
            text = self._configuration(text)
        elif command.startswith(("dir", "show flash", "show bootflash")):
            text = "\n".join(self._row(line) for line in text.split("\n"))
        return self._substituted(text)

    def exchange(self, one: Exchange) -> Exchange:
        """Return an exchange anonymised."""
        typed = one.is_configuring
        return Exchange(
            session=one.session,
            command=self.text(one.command, is_configuration=typed),
            echo=self.text(one.echo, is_configuration=typed),
            answer=self.answer(one.answer, one),
            prompt=self._substituted(one.prompt),
            before=self._substituted(one.before),
        )

    def answer(self, text: str, one: Exchange) -> str:
        """Return an exchange's answer, or some lines of it, anonymised; the number of lines stays."""
        return self.text(text, command=one.command) if one.command else self._greeting(text)

    def _greeting(self, text: str) -> str:
        """Return the text before the first prompt; a banner is replaced as a whole."""
        return "\n".join("banner" if line.strip() else line for line in text.split("\n"))

    def _name(self, name: str, kind: str, form: str = "{}") -> str:
        """Return the replacement of a name, a new one if needed."""
        name = name.strip("\"',;")
        if not name or name == "***":
            return name
        if name not in self._names:
            self._names[name] = form.format(f"{kind}{self._next(kind)}")
        return self._names[name]

    def _serial(self, serial: str) -> None:
        self._names.setdefault(serial, f"SN{self._next('serial'):0{max(len(serial) - 2, 1)}d}")

    def _next(self, kind: str) -> int:
        """Return the next number of a kind, such that the replacement is not a word that a device printed."""
        number = self._counts.get(kind, 0) + 1
        while f"{kind}{number}" in self._words:
            number += 1
        self._counts[kind] = number
        return number

    def _keep_words(self, texts: Iterable[str]) -> None:
        """Add the words of `show version`, except names, to those kept in configurations."""
        for text in texts:
            for word in re.findall(r"[A-Za-z][\w/.-]*", text):
                if word not in self._names and not _DOMAIN.fullmatch(word):
                    self._kept.add(word.lower())

    def _configuration(self, text: str) -> str:
        """Return configuration lines with all words but those of IOS replaced."""
        lines: list[str] = []
        mark = ""
        is_block = False
        for line in text.split("\n"):
            if mark:
                is_over = mark in line
                lines.append(mark if is_over else "banner" if line.strip() else line)
                mark = "" if is_over else mark
            elif is_block and _BLOCK_END.match(line) is None:
                lines.append(re.sub(r"[0-9A-Za-z+/=]", "0", line))
            elif (found := _BANNER.match(line)) is not None:
                is_whole = found["mark"] in found["rest"]
                lines.append(line[: found.start("rest")] + (f"banner{found['mark']}" if is_whole else ""))
                mark = "" if is_whole else found["mark"]
            else:
                lines.append(self._line(line))
                is_block = _BLOCK.match(line) is not None and "***" not in line
        return "\n".join(lines)

    def _line(self, line: str) -> str:
        if (found := _FREE.match(line)) is not None:
            return f"{found['head']} text"
        if _CERTIFICATE.match(line):
            return re.sub(r"[0-9A-F]", "0", line)
        if line.lstrip().startswith(_NO_LINES):
            return line
        if line.startswith(("alias exec flashferry-", "no alias exec flashferry-")):
            return line
        return re.sub(r"\S+", self._word, _NUMBERS.sub(lambda found: self._number(found[0]), line))

    def _number(self, number: str) -> str:
        return str(64_495 + int(self._name(f"AS {number}", "number").removeprefix("number")))

    def _word(self, found: re.Match[str]) -> str:
        """Return a word of a configuration line, or its replacement."""
        word = found[0].strip("\"',;()").lstrip("+-")
        lowered = word.lower()
        if (
            not word
            or "***" in word
            or lowered in ios_words()
            or lowered in self._kept
            or lowered.startswith("flashferry")
            or _PLAIN.fullmatch(word)
            or _V4.search(word)
            or _V6.fullmatch(word.partition("/")[0])
            or _MAC.fullmatch(word)
            or _IMAGE.fullmatch(word)
            or _OF_PILOT.fullmatch(word)
            or (_INTERFACE.fullmatch(word) and re.sub(r"[\d/.:]+$", "", lowered) in ios_words())
        ):
            return found[0]
        if word in self._names:
            return found[0].replace(word, self._names[word])
        if _DOMAIN.fullmatch(word) and word.rpartition(".")[2].lower() not in _FILES:
            return found[0].replace(word, self._name(word, "host", "{}.example"))
        return found[0].replace(word, self._name(word, "name"))

    def _row(self, line: str) -> str:
        """Return a row of a directory; a file name is replaced unless it is Cisco's or ours."""
        if (found := _ROW.match(line)) is None or _IMAGE.fullmatch(found["name"]) or _OF_PILOT.fullmatch(found["name"]):
            return line
        stem, dot, end = found["name"].rpartition(".")
        kept = f".{end}" if dot and stem and end.lower() in _FILES else ""
        return f"{found['head']}{self._name(found['name'], 'file', f'{{}}{kept}')}"

    def _substituted(self, text: str) -> str:
        text = _PRINT.sub("fingerprint", _OURS.sub(r"\1user@server", text))
        text = _LONG.sub("key", text)
        text = _MAIL.sub(
            lambda found: "user@server" if found[0].startswith("user@server") else "user@domain.example", text
        )
        text = _aligned(_V4, self._v4, text)
        text = _aligned(_MAC, self._mac, text)
        text = _aligned(_V6, self._v6, text)
        if self._size != len(self._names):
            self._pattern, self._size = self._names_pattern(), len(self._names)
        if self._pattern is not None:
            text = _aligned(self._pattern, self._replacement, text)
        return _DOMAIN.sub(self._domain, text)

    def _names_pattern(self) -> re.Pattern[str] | None:
        names = sorted(filter(self._is_replaced_anywhere, self._names), key=len, reverse=True)
        whole = "|".join(map(re.escape, names))
        return re.compile(rf"(?<![A-Za-z0-9_])(?:{whole})(?![A-Za-z0-9_])", re.IGNORECASE) if names else None

    def _is_replaced_anywhere(self, name: str) -> bool:
        """Return whether a name is replaced in all texts; a word of IOS is not."""
        is_common = name.lower() in ios_words() or name.lower() in ("cisco", "ios")
        return self._names[name] == "***" or (len(name) >= _LEAST_NAME and not is_common)

    def _replacement(self, name: str) -> str:
        if (known := self._names.get(name)) is not None:
            return known
        return next(new for old, new in self._names.items() if old.lower() == name.lower())

    def _domain(self, found: re.Match[str]) -> str:
        name = found[0]
        last = name.rpartition(".")[2].lower()
        if (
            last in _FILES
            or last in ("example", "text")
            or name.lower().endswith("cisco.com")
            or _IMAGE.fullmatch(name)
        ):
            return name
        if name in self._kept or not re.search(r"[a-z]{2}", last):
            return name
        return self._name(name, "host", "{}.example")

    def _v4(self, text: str) -> str:
        try:
            address = IPv4Address(text)
        except AddressValueError:
            return text
        number = int(address)
        is_mask = number in (0, 0xFFFFFFFF) or _is_run(number) or _is_run(number ^ 0xFFFFFFFF)
        if is_mask or address.is_loopback or text.startswith("224.0.0."):
            return text
        network, _, last = text.rpartition(".")
        if network not in self._networks:
            self._networks[network] = next(
                one for one in _free_networks() if one not in self._taken and one not in self._networks.values()
            )
        return f"{self._networks[network]}.{last}"

    def _v6(self, text: str) -> str:
        try:
            address = IPv6Address(text)
        except AddressValueError:
            return text
        if address.is_unspecified or address.is_loopback or address.is_multicast:
            return text
        key = address.compressed
        if key not in self._networks:
            self._networks[key] = f"{'fe80' if address.is_link_local else '2001:db8'}::{self._next('ipv6'):x}"
        return self._networks[key]

    def _mac(self, text: str) -> str:
        digits = re.sub(r"[.:-]", "", text).lower()
        if digits in ("0" * 12, "f" * 12):
            return text
        if digits not in self._networks:
            # Locally administered, so it is no vendor's address.
            self._networks[digits] = f"02005e{self._next('mac'):06x}"
        made = iter(self._networks[digits])
        return "".join(one if one in ".:-" else next(made) for one in text)


def _aligned(pattern: re.Pattern[str], replaced: Callable[[str], str], text: str) -> str:
    """Replace matches of a pattern and adjust the spaces after them, so that columns stay aligned."""

    def one(found: re.Match[str]) -> str:
        old, blanks = found["old"], found["blanks"] or ""
        new = replaced(old)
        return new + " " * max(len(blanks) + len(old) - len(new), 1) if len(blanks) > 1 else new + blanks

    # The pattern's own groups are numbered within the whole one.
    source = pattern.pattern.replace(r"\1", r"\2")
    return re.sub(rf"(?P<old>{source})(?P<blanks> +(?=\S))?", one, text, flags=pattern.flags)


def _found(pattern: re.Pattern[str], text: str) -> list[str]:
    return [value for one in pattern.finditer(text) for value in one.groups() if value]


def _prompt_name(one: Exchange) -> str:
    return re.sub(r"(?:\([\w-]+\))?[#>]\s*\Z", "", one.prompt)


def _is_run(number: int) -> bool:
    """Return whether the set bits are contiguous from the lowest, as in a wildcard mask."""
    return number & (number + 1) == 0


def _free_networks() -> Iterable[str]:
    yield from ("192.0.2", "198.51.100", "203.0.113")
    for second in (18, 19):
        for third in range(256):
            yield f"198.{second}.{third}"
