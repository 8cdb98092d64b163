"""What `serve` tells of links that nobody stated a rate of."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flashferry.api.serving import LearnedRates, ServeOptions, serve
from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import EventKind, ServerEvent, SiteRates
from flashferry.tcp.link_rate import MAX_AGE_S
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import VerdictKind

NETWORK = "192.0.2.0/24"
NOW_S = 1_000_000.0


def _record(kind: VerdictKind, rate: int) -> Any:
    samples = tuple(
        Sample(at_s=s, rtt_us=1, snd_mss_bytes=1460, snd_cwnd_segments=1, unacked_segments=0, bytes_acked=s * rate)
        for s in range(11)
    )
    return SimpleNamespace(
        started_at=NOW_S - 10,
        last_ack_s=10.0,
        duration_s=10.0,
        rate_bytes_per_s=float(rate),
        verdict=SimpleNamespace(kind=kind),
        mss_bytes=1460,
        peer_address="192.0.2.7",
        samples=samples,
    )


def _event(kind: EventKind, record: Any = None, address: str | None = "192.0.2.7") -> ServerEvent:
    progress = cast("Any", SimpleNamespace(record=record))
    return ServerEvent(kind=kind, at=NOW_S, text="", peer_address=address, progress=progress)


class _Bench:
    def __init__(self, rates: SiteRates | None = None) -> None:
        self.now_s = NOW_S
        self.rates = rates or SiteRates()
        self.links: list[tuple[str, int | None]] = []
        self.learned = LearnedRates(self.rates, wall=lambda: self.now_s, set_link=lambda *link: self.links.append(link))

    def take(self, *arguments: Any) -> list[str]:
        return list(self.learned.take(_event(*arguments)))


def test_a_rate_is_told_once_with_age_and_source() -> None:
    """A transfer that the link held back shows what it carries; a login later repeats nothing."""
    bench = _Bench()
    (told,) = bench.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 6_083_333))
    assert told == f"{NETWORK}: the link carries 50 Mbit/s, learned 0 s ago from 192.0.2.7 (verdict bandwidth)"
    bench.now_s += 7200
    assert bench.take(EventKind.LOGIN) == []


@pytest.mark.parametrize("kind", [VerdictKind.WINDOW, VerdictKind.RANDOM_LOSS, VerdictKind.CAP])
def test_other_transfers_show_no_link(kind: VerdictKind) -> None:
    """Of what was limited by something else there is nothing to tell."""
    assert _Bench().take(EventKind.DONE, _record(kind, 6_000_000)) == []


def test_an_old_rate_is_forgotten_aloud() -> None:
    """After its time that is said once."""
    bench = _Bench()
    bench.take(EventKind.FAILED, _record(VerdictKind.POLICER, 1_000_000))
    bench.now_s += MAX_AGE_S + 1
    assert bench.take(EventKind.LOGIN) == [f"{NETWORK}: the learned link rate is too old and is forgotten"]
    assert bench.take(EventKind.LOGIN) == []


def test_what_is_known_is_told_at_the_start() -> None:
    """Rates of an earlier run come before the first client does."""
    first = _Bench()
    first.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 5_000_000))
    assert len(list(_Bench(first.rates).learned.start())) == 1


def test_events_without_a_client_or_a_transfer_tell_nothing() -> None:
    """Notices, progress and failed logins are no reason to look."""
    bench = _Bench()
    bench.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 5_000_000))
    for event in ((EventKind.NOTICE, None, None), (EventKind.PROGRESS,), (EventKind.LOGIN_FAILED,)):
        assert bench.take(*event) == []


def test_the_server_is_told_what_is_learned_and_what_is_forgotten() -> None:
    """Verdicts are held against it as payload, once for each change; a rate that is too old is withdrawn."""
    bench = _Bench()
    bench.take(EventKind.DONE, _record(VerdictKind.BANDWIDTH, 6_083_333))
    bench.take(EventKind.LOGIN)
    assert bench.links == [(NETWORK, pytest.approx(6_083_333, abs=2))]
    bench.now_s += MAX_AGE_S + 60
    bench.take(EventKind.LOGIN)
    assert bench.links[1:] == [(NETWORK, None)]


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"listen": "300.1.1.1"}, "--listen"),
        ({"passive_ports": (9, 1)}, "--passive-ports"),
        ({"masquerade": "somewhere"}, "--masquerade"),
        ({"congestion_control": "vegas"}, "--congestion-control"),
        ({"user": "a b"}, "--user"),
        ({"user": "op", "allow": ("everyone",)}, "--allow"),
        ({"images": Path("absent")}, "--image-dir"),
    ],
)
def test_a_wrong_setting_is_reported_by_the_option_to_type(given: dict[str, Any], option: str, tmp_path: Path) -> None:
    """The server's own names of settings appear in no command line."""
    (tmp_path / "image.bin").write_bytes(b"x")
    options = ServeOptions(**({"images": tmp_path, "address": "192.0.2.1", "state": tmp_path / "state"} | given))
    password = None if options.user is None else "long-enough"
    with pytest.raises(ConfigInvalid, match=f"^{option}: "), serve(options, password=password):
        pass
