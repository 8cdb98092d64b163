"""Verdicts on transfers through an SSH channel: a window of its own inside TCP's, measured and made by chance."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.core.values import replace
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import KnownLink, Verdict, VerdictKind, classify_transfer
from tests.unit.tcp.flows import flow_of

_CAPTURE = json.loads((Path(__file__).parents[2] / "captures" / "ssh_flows.json").read_text(encoding="utf-8"))
_FLOWS = {flow["name"]: flow for flow in _CAPTURE["flows"]}
_H, _W, _S, _L, _B, _C = (
    VerdictKind.SSH_WINDOW,
    VerdictKind.WINDOW,
    VerdictKind.SLOW_RECEIVER,
    VerdictKind.RANDOM_LOSS,
    VerdictKind.BANDWIDTH,
    VerdictKind.CAP,
)
# A window of 1 MiB comes to 82 % of the link, whose queue it fills in bursts: the link is not wrong there. Behind 1 ms
# 128 KiB are far more than the path holds.
_EXPECTED = {
    "ssh 8 KiB, 100 ms": (_H, _H),
    "ssh 64 KiB, 100 ms": (_H, _H),
    "ssh 128 KiB, 100 ms": (_H, _H),
    "ssh 512 KiB, 100 ms": (_H, _H),
    "ssh 1 MiB, 100 ms": (_B, _B),
    "ssh 2 MiB, 100 ms": (_B, _B),
    "ssh 2 MiB, 100 ms, cap": (_C, _C),
    "ssh 1.25 MB, 100 ms": (_B, _B),
    "ssh 1.25 MB, 100 ms, cap": (_C, _C),
    "ssh 128 KiB, 40 ms": (_H, _H),
    "ssh 128 KiB, 1 ms": (_B, _B),
    "ssh 128 KiB, 100 ms, loss 0.1 %": (_H, _H),
    "ssh 128 KiB, refilled by packets, 100 ms": (_H, _H),
    "ssh 2 MiB, refilled by packets, 100 ms": (_B, _B),
    "ssh 2 MiB, 40 ms, loss 0.5 %": (_L, _B),
    "ssh 2 MiB, link 20 Mbit/s, queue 100": (_B, _B),
    "ssh 2 MiB, TCP window 64 kB, 100 ms": (_W, _W),
    "ssh 8 KiB, 100 ms, reader of 20 kB/s": (_S, _S),
    "ssh 128 KiB, 100 ms, reader of 200 kB/s": (_S, _S),
    "ssh 2 MiB, 100 ms, reader of 500 kB/s": (_S, _S),
    "ssh 2 MiB, refilled by packets, 100 ms, reader of 1.5 MB/s": (_S, _S),
    "ssh 128 KiB, 1 ms, reader of 1 MB/s": (_S, _S),
    "ssh 2 MiB, refilled by packets, 30 ms, link of 16 Mbit/s, reader of 600 kB/s": (_S, _S),
    "ssh 2 MiB, reader of 500 kB/s at the socket": (_S, _S),
    "ssh 128 KiB, reader of 200 kB/s at the socket": (_S, _S),
}


def _samples(flow: dict[str, Any], count: int | None = None) -> list[Sample]:
    return [Sample(**dict(zip(_CAPTURE["fields"], row, strict=True))) for row in flow["readings"][:count]]


def _link_of(flow: dict[str, Any]) -> KnownLink:
    return KnownLink(bytes_per_s=flow["link_rate_bps"] / 8 * 1460 / 1500)


def _judged(flow: dict[str, Any], samples: list[Sample] | None = None, **more: Any) -> Verdict:
    return classify_transfer(
        _samples(flow) if samples is None else samples,
        congestion_control=flow["congestion_control"],
        channel_window_bytes=flow["channel_window_bytes"],
        **more,
    )


@pytest.mark.parametrize("is_known", [True, False], ids=["rate stated", "readings alone"])
@pytest.mark.parametrize("name", _FLOWS)
def test_the_cause_that_was_set_is_the_one_named(name: str, is_known: bool) -> None:
    """Each measured flow is judged as what was done to it for most of its time, the link's rate known or not."""
    flow = _FLOWS[name]
    control, _, case = name.partition(" ")
    verdict = _judged(flow, link=_link_of(flow) if is_known else None)
    assert verdict.kind is _EXPECTED[case][control == "bbr"]
    assert verdict.share >= 0.5


