"""Platforms: the figures and texts of a device family, read from data files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from typing import TYPE_CHECKING

from lab.datafile import Table, read_table
from lab.errors import LabError
from lab.standin.configuration import Configuration, parse_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE = "lab.standin.platforms"


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
    """How `copy ftp:` behaves and looks."""

    loading_line: bool
    bytes_per_mark: int
    reply_timeout_s: float
    keeps_partial_file: bool
    passive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StockFile:
    """A file that the device holds from the start; its contents are zeros."""

    name: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashFigures:
    """The device's flash: names without the colon, sizes in bytes."""

    name: str
    aliases: tuple[str, ...]
    size_bytes: int
    overhead_bytes: int
    block_bytes: int
    write_bytes_per_s: float
    hash_bytes_per_s: float
    first_inode: int
    files: tuple[StockFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A device family and release."""

    name: str
    family: str
    vty_lines: int
    line_limit_chars: int
    config_prompt_chars: int
    tcp: TcpFigures
    copy: CopyFigures
    flash: FlashFigures
    file_system_rows: tuple[str, ...]
    texts: Mapping[str, str]
    configuration_text: str

    def configuration(self, **values: str) -> Configuration:
        """Return the configuration of a device fresh from stock; ``{serial}`` and ``{address}`` are filled in."""
        return parse_configuration(self.configuration_text.format(**values))


def load_platform(name: str) -> Platform:
    """Read a platform's data files.

    Raises:
        LabError: There is no such platform, or a value is not allowed; file and key are named.
    """
    table = read_table(_PACKAGE, name)
    table.only(
        "family", "vty_lines", "line_limit_chars", "config_prompt_chars",
        "tcp", "copy", "flash", "file_systems", "texts",
    )  # fmt: skip
    path = resources.files(_PACKAGE).joinpath(f"{name}.cfg")
    if not path.is_file():
        raise LabError(f"{name}.cfg: the configuration that belongs to {name}.toml is missing.")
    texts = table.table("texts")
    texts.only("version", "inventory", "boot")
    return Platform(
        name=name,
        family=table.text("family"),
        vty_lines=table.integer("vty_lines", low=1, high=100),
        line_limit_chars=table.integer("line_limit_chars", low=80, high=10000),
        config_prompt_chars=table.integer("config_prompt_chars", low=1, high=63),
        tcp=_tcp(table.table("tcp")),
        copy=_copy(table.table("copy")),
        flash=_flash(table.table("flash")),
        file_system_rows=tuple(each.text("row") for each in table.tables("file_systems")),
        texts={key: texts.text(key) for key in ("version", "inventory", "boot")},
        configuration_text=path.read_text(encoding="utf-8"),
    )


def _tcp(table: Table) -> TcpFigures:
    table.only(*TcpFigures.__dataclass_fields__)
    return TcpFigures(
        default_window_bytes=table.integer("default_window_bytes", low=1460, high=1073741823),
        default_window_scaling=table.flag("default_window_scaling"),
        default_sack=table.flag("default_sack"),
        default_timestamps=table.flag("default_timestamps"),
        synwait_s=table.number("synwait_s", low=1, high=300),
    )


def _copy(table: Table) -> CopyFigures:
    table.only(*CopyFigures.__dataclass_fields__)
    return CopyFigures(
        loading_line=table.flag("loading_line"),
        bytes_per_mark=table.integer("bytes_per_mark", low=1),
        reply_timeout_s=table.number("reply_timeout_s", low=1, high=600),
        keeps_partial_file=table.flag("keeps_partial_file"),
        passive=table.flag("passive"),
    )


def _flash(table: Table) -> FlashFigures:
    table.only(*FlashFigures.__dataclass_fields__)
    return FlashFigures(
        name=table.text("name"),
        aliases=table.strings("aliases"),
        size_bytes=table.integer("size_bytes", low=1),
        overhead_bytes=table.integer("overhead_bytes"),
        block_bytes=table.integer("block_bytes", low=1),
        write_bytes_per_s=table.number("write_bytes_per_s", low=1),
        hash_bytes_per_s=table.number("hash_bytes_per_s", low=1),
        first_inode=table.integer("first_inode"),
        files=tuple(_stock_file(each) for each in table.tables("files")),
    )


def _stock_file(table: Table) -> StockFile:
    table.only("name", "size_bytes", "modified")
    return StockFile(
        name=table.text("name"),
        size_bytes=table.integer("size_bytes"),
        modified=datetime.fromisoformat(table.text("modified")),
    )
