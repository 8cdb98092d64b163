"""Which ciphers and MACs both ends of an SSH path have: ours by `ssh -Q`, theirs out of their key exchange. Pure.

Facts
-----

- `ssh -vv` prints what the peer proposes behind `debug2: peer server KEXINIT proposal`, a line per list:
  `debug2: ciphers ctos: a,b,c`, `debug2: MACs ctos: ...`, `debug2: compression ctos: ...` (kex.c, `kex_prop2buf`,
  `kex_choose_conf`). It is printed before algorithms are chosen, so also where none is in common.
- In CTR and CBC a MAC goes with the cipher; `*-gcm@openssh.com` and `chacha20-poly1305@openssh.com` bring their own
  (RFC 5647; PROTOCOL.chacha20poly1305), so that a MAC chosen with them is never used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flashferry.core.errors import ConfigInvalid

_PEER = re.compile(r"debug2: peer server KEXINIT proposal\s*$")
_LIST = re.compile(r"debug2: (?P<what>ciphers|MACs|compression) ctos: (?P<names>\S*)\s*$")
_NO_MATCH = re.compile(r"no matching (?P<what>[\w ]+?) found\. Their offer: (?P<offer>\S+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._+-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a server proposes; each list in its order."""

    ciphers: tuple[str, ...]
    macs: tuple[str, ...]
    compression: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What both ends have, and what one of them alone has.

    Attributes:
        ciphers: Of both, in our order.
        macs: The same of MACs.
        compresses: Whether both compress.
        not_theirs: Ciphers and MACs of ours that the peer does not propose.
        not_ours: The other way round.
    """

    ciphers: tuple[str, ...]
    macs: tuple[str, ...]
    compresses: bool
    not_theirs: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()

    def refusals(self) -> tuple[str, ...]:
        """Say what is left out, in sentences."""
        notes = []
        if self.not_theirs:
            notes.append(f"left out, as the source does not propose them: {', '.join(self.not_theirs)}")
        if self.not_ours:
            notes.append(f"left out, as our ssh does not have them: {', '.join(self.not_ours)}")
        return tuple(notes)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that `ssh -Q` printed, a line each; what is no name of an algorithm is passed over."""
    return tuple(name for line in text.splitlines() if _NAME.fullmatch(name := line.strip()))


def proposal_in(text: str) -> Proposal | None:
    """Return what a server proposed, as `ssh -vv` printed it; None: it never came so far."""
    lists: dict[str, tuple[str, ...]] = {}
    is_theirs = False
    for line in text.splitlines():
        if "KEXINIT proposal" in line:
            is_theirs = _PEER.search(line) is not None
        elif is_theirs and (found := _LIST.search(line)) is not None:
            lists.setdefault(found["what"], _split(found["names"]))
    if "ciphers" not in lists:
        return None
    return Proposal(
        ciphers=lists["ciphers"], macs=lists.get("MACs", ()), compression=lists.get("compression", ("none",))
    )


def _split(names: str) -> tuple[str, ...]:
    return tuple(name for name in names.split(",") if _NAME.fullmatch(name))


def common(ours: Sequence[str], our_macs: Sequence[str], theirs: Proposal, *, at: str) -> Offers:
    """Return what both ends have.

    Args:
        ours: Our ciphers.
        our_macs: Our MACs.
        theirs: What the source proposes.
        at: The source, for complaints.

    Raises:
        ConfigInvalid: There is no cipher that both have.
    """
    ciphers = tuple(name for name in ours if name in theirs.ciphers)
    if not ciphers:
        raise ConfigInvalid(
            f"{at}: expected a cipher that both ends have, found none: the source proposes "
            f"{', '.join(theirs.ciphers) or 'nothing'}, ours are {', '.join(ours) or 'none'}",
            hint="Allow one of ours there (Ciphers in its sshd_config), or probe by HTTP alone (--from)",
        )
    macs = tuple(name for name in our_macs if name in theirs.macs)
    return Offers(
        ciphers=ciphers,
        macs=macs,
        compresses=any(name != "none" for name in theirs.compression),
        not_theirs=tuple(name for name in (*ours, *our_macs) if name not in (*theirs.ciphers, *theirs.macs)),
        not_ours=tuple(name for name in (*theirs.ciphers, *theirs.macs) if name not in (*ours, *our_macs)),
    )


def authenticates_itself(cipher: str) -> bool:
    """Return whether a cipher needs no MAC beside it."""
    return "gcm" in cipher or "poly1305" in cipher


def refusal_in(text: str, *, at: str, option: str = "--ssh") -> ConfigInvalid:
    """Return why ssh could not log in, out of what it printed on standard error.

    Args:
        text: That.
        at: Where it was to log in.
        option: The option that named the place.
    """
    if (found := _NO_MATCH.search(text)) is not None:
        message = f"no {found['what']} in common: the source offers {found['offer']}"
        return ConfigInvalid(f"{at}: {message}", hint="Allow one of ours there, or update the older end")
    for sign, message, hint in _REFUSALS:
        if sign in text:
            return ConfigInvalid(f"{at}: {message}", hint=hint)
    last = next((line for line in reversed(text.splitlines()) if line.strip() and "debug" not in line), "no word")
    return ConfigInvalid(f"{at}: expected a login by ssh, found: {last.strip()}", hint=f"Check {option} by hand first")


_REFUSALS = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "expected the host key that is known, found another one",
        "Find out who changed it before anything is copied from there, then put the new one into known_hosts",
    ),
    (
        "Host key verification failed",
        "its host key is not known here, and no question is asked",
        "Compare its fingerprint with the one its owner states, and put it into known_hosts (--known-hosts FILE)",
    ),
    (
        "Permission denied",
        "the login was refused; a key without a passphrase, or one that an agent holds, is wanted",
        "Give the key by --identity, and have its public half in the source's authorized_keys",
    ),
    ("Could not resolve hostname", "there is no host of that name", "Check the name in --ssh USER@HOST"),
    ("Connection refused", "nothing listens there", "Check the port in --ssh USER@HOST:PORT, and that sshd runs"),
    ("timed out", "it did not answer in time", "Check the address, and what filters between here and there"),
    ("No route to host", "there is no way to it", "Check the address, and the routes of this host"),
    ("Network is unreachable", "there is no way to it", "Check the address, and the routes of this host"),
)