@pytest.mark.parametrize("name", _FLOWS)
def test_no_channel_is_ever_called_our_server(name: str) -> None:
    """What waits in a channel was there to be sent: no part of the time is put down to the server."""
    assert "server" not in _judged(_FLOWS[name]).evidence[-1]


@pytest.mark.parametrize("waiting", [0, None])
@pytest.mark.parametrize("name", _FLOWS)
def test_without_waiting_bytes_there_is_no_ssh_window(name: str, waiting: int | None) -> None:
    """The same readings with nothing waiting, or no channel at all, never come to an SSH window."""
    flow = _FLOWS[name]
    samples = [replace(sample, channel_waiting_bytes=waiting) for sample in _samples(flow)]
    verdict = _judged(flow, samples)
    assert verdict.kind is not VerdictKind.SSH_WINDOW
    assert "ssh window" not in verdict.evidence[-1]


@given(
    rate=st.floats(1e3, 1e8),
    rtt_ms=st.floats(0.5, 700.0),
    queue=st.floats(1.0, 3.0),
    in_flight=st.integers(0, 5_000_000),
    busy=st.floats(0.0, 1.0),
    rwnd=st.floats(0.0, 1.0),
    again=st.floats(0.0, 0.2),
    app_limited=st.booleans(),
    waiting=st.sampled_from([None, 0]),
    channel_window=st.none() | st.integers(1, 2**31),
    control=st.sampled_from(["bbr", "cubic", None]),
)
def test_no_readings_without_waiting_bytes_make_an_ssh_window(
    rate: float, rtt_ms: float, queue: float, in_flight: int, busy: float, rwnd: float, again: float,
    app_limited: bool, waiting: int | None, channel_window: int | None, control: str | None,
) -> None:  # fmt: skip
    """Whatever the kernel says: a flow in whose channel nothing waits, or that has none, is never held by one."""
    samples = flow_of(
        rate=rate, rtt_ms=rtt_ms * queue, least_ms=rtt_ms, in_flight=in_flight, busy=busy, rwnd=rwnd, again=again,
        app_limited=app_limited, channel_waiting_bytes=waiting,
    )  # fmt: skip
    verdict = classify_transfer(samples, congestion_control=control, channel_window_bytes=channel_window)
    assert verdict.kind is not VerdictKind.SSH_WINDOW


@given(window=st.integers(4096, 2_000_000), part=st.floats(0.36, 1.0), rtt_ms=st.floats(5.0, 600.0))
def test_a_channel_that_goes_round_is_the_limit_whatever_its_size(window: int, part: float, rtt_ms: float) -> None:
    """Bytes waiting, a dry socket, an empty path, and a third of the window or more per round trip: the SSH window."""
    samples = [
        replace(sample, notsent_bytes=0, app_limited=True, channel_waiting_bytes=1)
        for sample in flow_of(seconds=20, rate=part * window / (rtt_ms / 1e3), rtt_ms=rtt_ms, least_ms=rtt_ms)
    ]
    verdict = classify_transfer(samples, congestion_control="bbr", channel_window_bytes=window)
    assert (verdict.kind, verdict.share) == (VerdictKind.SSH_WINDOW, 1.0)


