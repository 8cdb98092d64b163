"""Platforms: the figures and texts of a device family, read from data files."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Annotated

from flashferry.lab.errors import LabError, Table, Within, read_table
from flashferry.lab.standin.configuration import Configuration, parse_configuration
from flashferry.lab.standin.flash import FlashFigures, StockFile
from flashferry.lab.standin.hardware import PortFigures
from flashferry.lab.standin.install import InstallFigures
from flashferry.lab.standin.receiver import OPTIMISTIC, ReceiverFigures
from flashferry.lab.standin.recording import Recording
from flashferry.lab.standin.server_url import Wording, platform_texts
from flashferry.lab.standin.ssh_client.settings import SshFigures, load_figures, speeds

_PACKAGE = "flashferry.lab.standin.platforms"


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpFigures:
    """How the device's TCP behaves without configuration; windows in bytes of real advertised window."""

    default_window_bytes: int
    default_window_scaling: bool
    default_sack: bool
    default_timestamps: bool
    synwait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyFigures:
    """How `copy ftp:` behaves and looks.

    Attributes:
        loading_line: A line ``Loading NAME`` stands before the marks.
        erase_question: The flash is of class B, and copying to it asks whether to erase it first.
        http_ok_line: A copy by HTTP ends with the line ``[OK - N/4096 bytes]`` that other protocols print.
        https_bytes_per_s: How fast it decrypts HTTPS, a model: assumed where the data file has no source; None for as
            fast as the host.
        http_marks_round_up: A started mark of a copy by HTTP is shown at its end, as that of other protocols is.
    """

    loading_line: bool
    bytes_per_mark: int
    reply_timeout_s: float
    keeps_partial_file: bool
    passive: bool
    extended_passive: bool = False
    erase_question: bool = False
    # `copy http://... null:` of 174 bytes printed neither an [OK line nor a mark (public lab log).
    http_ok_line: bool = False
    http_marks_round_up: bool = False
    https_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Platform:
    """A device family and release.

    Attributes:
        config_prompt_chars: What is left of the host name in configuration prompts.
        year: The last year of the copyright notices.
        is_controller_managed: SD-WAN: configured by `config-transaction` and `commit`.
        cabled: Interfaces that are up without an address of their own: the cable to the world is in one of a switch's.
        image: The file that runs when no `boot system` line names one.
        crypto_bytes_per_s: How fast it decrypts what `copy scp:` brings, by cipher; a model, in place of that of its
            release.
        flash: The file system that files go to; its name is empty where there is none.
        file_system_rows: `show file systems`; ``@NAME`` stands for a file system of the above.
        receivers: Models of how it takes what a copy by FTP brings, by the name of their profile; `receiver` is the
            chosen one, None for the optimistic profile.
        recording: What a device answered that is played instead of the platform's own `show` commands.
    """

    name: str
    family: str
    sources: tuple[str, ...]
    vty_lines: Annotated[int, Within(1, 100)]
    line_limit_chars: Annotated[int, Within(80, 10000)] = 254
    config_prompt_chars: Annotated[int, Within(1, 63)] = 20
    dir_size_chars: Annotated[int, Within(1, 20)] = 15
    directory_flags: str = "drwx"
    year: Annotated[int, Within(1990, 2100)]
    boot_s: Annotated[float, Within(0, 3600)]
    has_legacy_ssh: bool = False
    is_controller_managed: bool = False
    mac_prefix: str
    ports: tuple[PortFigures, ...]
    cabled: tuple[str, ...] = ()
    image: str
    tcp: TcpFigures
    receivers: Mapping[str, ReceiverFigures]
    copy: CopyFigures
    ssh_client: SshFigures
    crypto_bytes_per_s: Mapping[str, float]
    flash: FlashFigures
    other_flashes: tuple[FlashFigures, ...]
    install: InstallFigures | None
    file_system_rows: tuple[str, ...]
    texts: Mapping[str, str]
    outputs: Mapping[str, str]
    configuration_text: str
    http_texts: Mapping[str, Wording]
    ssh_texts: Mapping[str, Wording]
    receiver: ReceiverFigures | None = None
    recording: Recording | None = None
    recorded_configuration: Configuration | None = None

    def texts_of(self, scheme: str) -> Mapping[str, Wording]:
        """Return what the client of a protocol prints where it fails; empty where that is no data."""
        if scheme in {"scp", "sftp"}:
            return self.ssh_texts
        return self.http_texts if scheme in {"http", "https"} else {}

    @property
    def prefixes(self) -> frozenset[str]:
        """The names before a colon that the device knows."""
        rows = " ".join(self.file_system_rows)
        named = {word.rstrip(":").lower() for word in rows.split() if word.endswith(":")}
        flashes = {name for each in (self.flash, *self.other_flashes) for name in (each.name, *each.aliases)}
        return frozenset(named | flashes | {"null"}) - {""}

    def receiving(self, profile: str) -> Platform:
        """Return the platform with the model of a receiver profile. Raises LabError: it has no such profile."""
        if profile == OPTIMISTIC:
            return self
        if profile not in self.receivers:
            allowed = ", ".join((OPTIMISTIC, *self.receivers))
            raise LabError(f"{self.name}: receiver: expected one of {allowed}; found {profile!r}.")
        figures = self.receivers[profile]
        return replace(self, receiver=figures, tcp=replace(self.tcp, default_window_bytes=figures.buffer_bytes))

    def configuration(self, **values: str) -> Configuration:
        """Return the configuration of a device fresh from stock; ``{serial}``, ``{address}``, ``{image}`` filled in."""
        if self.recorded_configuration is not None:
            return self.recorded_configuration.at_address(values["address"])
        return parse_configuration(self.configuration_text.format(image=self.image, **values))


