"""What two sides of a key exchange have in common, and what IOS logs where that is nothing.

Facts (RFC 4253 7.1)
-----
KEXINIT is message 20, a cookie of 16 bytes, and ten lists of names: key exchanges, host keys, ciphers, MACs and
compressions, the latter three for each direction, and languages. The first of the client's list that the server has is
taken.
A cipher that authenticates by itself (GCM, ChaCha20-Poly1305) needs no MAC.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.ssh_client.settings import SshSettings

_FIRST_LIST = 17


def name_lists(payload: bytes) -> list[list[str]]:
    """Return the ten lists of a KEXINIT; an empty list where it is none."""
    if len(payload) < _FIRST_LIST or payload[0] != 20:
        return []
    lists, at = [], _FIRST_LIST
    for _ in range(10):
        length = struct.unpack_from("!I", payload, at)[0]
        lists.append(payload[at + 4 : at + 4 + length].decode("ascii", "replace").split(","))
        at += 4 + length
    return lists


def no_match(ours: SshSettings, payload: bytes) -> str:
    """Return what is logged where client and server have nothing in common; empty where they do.

    The sentence is that of %SSH-3-NO_MATCH of a C2960C 15.2, there for key exchange, cipher and mac; for a host key the
    word is the stand-in's own.
    """
    lists = name_lists(payload)
    if not lists:
        return ""
    kex, host_keys, _, ciphers, _, macs = lists[:6]
    cipher = next((name for name in ours.encryption if name in ciphers), "")
    authenticates = "gcm" in cipher or "poly1305" in cipher
    for kind, client, server in (
        ("kex algorithm", ours.kex, kex),
        ("hostkey algorithm", ours.host_keys, host_keys),
        ("cipher", ours.encryption, ciphers),
        ("mac", () if authenticates else ours.mac, macs),
    ):
        if client and not set(client) & set(server):
            found = f"client {','.join(client)} server {','.join(server)}"
            return f"%SSH-3-NO_MATCH: No matching {kind} found: {found}"
    return ""
