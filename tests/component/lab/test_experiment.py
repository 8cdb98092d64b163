"""Cells of an experiment run on a real bench: link, servers, clients and the kernel's own account."""

import pytest

from flashferry.lab.experiment.cell import Cell, LinkSetting, Measured, Receiver, Sender
from flashferry.lab.experiment.pool import play_all
from flashferry.lab.experiment.servers import vsftpd_path
from tests.some import some

pytestmark = [pytest.mark.lab, pytest.mark.soak]

_LINK = LinkSetting(rate_bps=20e6, rtt_s=0.02, loss_ratio=0.0)
_TUNED = Receiver(kind="xe", window_bytes=200_000, sack=True)


def _cell(receiver: Receiver, sender: Sender, size_bytes: int, seconds: float | None = None) -> Cell:
    arm = f"{receiver.kind} {receiver.window_bytes}"
    return Cell(
        study="test", arm=arm, receiver=receiver, sender=sender, size_bytes=size_bytes, seed=1, link=_LINK,
        seconds=seconds,
    )  # fmt: skip


def test_all_clients_fetch_from_all_servers() -> None:
    """Each copy is whole, sent by the congestion control that was asked for, seen from outside and judged."""
    senders = [Sender(program="ours", control="cubic"), Sender(program="ours", control="auto", cap_share=0.9)]
    if vsftpd_path() is not None:
        senders += [Sender(program="vsftpd", control="cubic"), Sender(program="vsftpd", control="bbr")]
    cells = [_cell(Receiver(kind="linux", sack=True), sender, 2_000_000) for sender in senders]
    cells += [_cell(_TUNED, sender, 2_000_000) for sender in senders]
    runs: list[Measured] = []
    play_all(cells, links=2, on_run=runs.append)
    assert [run.error for run in runs] == [""] * len(cells)
    for run in some(runs):
        assert run.size_bytes == run.cell.size_bytes
        assert run.control == ("bbr" if run.cell.sender.control == "auto" else run.cell.sender.control)
        # How many readings a copy gets, and how old the last one is, depends on how busy the machine is.
        assert run.samples
        assert run.sent_bytes is not None
        assert run.sent_bytes > 0
        assert "timestamps" in run.syn
        assert ("no timestamps" not in run.syn) == (run.cell.receiver.kind == "linux")


def test_a_timed_copy_ends_in_time_and_counts_what_came() -> None:
    """A client that leaves after two seconds has got two seconds' worth, and its window is named as the limit."""
    receiver = Receiver(kind="pull", window_bytes=16_384)
    cell = _cell(receiver, Sender(program="ours", control="cubic"), 5_000_000, seconds=2.0)
    (run,) = _played(cell)
    assert run.error == ""
    assert run.seconds == 2.0
    assert 0 < run.size_bytes < 5_000_000
    assert run.judgement is not None
    assert run.judgement.kind == "window"


@pytest.mark.parametrize(("loss_ratio", "control"), [(0.03, "bbr"), (0.0, "cubic")])
def test_losses_and_only_losses_make_auto_take_up_bbr_behind_a_small_window(loss_ratio: float, control: str) -> None:
    """An unscaled window begins with CUBIC; where losses hold that back, the flow ends under BBR."""
    cell = Cell(
        study="test", arm="small window", receiver=Receiver(kind="pull", window_bytes=65_535, sack=True),
        sender=Sender(program="ours", control="auto", cap_share=0.9), size_bytes=20_000_000, seed=1, seconds=4.0,
        link=LinkSetting(rate_bps=20e6, rtt_s=0.05, loss_ratio=loss_ratio),
    )  # fmt: skip
    (run,) = _played(cell)
    assert (run.error, run.control) == ("", control)


def _played(cell: Cell) -> list[Measured]:
    runs: list[Measured] = []
    play_all([cell], links=1, on_run=runs.append)
    return runs
