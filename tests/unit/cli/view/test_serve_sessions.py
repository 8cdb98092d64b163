"""What `serve` shows of its transfers where several transports are served."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.live import Live

from flashferry.api.serving import Offer
from flashferry.cli.view.layout import ShownConsole
from flashferry.cli.view.serve_sessions import LiveTable, PlainLines
from flashferry.fileserver import EventKind, ServerEvent, TransferState


def done(transport: str) -> ServerEvent:
    verdict = SimpleNamespace(sentence="Cap, by design.", advice="", kind=SimpleNamespace(value="cap"))
    record = SimpleNamespace(
        peer_address="192.0.2.7",
        image_name="x.bin",
        outcome="delivered",
        verdict=verdict,
        rate_bytes_per_s=1e6,
        transport=transport,
    )
    progress = SimpleNamespace(
        ticket_id=transport,
        peer_address="192.0.2.7",
        image_name="x.bin",
        state=TransferState.DELIVERED,
        size_bytes=100,
        bytes_acked=100,
        rtt_s=0.1,
        congestion_control="bbr",
        limited_by=None,
        record=record,
        transport=transport,
    )
    text = verdict.sentence
    return ServerEvent(kind=EventKind.DONE, at=0.0, text=text, peer_address="192.0.2.7", progress=cast("Any", progress))


def live_table(*events: ServerEvent, has_by: bool, width: int) -> str:
    out = StringIO()
    console = ShownConsole(file=out, width=width)
    with Live(console=console, auto_refresh=False) as live:
        LiveTable(live, has_by=has_by).events(list(events))
        live.refresh()
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_says_by_which_transport(width):
    """And so does the line of a delivery; where one alone is served neither has a word more."""
    told = live_table(done("http"), done("scp"), has_by=True, width=width)
    rows = [row.split() for row in told.splitlines()]
    assert ["client", "by"] in [row[:2] for row in rows]
    assert {("192.0.2.7", "http"), ("192.0.2.7", "scp")} <= {tuple(row[:2]) for row in rows}
    assert "192.0.2.7: x.bin: delivered by http. Cap, by design." in told
    alone = live_table(done("ftp"), has_by=False, width=width)
    assert "192.0.2.7: x.bin: delivered. Cap, by design." in alone
    assert " by " not in alone.replace(", by design", "")


@pytest.mark.parametrize(("has_by", "text"), [(True, "by scp: Cap, by design."), (False, "Cap, by design.")])
def test_without_a_terminal_a_line_says_it_too(capsys, has_by, text):
    """Where several are served."""
    PlainLines(has_by=has_by).events([done("scp")])
    assert capsys.readouterr().err.rstrip().endswith(f"done         {text}")


def test_a_password_says_which_lines_it_belongs_to(capsys):
    """It goes to another stream than they do, and may be read before them or among those of other images."""
    ticket = SimpleNamespace(image_name="x.bin", username="abcd1234")
    lines = (
        "copy ftp://abcd1234:SECRET@192.0.2.1/x.bin flash:x.bin",
        "copy scp://abcd1234@192.0.2.1/x.bin flash:x.bin",
    )
    offer = Offer(
        image=cast("Any", None),
        ticket=cast("Any", ticket),
        expires_s=0.0,
        lines=lines,
        transports=("ftp", "scp"),
        password="SECRET",
    )
    PlainLines(has_by=True).offer(offer)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == list(lines)
    assert printed.err == "the password that a router asks for (x.bin, by scp, user abcd1234): SECRET\n"