@functools.cache
def load_platform(name: str) -> Platform:
    """Read a platform's data files.

    Raises LabError: there is no such platform, or a value is not allowed; file and key are named.
    """
    table = _table(name)
    texts = table.table("texts")
    texts.only(*_TEXTS, *_MORE_TEXTS)
    return table.record(
        Platform,
        *_TABLES,
        name=name,
        ports=tuple(each.record(PortFigures) for each in table.tables("ports")),
        tcp=table.table("tcp").record(TcpFigures),
        receivers={
            name: table.table("receivers").table(name).record(ReceiverFigures)
            for name in table.table("receivers").values
        },
        copy=table.table("copy").record(CopyFigures),
        ssh_client=load_figures(table.text("ssh_client")),
        crypto_bytes_per_s=speeds(table.table("crypto_bytes_per_s")),
        flash=_flash(table.table("flash")) if "flash" in table.values else _NO_FLASH,
        other_flashes=tuple(_flash(each) for each in table.tables("other_flashes")),
        install=table.table("install").record(InstallFigures) if "install" in table.values else None,
        file_system_rows=tuple(table.text("file_systems").strip("\n").split("\n")),
        texts={key: texts.text(key) for key in (*_TEXTS, *_MORE_TEXTS) if key in _TEXTS or key in texts.values},
        outputs={key: table.table("outputs").text(key) for key in table.table("outputs").values},
        configuration_text=_configuration_text(table.text("configuration", name)),
        http_texts=platform_texts("http", table.table("http_texts")),
        ssh_texts=platform_texts("ssh", table.table("ssh_texts")),
    )


def _table(name: str) -> Table:
    """Read a data file; what it does not say comes from its ``base``, table by table."""
    own = read_table(_PACKAGE, name)
    if "base" not in own.values:
        return own
    values = dict(_table(own.text("base")).values)
    for key, value in own.values.items():
        old = values.get(key)
        values[key] = old | value if isinstance(old, dict) and isinstance(value, dict) else value
    return replace(own, values=values)


_TABLES = (
    "base", "ports", "tcp", "receivers", "copy", "ssh_client", "crypto_bytes_per_s", "flash", "other_flashes",
    "install", "file_systems", "texts", "outputs", "configuration", "http_texts", "ssh_texts",
)  # fmt: skip
"""Keys that are more than a field of a platform."""

_TEXTS = ("version", "inventory", "boot")
_MORE_TEXTS = ("bootvar", "cpu_policer", "issu")
"""What some platforms have beside them."""


def _configuration_text(name: str) -> str:
    path = resources.files(_PACKAGE).joinpath(f"{name}.cfg")
    if not path.is_file():
        raise LabError(f"{name}.cfg: the configuration that belongs to {name}.toml is missing.")
    return path.read_text(encoding="utf-8")


def _flash(table: Table) -> FlashFigures:
    return table.record(FlashFigures, "files", files=tuple(each.record(StockFile) for each in table.tables("files")))


_NO_FLASH = FlashFigures(
    name="", aliases=(), size_bytes=0, overhead_bytes=0, block_bytes=1, write_bytes_per_s=1e9, hash_bytes_per_s=1e9,
    first_inode=0, files=(),
)  # fmt: skip
