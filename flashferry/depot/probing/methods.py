"""Define methods of copying: programs, ciphers, and what both ends support."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from flashferry.core.errors import ConfigInvalid

Direction = Literal["pull", "push"]
BLOCK_BYTES = 64 << 10
"""Default block size of pipes: the best of the published study of block sizes."""

COPIERS = ("scp", "sftp", "rsync")
"""Programs that copy over SSH."""

SQUEEZERS: dict[str, tuple[str, str]] = {
    "gzip": ("gzip -c", "gzip -dc"),
    "pigz": ("pigz -c", "pigz -dc"),
    "lzop": ("lzop -c", "lzop -dc"),
    "zstd": ("zstd -1 -T0 -q -c", "zstd -dq -c"),
}
"""Compression programs: the commands to compress and to decompress."""


class Method(Struct, frozen=True, kw_only=True):
    """A method of copying.

    Attributes:
        name: `scp`, `scp -O`, `sftp`, `rsync`, `dd` (through ssh), `nc` or `http`.
        cipher: SSH cipher; empty: the default.
        mac: SSH MAC; empty: the default, or included in the cipher.
        compress: Whether SSH compresses.
        squeeze: The program that compresses before the link and decompresses after it; empty: none.
        block_bytes: Block size of `dd`.
        control: Congestion control of `http`; empty: the source's default.
        data: What is copied: `random`, `holes`, or `own` for a file of the operator.
    """

    name: str
    cipher: str = ""
    mac: str = ""
    compress: bool = False
    squeeze: str = ""
    block_bytes: int = BLOCK_BYTES
    control: str = ""
    data: str = "random"

    @property
    def is_pipe(self) -> bool:
        """Whether it is a pipe with `dd`."""
        return self.name in {"dd", "nc"}

    @property
    def by_ssh(self) -> bool:
        """Whether it uses SSH."""
        return self.name not in {"nc", "http"}

    @property
    def key(self) -> str:
        """Return its name in results: its words in a fixed order."""
        words = [self.name, self.cipher, self.mac, "compressed" if self.compress else "", self.squeeze, self.control]
        if self.is_pipe:
            words.append(f"bs={self.block_bytes}")
        if self.data != "random":
            words.append(f"data={self.data}")
        return " ".join(word for word in words if word)

    @property
    def of_nothing(self) -> Method:
        """Return the method whose copy of nothing measures this one's login, whatever its cipher."""
        return Method(name=self.name, data="nothing")


class SshAccess(Struct, frozen=True, kw_only=True):
    """How SSH reaches the far end; contains no secret, because it is visible in the process list.

    Attributes:
        user: Empty: SSH's default; likewise `port` None and `identity`.
        identity: File of a private key.
        known_hosts: File of the only known host keys; empty: SSH's own.
        plain: Whether to ignore every ssh_config.
        prefix: Words before each local command, such as those that enter a namespace.
        connect_s: Time limit for the far end's answer.
    """

    host: str
    user: str = ""
    port: int | None = None
    identity: str = ""
    known_hosts: str = ""
    plain: bool = False
    prefix: tuple[str, ...] = ()
    connect_s: int = 15

    @property
    def place(self) -> str:
        """Return `user@host`."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def scp_place(self) -> str:
        """Return `user@host` for programs that append a colon: an IPv6 address is in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}" if self.user else host

    @property
    def shown(self) -> str:
        """Return the place for people, with a given port."""
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")

    def options(self, method: Method | None = None) -> list[str]:
        """Return the options of ssh, scp and sftp: no prompts, and only known host keys."""
        settings = [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ControlMaster=no",
            "ControlPath=none",
            "EscapeChar=none",
            f"ConnectTimeout={self.connect_s}",
        ]
        if self.known_hosts:
            settings += [f"UserKnownHostsFile={self.known_hosts}", "GlobalKnownHostsFile=/dev/null"]
        if self.port is not None:
            settings.append(f"Port={self.port}")
        if self.identity:
            settings += [f"IdentityFile={self.identity}", "IdentitiesOnly=yes"]
        settings += _asked(method) if method is not None else []
        return [*(("-F", "none") if self.plain else ()), *(word for each in settings for word in ("-o", each))]

    def ssh(self, method: Method | None = None) -> list[str]:
        """Return the start of an ssh command, up to the place."""
        return [*self.prefix, "ssh", "-T", *self.options(method), "--", self.place]


def _asked(method: Method) -> list[str]:
    asked = [f"Compression={'yes' if method.compress else 'no'}"]
    asked += [f"Ciphers={method.cipher}"] if method.cipher else []
    return asked + ([f"MACs={method.mac}"] if method.mac else [])


class Commands(Struct, frozen=True, kw_only=True):
    """The commands of a copy.

    Attributes:
        pipeline: Local commands, each reading what the one before it writes.
        stdin: Input of the first one.
        first_far: A listening command that the far end must start before.
    """

    pipeline: tuple[tuple[str, ...], ...]
    stdin: str = ""
    first_far: str = ""


class Ends(Struct, frozen=True, kw_only=True):
    """The paths of a copy at both ends, its direction, and a port at the far end for bare TCP (None: no such copy)."""

    here: str
    far: str
    direction: Direction
    port: int | None = None


def commands_of(method: Method, access: SshAccess, ends: Ends) -> Commands:
    """Return the commands of a copy.

    Raises:
        ValueError: No commands do the method.
    """
    if method.name in {"scp", "scp -O"}:
        return _scp(method, access, ends)
    if method.name == "sftp":
        return _sftp(method, access, ends)
    if method.name == "rsync":
        return _rsync(method, access, ends)
    if method.name == "dd":
        return _dd_ssh(method, access, ends)
    if method.name == "nc":
        return _nc(method, access, ends)
    raise ValueError(f"no commands for {method.name!r}")


