"""Claims of the published studies: each with rows that bear it out, that do not, and that cannot tell."""

from collections.abc import Mapping

import pytest

from flashferry.depot.probing.figures import Row, Spread
from flashferry.lab.experiment.bulk.claims import Claim, Finding, bulk_claims, ssh_claims
from flashferry.lab.experiment.bulk.play import Conditions, Played
from flashferry.lab.experiment.bulk.report import document, picture, summary
from flashferry.lab.experiment.bulk.studies import (
    PUBLISHED_BLOCKS,
    PUBLISHED_CIPHERS,
    PUBLISHED_DD_CIPHERS,
    PUBLISHED_PIPES,
    series_of,
)

CONDITIONS = Conditions(at="2026-11-27", kernel="6", processors=2, ssh="OpenSSH", load=(1.0,), link=(1e9,))


CONTRADICTED = (
    "As a rule the weaker cipher is faster",
    "Faster means weaker",
    # The board's figures are its own; these rows are those of the cloud hosts.
    "aes256-gcm is the fastest of all",
    "aes256-gcm is 1.7 times the default",
)


def row(key: str, mb: float, *, busy: float = 0.95, scatter: float = 1.0) -> Row:
    """Return a row of a processor that is full: what is twice as fast costs half."""
    cost = 500 / mb
    spread = Spread(median=cost, least=cost / scatter, most=cost * scatter)
    rates = Spread(median=mb * 1e6, least=mb * 1e6 / scatter, most=mb * 1e6 * scatter)
    share = mb * 1e6 / 1e9
    return Row(
        key=key, trials=5, rate=rates, here_cpu=spread, far_cpu=spread, here_busy=busy, far_busy=busy, link_share=share
    )


def published(experiment: str, changed: Mapping[str, float] | None = None, **more) -> Played:
    """Return what the studies themselves would have come to, with some rates in place of theirs."""
    found = {}
    for series in series_of(experiment, 128):
        rows = []
        for method in series.methods:
            mb = {
                "ciphers": PUBLISHED_CIPHERS.get(method.cipher, 0.0),
                "boards": 20.0 if method.cipher.startswith("chacha") else 16.0,
                "macs": 45.0 if method.mac.startswith("umac-64") else 44.0 if method.mac == "hmac-md5" else 40.0,
                "compression": 15.0
                if method.compress
                else 30.0
                if method.squeeze
                else 30.0
                if "chacha" in method.cipher
                else 50.0,
                "blocks": PUBLISHED_BLOCKS.get(method.block_bytes, 0.0),
                "pipes": PUBLISHED_PIPES.get((method.name, method.squeeze), 0.0),
                "dd-ciphers": PUBLISHED_DD_CIPHERS.get(method.cipher, 0.0),
            }[series.name]
            if method.compress and method.data == "holes":
                mb = 80.0
            if method.squeeze and series.name == "compression" and method.data == "holes":
                mb = 120.0
            busy = 0.5 if series.name == "blocks" and method.block_bytes == 512 else 0.95
            given = {"busy": busy} | more
            rows.append(row(method.key, (changed or {}).get(f"{series.name} {method.key}", mb), **given))
        found[series.name] = tuple(rows)
    return Played(rows=found, conditions=CONDITIONS, link_bytes_per_s=1e9, is_whole=True)


def finding(claims: list[Claim], part: str) -> Finding:
    (found,) = (one.finding for one in claims if part in one.text)
    return found


def test_the_studies_own_figures_bear_their_claims_out():
    """What cannot be repeated stays so, and what the figures themselves contradict is told: weaker is not faster."""
    for claims in (ssh_claims(published("ssh")), bulk_claims(published("bulk"))):
        contradicted = {one.text for one in claims if one.finding not in (Finding.REPRODUCED, Finding.CANNOT)}
        assert all(any(part in text for part in CONTRADICTED) for text in contradicted), contradicted


@pytest.mark.parametrize(
    ("experiment", "key", "mb", "part"),
    [
        ("ssh", "ciphers scp -O chacha20-poly1305@openssh.com", 400.0, "is behind all AES"),
        ("ssh", "ciphers scp -O 3des-cbc", 200.0, "last by far"),
        ("ssh", "ciphers scp -O aes192-cbc", 600.0, "aes128-gcm is the fastest"),
        ("ssh", "ciphers scp -O aes192-cbc", 600.0, "CBC is slower the longer"),
        ("ssh", "macs scp -O aes128-ctr hmac-sha1", 80.0, "umac-64 is the fastest"),
        ("ssh", "macs scp -O aes128-ctr hmac-sha1", 80.0, "10 to 20 %"),
        ("ssh", "boards scp -O aes128-ctr", 40.0, "without AES instructions gains little"),
        ("bulk", "blocks dd chacha20-poly1305@openssh.com bs=4194304", 500.0, "64 KiB is the best"),
        ("bulk", "pipes nc bs=65536", 800.0, "nc is slower than ssh"),
        ("bulk", "pipes nc bs=65536", 800.0, "pigz beats bare nc"),
        ("bulk", "dd-ciphers dd aes128-ctr bs=65536", 100.0, "Each AES is faster"),
    ],
)
def test_other_figures_do_not(experiment, key, mb, part):
    """One row that is different is enough."""
    played = published(experiment, {key: mb})
    claims = ssh_claims(played) if experiment == "ssh" else bulk_claims(played)
    assert finding(claims, part) is Finding.NOT


def test_a_core_that_is_full_is_not_half_a_core():
    """The share that processes took is held against the published one."""
    assert finding(bulk_claims(published("bulk", busy=0.9)), "about half a core") is Finding.NOT


def test_runs_that_overlap_do_not_tell_which_is_first():
    """Neither for nor against a claim."""
    changed = {"ciphers scp -O aes256-gcm@openssh.com": 560.0}
    assert finding(ssh_claims(published("ssh", changed, scatter=1.2)), "aes128-gcm is the fastest") is Finding.UNDECIDED
    assert finding(ssh_claims(published("ssh", changed)), "aes128-gcm is the fastest") is Finding.NOT


def test_what_was_not_measured_is_no_claim_lost():
    """An experiment of some series says so of the others."""
    nothing = Played(rows={}, conditions=CONDITIONS, link_bytes_per_s=None, is_whole=False)
    for claims in (ssh_claims(nothing), bulk_claims(nothing)):
        assert {one.finding for one in claims} == {Finding.MISSING, Finding.CANNOT}


def test_the_document_has_every_series_and_claim():
    """And the graph every method."""
    for experiment, claims in (("ssh", ssh_claims), ("bulk", bulk_claims)):
        series, played = series_of(experiment, 128), published(experiment)
        text = document(series, played, claims(played), "command")
        assert all(one.text in text for one in claims(played))
        assert text.count("| method |") == len(series)
        drawn = picture(series, played, {})
        assert drawn.count('class="o"') == 2 * sum(len(one.methods) for one in series) + 1


def test_the_page_counts_the_claims_of_each_study():
    """Every claim is in one of the counts; the figures stay in the report."""
    played = published("ssh")
    claims = ssh_claims(played)
    text = summary(claims, played, "command")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert sum(int(count.strip(" |")) for row in rows for count in row[1:]) == len(claims)
    assert "| method |" not in text
