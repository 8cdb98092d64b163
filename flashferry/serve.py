"""`flashferry serve`: the tuned FTP server by itself. Paste the printed line into a router and watch."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from flashferry.interrupt import stop_on_signals
from flashferry.output import say
from flashferry.serving import Desk, advertised_addresses, parsed_ports
from flashferry.sessions import watch_sessions
from ftpserver import FtpServer, FtpServerError, SenderProfile, ServerSettings
from inventory.errors import ConfigInvalid
from staging.budget import payload_cap_bytes_per_s
from staging.run import FTP_PORT, free_ftp_port


def serve(
    images: Annotated[Path, typer.Option("--images", metavar="DIR", help="Folder of images, or one image file.")],
    listen: Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="Address to listen on.")] = "0.0.0.0",  # noqa: S104
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="FTP port (default: 21 if allowed, else 2121).")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="Our address as routers reach it, for the printed lines.")
    ] = None,
    masquerade: Annotated[
        str | None, typer.Option("--masquerade", metavar="ADDRESS", help="Address to name in PASV replies behind NAT.")
    ] = None,
    passive_ports: Annotated[
        str | None, typer.Option("--passive-ports", metavar="FIRST-LAST", help="Ports for data connections.")
    ] = None,
    congestion_control: Annotated[
        str, typer.Option("--congestion-control", help="auto, bbr, cubic, reno or system.")
    ] = "auto",
    cap_mbps: Annotated[
        float | None, typer.Option("--cap-mbps", min=0.01, help="What all copies may take of the link, in Mbit/s.")
    ] = None,
    dscp: Annotated[
        int, typer.Option("--dscp", min=0, max=63, help="DSCP of control and data; 1 is lower effort.")
    ] = 0,
    target: Annotated[
        str, typer.Option("--target", help="File system in the printed copy lines; null: for a speed test.")
    ] = "flash:",
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="NETWORK", help="Only clients from here; may be repeated.")
    ] = None,
    hours: Annotated[float, typer.Option("--hours", min=0.01, help="How long a printed line is good.")] = 24.0,
    sample_hz: Annotated[float, typer.Option("--sample-hz", min=0.02, max=20, help="Readings of TCP_INFO.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON lines on standard output.")] = False,
) -> None:
    """Serve images by one-time tickets until Ctrl-C; each transfer ends with a verdict on what limited it."""
    try:
        settings = ServerSettings(
            image_paths=(images,),
            listen_address=listen,
            port=free_ftp_port() if port is None else port,
            passive_ports=parsed_ports(passive_ports),
            masquerade_address=masquerade,
            profile=SenderProfile(congestion_control=congestion_control, dscp=dscp),
            sample_interval_s=1 / sample_hz,
            stream_samples=as_json,
        )
        with FtpServer(settings) as server, stop_on_signals() as stop:
            if port is None and server.port != FTP_PORT:
                say(f"port 21 is not to be had, listening on {server.port}; old IOS may not take a port in the URL")
            if cap_mbps is not None:
                server.set_site_cap(Desk.SITE, payload_cap_bytes_per_s(cap_mbps * 1e6))
            desk = Desk(
                server=server,
                addresses=(address,) if address else advertised_addresses(listen),
                target=target,
                allow=tuple(allow or ()),
                lifetime_s=hours * 3600,
                capped=cap_mbps is not None,
            )
            watch_sessions(server, desk, stop, as_json=as_json)
            _drain(server, desk, stop)
    except FtpServerError as error:
        raise ConfigInvalid(str(error)) from None


def _drain(server: FtpServer, desk: Desk, stop: threading.Event) -> None:
    """Let running transfers finish; a second Ctrl-C ends them."""
    if not desk.is_busy():
        return
    stop.clear()
    say("no new sessions; waiting for running transfers, Ctrl-C again ends them")
    server.drain()
    while desk.is_busy() and not stop.wait(0.5):
        pass