def _scp(method: Method, access: SshAccess, ends: Ends) -> Commands:
    old = ("-O",) if method.name == "scp -O" else ()
    far = f"{access.scp_place}:{ends.far}"
    between = (far, ends.here) if ends.direction == "pull" else (ends.here, far)
    return Commands(pipeline=((*access.prefix, "scp", "-q", *old, *access.options(method), "--", *between),))


def _sftp(method: Method, access: SshAccess, ends: Ends) -> Commands:
    verb, words = ("get", (ends.far, ends.here)) if ends.direction == "pull" else ("put", (ends.here, ends.far))
    # The batch comes by standard input, so that no file has to be made for it.
    batch = f"{verb} {' '.join(_quoted(word) for word in words)}\n"
    place = access.place if ":" not in access.host else access.scp_place
    return Commands(
        pipeline=((*access.prefix, "sftp", "-q", *access.options(method), "-b", "-", "--", place),), stdin=batch
    )


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _rsync(method: Method, access: SshAccess, ends: Ends) -> Commands:
    shell = " ".join(shlex.quote(word) for word in ("ssh", *access.options(method)))
    far = f"{access.scp_place}:{ends.far}"
    between = (far, ends.here) if ends.direction == "pull" else (ends.here, far)
    # Whole files in place: a difference to an older image is as large as the image.
    return Commands(pipeline=((*access.prefix, "rsync", "-W", "--inplace", "-I", "-e", shell, "--", *between),))


def _reading(path: str, method: Method) -> str:
    squeeze = f" | {SQUEEZERS[method.squeeze][0]}" if method.squeeze else ""
    return f"dd if={shlex.quote(path)} bs={method.block_bytes} 2>/dev/null{squeeze}"


def _writing(path: str, method: Method) -> str:
    take_apart = f"{SQUEEZERS[method.squeeze][1]} | " if method.squeeze else ""
    whole = " iflag=fullblock" if method.squeeze else ""
    return f"{take_apart}dd of={shlex.quote(path)} bs={method.block_bytes}{whole} 2>/dev/null"


def _here(command: str) -> tuple[tuple[str, ...], ...]:
    """Return a shell pipeline as words, each stage by itself, so that each can be watched."""
    stages = [stage.replace(" 2>/dev/null", "") for stage in command.split(" | ")]
    return tuple(tuple(shlex.split(stage)) for stage in stages)


def _dd_ssh(method: Method, access: SshAccess, ends: Ends) -> Commands:
    if ends.direction == "pull":
        first = (*access.ssh(method), _reading(ends.far, method))
        return Commands(pipeline=(first, *_here(_writing(ends.here, method))))
    last = (*access.ssh(method), _writing(ends.far, method))
    return Commands(pipeline=(*_here(_reading(ends.here, method)), last))


def _nc(method: Method, access: SshAccess, ends: Ends) -> Commands:
    assert ends.port is not None
    if ends.direction == "pull":
        # It must not read: at the end of an empty input it would close its side, and the other one would stop sending.
        dials = (*access.prefix, "nc", "-d", access.host, str(ends.port))
        far = f"{_reading(ends.far, method)} | nc -N -l {ends.port}"
        return Commands(pipeline=(dials, *_here(_writing(ends.here, method))), first_far=far)
    dials = (*access.prefix, "nc", "-N", access.host, str(ends.port))
    far = f"nc -l {ends.port} | {_writing(ends.far, method)}"
    return Commands(pipeline=(*_here(_reading(ends.here, method)), dials), first_far=far)


_PEER = re.compile(r"debug2: peer server KEXINIT proposal\s*$")
_LIST = re.compile(r"debug2: (?P<what>ciphers|MACs|compression) ctos: (?P<names>\S*)\s*$")
_NO_MATCH = re.compile(r"no matching (?P<what>[\w ]+?) found\. Their offer: (?P<offer>\S+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._+-]{0,63}")


class Proposal(Struct, frozen=True, kw_only=True):
    """A server's proposed algorithms, in its order."""

    ciphers: tuple[str, ...]
    macs: tuple[str, ...]
    compression: tuple[str, ...]


class Offers(Struct, frozen=True, kw_only=True):
    """The algorithms of both ends, and of one only.

    Attributes:
        ciphers: Of both, in our order; likewise `macs`.
        compresses: Whether both compress.
        not_theirs: Ours that the peer does not propose.
        not_ours: The reverse.
    """

    ciphers: tuple[str, ...]
    macs: tuple[str, ...]
    compresses: bool
    not_theirs: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()

    def refusals(self) -> tuple[str, ...]:
        """Return what is left out, in sentences."""
        notes = []
        if self.not_theirs:
            notes.append(f"left out, as the source does not propose them: {', '.join(self.not_theirs)}")
        if self.not_ours:
            notes.append(f"left out, as our ssh does not have them: {', '.join(self.not_ours)}")
        return tuple(notes)


def names_in(text: str) -> tuple[str, ...]:
    """Return the algorithm names that `ssh -Q` printed, one per line."""
    return tuple(name for line in text.splitlines() if _NAME.fullmatch(name := line.strip()))


def proposal_in(text: str) -> Proposal | None:
    """Return the server's proposal in the output of `ssh -vv`; None: there is none."""
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
    """Return the algorithms of both ends.

    Raises:
        ConfigInvalid: They have no cipher in common.
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
    """Return whether a cipher needs no MAC."""
    return "gcm" in cipher or "poly1305" in cipher


def refusal_in(text: str, *, at: str, option: str = "--ssh") -> ConfigInvalid:
    """Return why ssh could not log in, from its standard error output.

    Args:
        text: The output.
        at: The place.
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
