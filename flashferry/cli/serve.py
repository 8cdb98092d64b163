"""`flashferry serve`: the tuned FTP server by itself. Paste the printed line into a router and watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from flashferry.cli.command_line import OUTPUT
from flashferry.cli.images import digest_cache, hashed, tell_left_out
from flashferry.cli.options.shared import AddressOption, PortOption, StateOption
from flashferry.cli.options.watch import MetricsOption
from flashferry.cli.serving import (
    PASSWORD_VARIABLE,
    LearnedRates,
    ManualTickets,
    advertised_addresses,
    fixed_login,
    parsed_ports,
)
from flashferry.cli.terminal.interrupt import stop_on_signals
from flashferry.cli.terminal.outlet import outlets
from flashferry.cli.terminal.output import JSON_VARIABLE, copy_line, say
from flashferry.cli.view.sessions import watch_sessions
from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import (
    FileServer,
    FileServerError,
    Limits,
    SenderProfile,
    ServerEvent,
    ServerGone,
    ServerSettings,
    SiteRates,
)
from flashferry.images.errors import ImageError
from flashferry.model.exit_codes import ExitCode
from flashferry.model.links import payload_cap_bytes_per_s
from flashferry.transports.ftp_listener import listener_at, port_notice
from inventory.view import DEFAULT_CAP_SHARE


def serve(
    images: Annotated[
        Path, typer.Option("--image-dir", "--images", metavar="DIR", help="Folder of images, or one image file.")
    ],
    listen: Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on.")] = "0.0.0.0",  # noqa: S104
    port: PortOption = None,
    address: AddressOption = None,
    masquerade: Annotated[
        str | None, typer.Option("--masquerade", metavar="ADDRESS", help="Address to name in PASV replies behind NAT.")
    ] = None,
    passive_ports: Annotated[
        str | None, typer.Option("--passive-ports", metavar="FIRST-LAST", help="Ports for data connections.")
    ] = None,
    congestion_control: Annotated[
        str, typer.Option("--congestion-control", metavar="NAME", help="auto, bbr, cubic, reno or system.")
    ] = "auto",
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
    sessions: Annotated[
        int | None,
        typer.Option("--sessions", metavar="N", min=1, help="Sessions at once (default: what open files carry)."),
    ] = None,
    dscp: Annotated[
        int, typer.Option("--dscp", metavar="N", min=0, max=63, help="DSCP of control and data; 1 is lower effort.")
    ] = 0,
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
    cap_bps, networks = _cap_bps(cap_mbps, link_mbps), tuple(allow or ())
    capped = cap_bps is not None
    link_bytes_per_s = payload_cap_bytes_per_s(None if link_mbps is None else link_mbps * 1e6)
    try:
        fixed = fixed_login(
            user, networks, site=ManualTickets.SITE if capped else "", link_bytes_per_s=link_bytes_per_s
        )
        settings = ServerSettings(
            image_paths=(images,),
            listeners=(
                listener_at(listen, port, passive_ports=parsed_ports(passive_ports), masquerade_address=masquerade),
            ),
            profile=SenderProfile(congestion_control=congestion_control, dscp=dscp),
            limits=Limits(sessions=sessions),
            sites_by_network=not capped,
            sample_interval_s=1 / sample_hz,
            stream_samples=as_json,
            hash_cache_path=digest_cache(state_dir),
        )
        cap_bytes_per_s = payload_cap_bytes_per_s(cap_bps)
        with (
            outlets() as is_whole,
            _measured(metrics, cap_bytes_per_s) as measure,
            FileServer(settings) as server,
            stop_on_signals() as stop,
        ):
            if measure is not None:
                server.events(measure)
            tell_left_out(server.catalogue)
            hashed(server.catalogue)
            if port is None and (notice := port_notice(server.port)) is not None:
                say(notice)
            if capped:
                server.set_site_cap(ManualTickets.SITE, cap_bytes_per_s, _cap_source(cap_mbps, link_mbps))
            tickets = ManualTickets(
                server=server,
                addresses=(address,) if address else advertised_addresses(listen),
                target=target,
                allow=networks,
                lifetime_s=hours * 3600,
                capped=capped,
                link_bytes_per_s=link_bytes_per_s,
                fixed=fixed,
            )
            if fixed is not None:
                say("the fixed login fetches every image with the password you gave, for example:")
                for line in tickets.fixed_lines():
                    copy_line(line, err=True)
            rates = None if capped else LearnedRates(SiteRates(site_rates), set_link=_link_setter(server))
            watch_sessions(server, tickets, rates, stop, as_json=as_json)
            if not server.ended_in_order:
                # Here and not further out: where nobody reads our output, telling must not wait for it.
                say(f"error: {server.gone}; what it was sending was cut. Start it again")
                raise typer.Exit(int(ExitCode.DEVICES_FAILED))
    except (FileServerError, ImageError) as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None
    if not is_whole():
        raise typer.Exit(int(ExitCode.INTERNAL))


@contextmanager
def _measured(target: str | None, cap_bytes_per_s: float | None) -> Iterator[Callable[[ServerEvent], None] | None]:
    """Serve metrics where that was asked for, and yield what takes the server's events for them."""
    if target is None:
        yield None
        return
    from flashferry.monitor.metrics import serve_metrics

    with serve_metrics(target, cap_bytes_per_s) as metrics:
        yield metrics


def _link_setter(server: FileServer) -> Callable[[str, int | None], None]:
    """Return what tells a server of links that were learned; one that is gone judges nothing any more."""

    def set_link(network: str, link_bytes_per_s: int | None) -> None:
        with suppress(ServerGone):
            server.set_site_link(network, link_bytes_per_s)

    return set_link


def _cap_bps(cap_mbps: float | None, link_mbps: float | None) -> float | None:
    """Return what all copies may take of the link together, in bit/s; None if nobody said.

    Raises:
        ConfigInvalid: Both were given.
    """
    if cap_mbps is not None and link_mbps is not None:
        raise ConfigInvalid(
            "--cap-mbps and --link-mbps: expected one of them; --link-mbps caps at 80 % of the link",
            hint="Leave one of them out",
        )
    if cap_mbps is not None:
        return cap_mbps * 1e6
    return None if link_mbps is None else link_mbps * 1e6 * DEFAULT_CAP_SHARE


def _cap_source(cap_mbps: float | None, link_mbps: float | None) -> str:
    if link_mbps is None:
        return f"{cap_mbps:g} Mbit/s, given"
    return f"{DEFAULT_CAP_SHARE:.0%} of {link_mbps:g} Mbit/s, given"