def test_the_verdict_tells_both_windows_and_the_line_to_set() -> None:
    """Sentence, evidence and advice have the window, what it allows, how long it held, and a value for each release."""
    flow = _FLOWS["bbr ssh 8 KiB, 100 ms"]
    verdict = _judged(flow, link=_link_of(flow), cipher="aes128-gcm@openssh.com")
    assert verdict.sentence.startswith(
        "SSH window, 100% of the time: the SSH channel's window of 8192 bytes was used up; "
    )
    assert "it allows 0.079" in verdict.sentence
    assert (
        "SSH channel window 8192 bytes at most; bytes waited for it 100% of the time, up to 303104" in verdict.evidence
    )
    assert "encrypted by aes128-gcm@openssh.com" in verdict.evidence
    assert "'ip ssh bulk-mode 1250000'" in verdict.advice
    assert "'ip ssh window-size 1250000'" in verdict.advice


def test_the_line_to_set_is_twice_what_the_path_holds() -> None:
    """By the link's rate where it is known, by the cap where that is, else by an assumed one that is called so."""
    flow = _FLOWS["bbr ssh 128 KiB, 40 ms"]
    assert "bulk-mode 500000'" in _judged(flow, link=_link_of(flow)).advice
    assert "assumed 100 Mbit/s" in _judged(flow).advice
    capped = _FLOWS["bbr ssh 128 KiB, 100 ms"]
    assert "bulk-mode 1180000'" in _judged(capped).advice


def test_of_two_windows_the_smaller_is_named() -> None:
    """Measured in a push: 65535 bytes of TCP inside 131072 of the channel, in turn full and dry. TCP's is the limit."""
    samples = [
        replace(sample, notsent_bytes=notsent, unacked_segments=segments, channel_waiting_bytes=28_928)
        for sample, (notsent, segments) in zip(
            flow_of(seconds=12, rate=545_000.0, rtt_ms=100.3, least_ms=99.3, window=65_535, rwnd=0.15),
            [(0, 31), (25_868, 46), (45_497, 37), (781, 43)] * 4,
            strict=False,
        )
    ]  # fmt: skip
    link = KnownLink(bytes_per_s=6.08e6)
    verdict = classify_transfer(samples, congestion_control="bbr", link=link, channel_window_bytes=131_072)
    assert (verdict.kind, verdict.share) == (VerdictKind.WINDOW, 1.0)
    assert "ip tcp window-size" in verdict.advice


def test_a_window_that_is_large_enough_is_not_to_be_raised() -> None:
    """Where twice the path's product is open already no line is named."""
    samples = [
        replace(sample, notsent_bytes=0, app_limited=True, channel_waiting_bytes=9)
        for sample in flow_of(rate=1e6, rtt_ms=100)
    ]
    verdict = classify_transfer(samples, channel_window_bytes=250_000, link=KnownLink(bytes_per_s=1.1e6))
    assert "bulk-mode" not in verdict.advice


@pytest.mark.parametrize(
    ("cipher", "has_channel", "hint"),
    [("aes128-cbc", True, "probe --ssh-sweep"), ("TLS_AES_128_GCM_SHA256", False, "HTTP or FTP"), ("", False, "")],
)
def test_a_slow_receiver_of_ciphertext_may_be_slow_by_its_cipher(cipher: str, has_channel: bool, hint: str) -> None:
    """The advice names the cipher, and how to find a faster one; in clear text it is as it was."""
    window = [60_000, 60_000, 12_000, 8_000, 20_000, 9_000, 14_000, 8_000, 11_000, 9_000, 12_000]
    samples = [
        replace(sample, channel_waiting_bytes=90_000 if has_channel else None)
        for sample in flow_of(rate=1e5, window=window, rwnd=0.9)
    ]
    verdict = classify_transfer(samples, cipher=cipher)
    assert verdict.kind is VerdictKind.SLOW_RECEIVER
    plain = "A larger window will not help; check the device's flash and CPU."
    assert verdict.advice.startswith(plain)
    assert (verdict.advice == plain) is not bool(hint)
    assert hint in verdict.advice
    assert cipher in verdict.advice
