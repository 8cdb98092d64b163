"""The ways of copying that are measured, each as the commands that a shell user would type. Pure.

A copy goes from the far end to this one (`pull`, as a depot does it), or the other way (`push`, as the published
studies did). A pipe's stages run at the end that has the data: `dd | gzip | ssh` there, `gzip -d | dd` at the other.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Literal

Direction = Literal["pull", "push"]
BLOCK_BYTES = 64 << 10
"""Of pipes, unless another is asked for: the best of the published study of block sizes."""
COPIERS = ("scp", "sftp", "rsync")
"""Programs that copy over SSH by themselves."""
SQUEEZERS: dict[str, tuple[str, str]] = {
    "gzip": ("gzip -c", "gzip -dc"),
    "pigz": ("pigz -c", "pigz -dc"),
    "lzop": ("lzop -c", "lzop -dc"),
    "zstd": ("zstd -1 -T0 -q -c", "zstd -dq -c"),
}
"""Compressing programs: how each compresses, and how it takes it apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A way of copying.

    Attributes:
        name: `scp`, `scp -O`, `sftp`, `rsync`, `dd` (through ssh), `nc` or `http`.
        cipher: For SSH; empty: what both ends settle on by default.
        mac: The same; empty for the default, and where the cipher brings its own.
        compress: Whether SSH compresses.
        squeeze: The program that compresses before and behind the link; empty: none.
        block_bytes: What `dd` reads and writes at once.
        control: Congestion control of `http`; empty: what the source takes by itself.
        data: What is copied: `random`, `holes`, or `own` for a file of the operator's.
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
        """Whether it is made of `dd` and a pipe."""
        return self.name in {"dd", "nc"}

    @property
    def by_ssh(self) -> bool:
        """Whether it goes through SSH."""
        return self.name not in {"nc", "http"}

    @property
    def key(self) -> str:
        """Return its name in results, the same for the same method: words in one order."""
        words = [self.name, self.cipher, self.mac, "compressed" if self.compress else "", self.squeeze, self.control]
        if self.is_pipe:
            words.append(f"bs={self.block_bytes}")
        if self.data != "random":
            words.append(f"data={self.data}")
        return " ".join(word for word in words if word)

    @property
    def of_nothing(self) -> Method:
        """Return the method whose copy of nothing stands for the login of this one, whatever its cipher."""
        return Method(name=self.name, data="nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAccess:
    """How SSH reaches the far end; nothing in it is a secret, for all of it stands in the process list.

    Attributes:
        host: Name or address.
        user: Empty: as SSH has it.
        port: None: as SSH has it.
        identity: File of a private key; empty: as SSH has it.
        known_hosts: File of host keys that are known, and no other; empty: SSH's own.
        plain: Take no account of any ssh_config.
        prefix: Words before each command of ours, such as those that enter a namespace.
        connect_s: How long the far end has to answer.
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
        """Return the place as `user@host`."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def scp_place(self) -> str:
        """Return the place for programs that end it with a colon: an IPv6 address stands in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}" if self.user else host

    @property
    def shown(self) -> str:
        """Return the place for people, with its port where one was given."""
        host = f"[{self.host}]" if ":" in self.host and self.port else self.host
        return (f"{self.user}@" if self.user else "") + host + (f":{self.port}" if self.port else "")

    def options(self, method: Method | None = None) -> list[str]:
        """Return the options of ssh, scp and sftp: no question is asked, and host keys have to be known."""
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
        """Return the beginning of a command of ssh, up to the place."""
        return [*self.prefix, "ssh", "-T", *self.options(method), "--", self.place]


def _asked(method: Method) -> list[str]:
    asked = [f"Compression={'yes' if method.compress else 'no'}"]
    asked += [f"Ciphers={method.cipher}"] if method.cipher else []
    return asked + ([f"MACs={method.mac}"] if method.mac else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """What is started here for a copy.

    Attributes:
        pipeline: Commands that run here, each reading what the one before it writes.
        stdin: What the first one reads; empty for nothing.
        first_far: A command that the far end has to have running before: it listens.
    """

    pipeline: tuple[tuple[str, ...], ...]
    stdin: str = ""
    first_far: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where the file is at both ends of a copy.

    Attributes:
        here: Path here.
        far: Path there.
        direction: Whereto it goes.
        port: A port at the far end for bare TCP; None: there is none.
    """

    here: str
    far: str
    direction: Direction
    port: int | None = None


def commands_of(method: Method, access: SshAccess, ends: Ends) -> Commands:
    """Return the commands of a copy.

    Raises:
        ValueError: The method is none that commands do.
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
    """Return a shell's pipeline as words, each stage by itself, so that each can be watched."""
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
