"""A sweep's rows: medians, spread, what each is bound by, and when one is told apart as the fastest."""

import re

import pytest

from flashferry.model.probe_result import (
    CIPHERS,
    MACS,
    SweepCopy,
    SweepRow,
    authenticates_itself,
    best_of,
    conclusion_of,
    ranked,
    row_of,
)
from flashferry.tcp.verdict_rules import VerdictKind

GCM, CHACHA, CTR, CBC = CIPHERS[0], CIPHERS[2], CIPHERS[3], CIPHERS[6]


def copies(*rates: float, verdict: VerdictKind = VerdictKind.SLOW_RECEIVER) -> list[SweepCopy]:
    return [SweepCopy(cipher=CTR, mac="", rate_bytes_per_s=rate, verdict=verdict) for rate in rates]


def rows(**medians: tuple[float, VerdictKind]) -> list[SweepRow]:
    names = {"gcm": GCM, "chacha": CHACHA, "ctr": CTR, "cbc": CBC}
    return [row_of(names[name], copies(rate, verdict=verdict)) for name, (rate, verdict) in medians.items()]


def test_a_row_has_median_least_most_and_what_held_most_of_its_copies() -> None:
    """Three copies of which two were held by the device."""
    found = row_of(CTR, [*copies(1e6, 3e6), *copies(2e6, verdict=VerdictKind.CAP)])
    assert (found.copies, found.median_bytes_per_s, found.least_bytes_per_s, found.most_bytes_per_s) == (
        3,
        2e6,
        1e6,
        3e6,
    )
    assert (found.bound_by, found.spread) == ("device", 3.0)


@pytest.mark.parametrize("kind", list(VerdictKind))
def test_every_verdict_is_put_down_to_something(kind: VerdictKind) -> None:
    """In one of the words that the documentation has."""
    words = {"link", "window", "device", "loss", "our side", "not known"}
    assert row_of(CTR, copies(1.0, verdict=kind)).bound_by in words


def test_what_was_refused_has_its_reason_and_comes_last() -> None:
    """Rows are sorted by rate; one without a copy has no figures."""
    refused = row_of(GCM, [], "not in the device's list")
    found = ranked([refused, row_of(CBC, copies(1e6)), row_of(CTR, copies(2e6))])
    assert [row.name for row in found] == [CTR, CBC, GCM]
    assert (refused.copies, refused.median_bytes_per_s, refused.spread) == (0, None, None)


def test_the_fastest_is_told_apart_where_the_device_limits_the_slower() -> None:
    """1.2 times as fast and the slow one held by the device: its crypto decides."""
    found = rows(gcm=(1.2e6, VerdictKind.CAP), cbc=(1e6, VerdictKind.SLOW_RECEIVER))
    assert best_of(found) == GCM
    assert conclusion_of(found, GCM) == (
        f"{GCM} gives 1.2 MB/s, 1.2x that of {CBC}: the device's crypto is what limits the slower ones."
    )


def test_of_those_that_are_as_fast_the_first_in_the_usual_order_is_taken() -> None:
    """Some per cent are chance: the modern one of both wins, not the one with the better luck."""
    slow, fast = VerdictKind.SLOW_RECEIVER, VerdictKind.CAP
    assert best_of(rows(ctr=(1.05e6, fast), gcm=(1.0e6, fast), cbc=(0.5e6, slow))) == GCM


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (rows(gcm=(1.1e6, VerdictKind.CAP), cbc=(1e6, VerdictKind.CAP)), "No cipher clearly differs .* bound by: link"),
        (
            rows(gcm=(2e6, VerdictKind.CAP), cbc=(1e6, VerdictKind.SSH_WINDOW)),
            "bound by: window, which is not the device",
        ),
        (rows(gcm=(1e6, VerdictKind.CAP)), "alone of those offered"),
        ([], "No cipher was timed"),
    ],
)
def test_nothing_is_chosen_where_nothing_tells(found: list[SweepRow], words: str) -> None:
    """Link, window, one alone, none: the sentence says which, and no best is named."""
    assert best_of(found) == ""
    assert re.search(words, conclusion_of(found, ""))


def test_copies_that_scatter_are_said_to() -> None:
    """Beyond 1.3 from least to most the medians say little."""
    found = [row_of(GCM, copies(1e6, 3e6)), row_of(CBC, copies(1e6, 1.1e6))]
    assert f"Copies by {GCM} scatter by more than 1.3" in conclusion_of(found, best_of(found))


@pytest.mark.parametrize("cipher", CIPHERS)
def test_macs_belong_to_ctr_and_cbc_alone(cipher: str) -> None:
    """GCM and ChaCha20-Poly1305 authenticate by themselves."""
    assert authenticates_itself(cipher) is not cipher.endswith(("-ctr", "-cbc"))


def test_weak_ones_are_not_offered() -> None:
    """Triple DES and MD5 are what nobody should come to use for their rate."""
    assert not [name for name in (*CIPHERS, *MACS) if "3des" in name or "md5" in name]
