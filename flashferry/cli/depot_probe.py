"""`flashferry depot probe`: measure the path from a source to this depot, and find the fastest copy method."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flashferry import api
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.options.shared import DEPOT_PASSWORD_VARIABLE, JsonOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.output import echo, finish, say
from flashferry.cli.view.layout import console, show
from flashferry.core import units
from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.depot.probing import findings
from flashferry.depot.probing.findings import ProbeAsked
from flashferry.depot.probing.methods import SshAccess
from flashferry.depot.probing.web import WebSource
from flashferry.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.text import Text

    from flashferry.depot.probing.figures import Row, Spread
    from flashferry.depot.probing.findings import Group, PathFound
    from flashferry.store.probe_choices import BulkPath

SOURCE, MEASURING = "Source", "Measuring"
_PLACE = re.compile(
    r"(?:(?P<user>[^@:\s]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^@:\s\[\]-][^@:\s\[\]]*)(?::(?P<port>\d+))?"
)
_MOST_PORT = 65_535
_WIDE_ONLY = frozenset({"least-most", "here, least-most", "there, least-most", "busiest"})
_TITLES = {
    "ways": "Ways of copying",
    "macs": "MACs, by a cipher that needs one",
    "compression": "Compression by ssh",
    "pipes": "Pipes of dd, through ssh and nc",
}


def probe(
    ssh: Annotated[
        str | None,
        typer.Option("--ssh", metavar="[USER@]HOST[:PORT]", help="The source by SSH.", rich_help_panel=SOURCE),
    ] = None,
    from_url: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", help="A file that the source offers.", rich_help_panel=SOURCE),
    ] = None,
    user: Annotated[
        str,
        typer.Option("--user", metavar="NAME", help="Who fetches by --from.", rich_help_panel=SOURCE),
    ] = "",
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help=f"File with the password for it; else the variable {DEPOT_PASSWORD_VARIABLE}.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option("--ca", metavar="FILE", help="Issuers of its certificate.", rich_help_panel=SOURCE),
    ] = None,
    identity: Annotated[
        Path | None,
        typer.Option("--identity", metavar="FILE", help="Private key for --ssh.", rich_help_panel=SOURCE),
    ] = None,
    known_hosts: Annotated[
        Path | None,
        typer.Option(
            "--known-hosts",
            metavar="FILE",
            help="Host keys that are known for --ssh (default: ssh's own); an unknown one is refused.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    raw_port: Annotated[
        int | None,
        typer.Option(
            "--raw-port",
            metavar="PORT",
            min=1,
            max=_MOST_PORT,
            help="A free port of the source that is open to here: a bare stream of zeros shows what the link carries.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    sample: Annotated[
        str,
        typer.Option(
            "--sample",
            metavar="PATH",
            help="An image at the source to copy from (default: random).",
            rich_help_panel=SOURCE,
        ),
    ] = "",
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help="Only this way: http, scp, sftp, rsync; repeatable.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    pipes: Annotated[
        bool,
        typer.Option(
            "--pipes",
            help="Measure dd through ssh and nc, bare and with gzip, pigz, lzop, zstd, too.",
            rich_help_panel=MEASURING,
        ),
    ] = False,
    block_size: Annotated[
        list[int] | None,
        typer.Option(
            "--block-size",
            metavar="BYTES",
            min=512,
            max=64 << 20,
            help="Of pipes (default: 65536); repeatable.",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=3, max=100, help="Rounds that count.", rich_help_panel=MEASURING)
    ] = 3,
    size_mb: Annotated[
        int | None,
        typer.Option(
            "--size-mb",
            min=1,
            max=16_384,
            help="MB of each copy (default: three seconds' worth).",
            rich_help_panel=MEASURING,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seeds the rounds' orders.", rich_help_panel=MEASURING)] = 1,
    folder: Annotated[
        Path,
        typer.Option(
            "--folder",
            metavar="DIR",
            help="Where copies land, on the disk that images are to be on; they are removed.",
            rich_help_panel=MEASURING,
        ),
    ] = Path(),
    show: Annotated[bool, typer.Option("--show", help="Show what earlier probes found; nothing is measured.")] = False,
    write: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="FILE",
            help="Print the best ciphers as a block of ssh_config, then write it to a file of its own; with --show: of "
            "what is known of --ssh.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    state_dir: StateOption = None,
    json: JsonOption = False,
) -> None:
    """Measure the path from a source to this host: its limits, every copy method, what limits each, and the best."""
    access = None if ssh is None else access_of(ssh, identity, known_hosts)
    if show:
        _show(access, write, state_dir, json=json)
    asked = ProbeAsked(
        folder=folder,
        access=access,
        web=None if from_url is None else _web(from_url, user, password_file, ca),
        ways=tuple(method or ()),
        pipes=pipes,
        blocks=tuple(block_size or (65_536,)),
        raw_port=raw_port,
        sample=sample,
        rounds=rounds,
        size_bytes=None if size_mb is None else size_mb * 1_000_000,
        seed=seed,
    )
    if write is not None and access is None:
        raise ConfigInvalid("--write: expected --ssh with it, found none", hint="Give --ssh USER@HOST")
    with stop_on_signals(announce=_print_stopping) as stop:
        found = api.probe_depot_path(asked, state=state_dir, notify=say, interrupted=stop.is_set)
    code = ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK if found.best else ExitCode.DEVICES_FAILED
    kept = found.kept()
    written = _written(kept, access, write) if code is ExitCode.OK else ""
    result = {"found": to_json(found), "kept": to_json(kept) if kept else None, "written": written or None}
    finish("depot-probe", code, result, as_json=json, human=lambda: _print_found(found))


def access_of(place: str, identity: Path | None, known_hosts: Path | None) -> SshAccess:
    """Parse `[USER@]HOST[:PORT]` as SSH access. An IPv6 address with a port needs brackets.

    Raises:
        ConfigInvalid: The text is invalid, or a named file does not exist.
    """
    found = _PLACE.fullmatch(place)
    if found is None or not 0 < int(found["port"] or 1) <= _MOST_PORT or (found["user"] or "").startswith("-"):
        raise ConfigInvalid(
            f"--ssh: expected [USER@]HOST[:PORT], found {place!r}", hint="Write an IPv6 address in brackets"
        )
    _check_files(("--identity", identity), ("--known-hosts", known_hosts))
    return SshAccess(
        host=found["host"].strip("[]"),
        user=found["user"] or "",
        port=int(found["port"]) if found["port"] else None,
        identity=str(identity.absolute()) if identity else "",
        known_hosts=str(known_hosts.absolute()) if known_hosts else "",
    )


def _check_files(*named: tuple[str, Path | None]) -> None:
    for option, path in named:
        if path is not None and not path.is_file():
            raise ConfigInvalid(f"{option} {path}: expected a file, found none", hint="Give the path of one")


def _web(url: str, user: str, password_file: Path | None, ca: Path | None) -> WebSource:
    # Removed from the environment: child processes inherit it.
    password = os.environ.pop(DEPOT_PASSWORD_VARIABLE, "")
    if password_file is not None:
        try:
            password = password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigInvalid(
                f"--password-file {password_file}: cannot be read: {reason_of(error)}",
                hint=f"Or set {DEPOT_PASSWORD_VARIABLE}",
            ) from None
    return WebSource(url=url, user=user, password=password, ca=ca)


def _show(access: SshAccess | None, write: Path | None, state_dir: Path | None, *, json: bool) -> None:
    """Print the known paths, or the path to one source, and exit."""
    paths = [one for one in api.known_depot_paths(state_dir) if access is None or one.source == access.shown]
    if access is not None and not paths:
        raise ConfigInvalid(f"{access.shown}: no probe of it is known here", hint="Measure it first, without --show")
    if write is not None and access is None:
        raise ConfigInvalid("--write: expected --ssh with it, found none", hint="Name one of the paths shown")
    written = _written(paths[0] if paths else None, access, write)

    def human() -> None:
        if not paths:
            _say("No path was probed yet; 'flashferry depot probe --ssh USER@HOST' does it.")
        for one in paths:
            _print_kept(one)

    result: dict[str, object] = {"paths": [to_json(one) for one in paths], "written": written or None}
    finish("depot-probe", ExitCode.OK, result, as_json=json, human=human)


def _written(kept: BulkPath | None, access: SshAccess | None, path: Path | None) -> str:
    """Write the measured path to a configuration file if asked to; return the printed block, or an empty string."""
    if path is None or kept is None or access is None:
        return ""

    text = findings.block(kept, access)
    for line in (*text.rstrip().splitlines(), findings.replaces(path)):
        echo(line, err=True)
    findings.write(path, text)
    return text


def _say(text: str = "") -> None:
    """Print a line, folded between words."""
    console().print(text)


def _print_kept(one: BulkPath) -> None:
    cost = f", {one.cost:.2f} CPU s/GB" if one.cost is not None else ""
    link = f" of {units.exact_rate(one.link_bytes_per_s)}" if one.link_bytes_per_s else ""
    _say(f"{one.source}, {one.at}")
    _say(f"  best: {_short(one.method)}, {units.exact_rate(one.rate_bytes_per_s)}{link}{cost}, bound by {one.bound_by}")
    if one.ciphers:
        _say(f"  ciphers, the best first: {', '.join(map(_short, one.ciphers))}")
    if one.macs:
        _say(f"  MACs, where a cipher needs one: {', '.join(map(_short, one.macs))}")
    _say(f"  compression: {'only on a slow link, see the probe' if one.compression_helps else 'off'}")


def _print_stopping(first: bool) -> None:
    if first:
        say("interrupted: the copy under way is ended; nothing is kept")


def _print_found(found: PathFound) -> None:
    if not found.is_whole and not found.groups:
        return
    _say(f"{found.source} to here, {units.megabytes(found.size_bytes)} each, {found.rounds} rounds that count")
    for text in _ceilings(found):
        _say(f"  {text}")
    _say(found.shrinking.sentence())
    for group in found.groups:
        _say()
        _print_group(group)
    _say()
    for note in found.notes:
        _say(f"note: {_short(note)}")
    if found.is_whole:
        _print_best(found)
    else:
        _say("Interrupted: this is what was measured until then.")


def _print_best(found: PathFound) -> None:
    if (best := found.best) is not None:
        _say(f"Best: {_row_text(best)}.")
    else:
        _say("Nothing was copied but by pipes, if at all; the notes say why.")
    if (pipe := found.best_pipe) is not None:
        _say(f"Best pipe: {_row_text(pipe)}; pipes are not kept, for they cannot be resumed and prove nothing.")


def _row_text(row: Row) -> str:
    cost = f", {row.cost:.2f} CPU s/GB" if row.cost is not None and row.far_cpu is not None else ""
    rate = units.exact_rate(row.rate.median) if row.rate is not None else "-"
    return f"{_short(row.key)}, {rate}{cost}, bound by {row.bound_by}"


def _ceilings(found: PathFound) -> list[str]:
    of = found.ceilings
    texts = [
        f"{name}: {units.exact_rate(value)}"
        for name, value in (
            ("link, bare TCP", of.link_bytes_per_s),
            ("disk here, write and flush", of.write_here_bytes_per_s),
            ("disk here, read", of.read_here_bytes_per_s),
            ("disk at the source, write and flush", of.write_far_bytes_per_s),
            ("disk at the source, read", of.read_far_bytes_per_s),
        )
        if value is not None
    ]
    texts += [f"round trip: {units.exact_milliseconds(of.rtt_s)}"] if of.rtt_s is not None else []
    return texts + list(of.notes)


def _print_group(group: Group) -> None:
    _say(_TITLES.get(group.name, group.name))
    show((_cells(row) for row in group.rows), _WIDE_ONLY, folds="method")
    login = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in group.login_s.items())
    _say(group.ranking + (f" Login, subtracted: {login}." if login else ""))


def _cells(row: Row) -> dict[str, str | Text]:
    return {
        "method": _short(row.key),
        "MB/s": f"{row.rate.median / 1e6:.1f}" if row.rate else "-",
        "least-most": f"{row.rate.least / 1e6:.1f}-{row.rate.most / 1e6:.1f}" if row.rate else "",
        "of link": f"{row.link_share:.0%}" if row.link_share is not None else "-",
        "CPU s/GB here": f"{row.here_cpu.median:.2f}" if row.here_cpu else "not seen",
        "here, least-most": _spread(row.here_cpu),
        "there": f"{row.far_cpu.median:.2f}" if row.far_cpu else "not seen",
        "there, least-most": _spread(row.far_cpu),
        "busiest": f"{row.here_busy:.0%}" if row.here_busy is not None else "-",
        "bound by": row.bound_by or "failed",
    }


def _spread(found: Spread | None) -> str:
    return "" if found is None else f"{found.least:.2f}-{found.most:.2f}"


def _short(text: str) -> str:
    return text.replace("@openssh.com", "").replace("chacha20-poly1305", "chacha20")
