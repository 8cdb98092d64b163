"""Secrets of others in what a device prints: values that configuration lines are known to hold. Pure.

Facts
-----
* A running configuration has passwords, keys and community names, in clear, as type 7 (which can be turned back) or as
  a hash that can be guessed at. Those that this process knows are masked by value (`flashferry.core.known_secrets`); of
  all others only the words in front of them are known.
* Which words those are: the scrubbing lists of RANCID, oxidized (ios.rb) and netconan agree on them, as does what
  `show tech-support` replaces by `<removed>`.
* A value may hold blanks, and what may follow it differs by command: so all that follows the word is masked, up to the
  end of the line. That hides an access list's number; to separate them would be a guess.
* The same lines come in differences (`+` in front), after a prompt as an echo, and quoted in a syslog line. So the
  words count anywhere in a line, which also masks the end of a sentence such as `Password required, but none set`.
"""

from __future__ import annotations

import re

_HINTS = ("passw", "passp", "passc", "secret", "key", "psk", "token", "snmp", "auth", "priv", "$", "environment")
"""What every such line has, in lower case: most lines have none, and are done with."""

_TYPE = r"(?:[ \t]+level[ \t]+\d+)?(?:[ \t]+\d{1,2}(?=[ \t]+\S))?"
"""`level 7`, and the type of what follows: 0, 5, 6, 7, 8, 9."""

_VALUE = re.compile(
    r"(?:"
    r"(?<![\w/])(?:\w+-)*(?:passw(?:or)?d|passphrase|passcode|secret|psk|key-string|pre-shared-key|(?:id)?token)"
    + _TYPE
    +
    # `key chain NAME` and `crypto key ...` name keys, and `any key` is one of the keyboard.
    r"|(?<![\w/-])(?<!any )(?<!crypto )(?:\w+-)*key(?![ \t]+chain[ \t]+\S)"
    r"(?:[ \t]+(?:hexadecimal|hex|ascii|ascii-text|encrypted|\d{1,2})(?=[ \t]+\S))*"
    r"|(?<![\w-])snmp-server[ \t]+(?:community|host[ \t]+\S+)"
    r"|(?<![\w-])community-map"
    r"|(?<![\w-])auth(?:entication)?[ \t]+(?:md5|sha[\w-]*)"
    r"|(?<![\w-])priv(?:acy)?[ \t]+(?:3?des|aes)(?:[ \t]+\d+)?"
    r"|(?<![\w-])(?:standby|vrrp|glbp)[ \t][^\n]*?\bauthentication(?:[ \t]+(?:text|md5)(?=[ \t]+\S))?"
    r"|(?<![\w-])environment[ \t]+\S*(?:pass|secret|token|key|pwd)\S*"
    r")[ \t]+(?P<value>\S(?:[^\n]*\S)?)",
    re.IGNORECASE,
)

_HASH = re.compile(r"\$(?:1|5|6|8|9|14)\$[\w./$+=-]{6,}")
"""A password's hash, wherever it stands."""


def line_secrets(text: str) -> list[tuple[int, int]]:
    """Return start and end of each value that a configuration line is known to keep secret."""
    found: list[tuple[int, int]] = []
    at = 0
    # Not `splitlines`: a letter of two bytes may have one that it takes for a line's end.
    for line in text.split("\n"):
        lowered = line.lower()
        if any(hint in lowered for hint in _HINTS):
            if (value := _VALUE.search(line)) is not None:
                found.append((at + value.start("value"), at + value.end("value")))
            found += [(at + one.start(), at + one.end()) for one in _HASH.finditer(line)]
        at += len(line) + 1
    return found
