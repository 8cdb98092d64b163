"""`flashferry serve`: run the tuned file server alone, for copy commands pasted into a router."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flashferry import api
from flashferry.cli.command_line import OUTPUT
from flashferry.cli.images import hashed, print_left_out
from flashferry.cli.options.server import listening_options
from flashferry.cli.options.shared import AddressOption, MetricsOption, StateOption
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.nonblocking_output import nonblocking_streams
from flashferry.cli.terminal.output import JSON_VARIABLE, copy_line, say
from flashferry.cli.terminal.questions import password_of
from flashferry.cli.view.serve_sessions import watch_sessions
from flashferry.model.exit_codes import ExitCode
from flashferry.monitor.metrics import serve_metrics

if TYPE_CHECKING:
    from flashferry.fileserver import ServerEvent

PASSWORD_VARIABLE = "FLASHFERRY_SERVE_PASSWORD"  # noqa: S105 - the name of a variable
"""Variable for the password of `--user`; not an option, since any user can read command lines."""


@listening_options
def serve(
    listening: dict[str, Any],
    images: Annotated[Path, typer.Option("--image-dir", metavar="DIR", help="Folder of images, or one image file.")],
    address: AddressOption = None,
    cap_mbps: Annotated[
        float | None,
        typer.Option("--cap-mbps", metavar="MBIT/S", min=0.01, help="What all copies may take of the link, in Mbit/s."),
    ] = None,
    link_mbps: Annotated[
        float | None,
        typer.Option(
            "--link-mbps",
            metavar="MBIT/S",
            min=0.01,
            help="Rate of the link in Mbit/s; all copies get 80 % of it together.",
        ),
    ] = None,
    site_rates: Annotated[
        Path | None,
        typer.Option("--site-rates", metavar="FILE", help="Keeps link rates learned per client network between runs."),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help=f"A fixed login besides; its password is in {PASSWORD_VARIABLE}."),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            "--target", metavar="TARGET", help="File system in the printed copy lines; null: for a speed test."
        ),
    ] = "flash:",
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="NETWORK", help="Only clients from here; may be repeated.")
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", metavar="HOURS", min=0.01, help="How long a printed line is good.")
    ] = 24.0,
    metrics: MetricsOption = None,
    sample_hz: Annotated[
        float, typer.Option("--sample-hz", metavar="HZ", min=0.02, max=20, help="Readings of TCP_INFO.")
    ] = 1.0,
    state_dir: StateOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            envvar=JSON_VARIABLE,
            help="Print events as JSON lines on standard output.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
) -> None:
    """Serve images by one-time tickets until Ctrl-C; each transfer ends with a verdict on what limited it."""
    options = api.ServeOptions(
        images=images,
        **listening,
        address=address,
        cap_bps=_bps(cap_mbps),
        link_bps=_bps(link_mbps),
        site_rates=site_rates,
        user=user,
        allow=tuple(allow or ()),
        target=target,
        lifetime_s=hours * 3600,
        sample_hz=sample_hz,
        stream_samples=as_json,
        state=state_dir,
    )
    password = None if user is None else password_of(user, PASSWORD_VARIABLE, f"Password of the FTP user {user}: ")
    with (
        nonblocking_streams() as is_whole,
        _measured(metrics, options.cap_bytes_per_s) as measure,
        api.serve(options, password=password) as served,
        stop_on_signals() as stop,
    ):
        if measure is not None:
            served.server.events(measure)
        print_left_out(served.server.catalogue)
        hashed(served.server.catalogue)
        for notice in served.port_notices:
            say(notice)
        if served.host_keys:
            say("a device that asks about our host key is to show one of these:")
            for shown in served.host_keys:
                say(f"  {shown}")
        tickets = served.tickets()
        if user is not None:
            say("the fixed login fetches every image with the password you gave, for example:")
            for line in tickets.fixed_lines():
                copy_line(line, err=True)
        has_by = len(options.served) > 1
        watch_sessions(served.server, tickets, served.rates(), stop, as_json=as_json, has_by=has_by)
        if not served.server.ended_in_order:
            # Innermost: the server must not wait if our output is not read.
            say(f"error: {served.server.gone}; what it was sending was cut. Start it again")
            raise typer.Exit(int(ExitCode.DEVICES_FAILED))
    if not is_whole():
        raise typer.Exit(int(ExitCode.INTERNAL))


@contextmanager
def _measured(target: str | None, cap_bytes_per_s: float | None) -> Iterator[Callable[[ServerEvent], None] | None]:
    """Serve metrics if asked to; yield the function that receives the server's events for them, or None."""
    if target is None:
        yield None
        return

    with serve_metrics(target, cap_bytes_per_s) as metrics:
        yield metrics


def _bps(mbps: float | None) -> float | None:
    return None if mbps is None else mbps * 1e6
