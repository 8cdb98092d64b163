"""What ten sweeps are held to."""

import shutil

import pytest

from flashferry.lab.experiment.bulk.studies import CHACHA, GCM128, MODERN

# No part of what is installed: the tests of the wheel run away from the checkout.
sweeps = pytest.importorskip("benchmarks.cipher_sweeps")
Swept, judged, methods = sweeps.Swept, sweeps.judged, sweeps.methods

SPEEDS = dict.fromkeys(MODERN, 1000000000.0) | {GCM128: 4e9, "hmac-sha2-256": 1e9}
SPEEDS |= {"chacha20": 6e9, "poly1305 in C": 6e9}


def swept(costs: dict[str, float], choices: tuple[str, ...]) -> Swept:
    return Swept(name="x", costs=dict.fromkeys(MODERN, 8.0) | costs, choices=choices, speeds=SPEEDS)


def test_a_choice_within_five_percent_is_good():
    """One sweep that chose worse is enough to miss it."""
    costs = {GCM128: 4.0, CHACHA: 4.19}
    assert judged(swept(costs, (GCM128, CHACHA)), masked=False)[0][0]
    assert not judged(swept(costs, (GCM128, "aes128-ctr")), masked=False)[0][0]


def test_the_order_is_held_where_it_is_foretold():
    """Pairs that the speeds of their parts do not tell apart count for nothing."""
    good = swept({GCM128: 4.0, CHACHA: 5.0, "aes256-gcm@openssh.com": 7.0}, (GCM128,))
    told, wrong = good.pairs()
    assert (GCM128, "aes128-ctr") in told
    assert (GCM128, CHACHA) not in told
    assert wrong == []
    assert judged(swept({GCM128: 9.0}, (GCM128,)), masked=False)[1][0] is False


def test_without_aes_instructions_chacha_has_to_be_first():
    """That is asked besides."""
    assert judged(swept({CHACHA: 1.0}, (CHACHA,)), masked=True)[2][0]
    assert not judged(swept({GCM128: 1.0}, (GCM128,)), masked=True)[2][0]


def test_each_cipher_of_today_is_swept_with_a_mac_where_it_needs_one():
    """One that `openssl speed` knows."""
    found = {one.cipher: one.mac for one in methods()}
    assert set(found) == set(MODERN)
    assert (found[GCM128], found["aes128-ctr"]) == ("", "hmac-sha2-256")


def test_chacha_is_foretold_by_what_ssh_computes():
    """By OpenSSL's ChaCha20 and a Poly1305 in plain C, and not by what OpenSSL does of both together."""
    speeds = SPEEDS | {"chacha20": 4e9, "poly1305 in C": 0.8e9, CHACHA: 4e9}
    one = Swept(name="x", costs=dict.fromkeys(MODERN, 8.0), choices=(GCM128,), speeds=speeds)
    assert one.foretold(CHACHA) == pytest.approx(2 * (0.25 + 1.25))
    assert one.foretold("aes128-ctr") == pytest.approx(2 * (1 + 1))
    assert one.foretold(GCM128) == pytest.approx(2 * 0.25)


def test_poly1305_in_plain_c_is_right_and_timed():
    """It holds itself against the example of RFC 8439 before it is timed."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler of C is installed")
    assert sweeps._poly1305_bytes_per_s() > 0
