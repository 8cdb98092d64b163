"""The table of SSH servers: medians with their spread, and what misses its aim said so."""

from typing import Any

import pytest

# No part of what is installed: the tests of the wheel run away from the checkout.
servers = pytest.importorskip("benchmarks.ssh_servers")


def _figures(ours: float, theirs: float) -> list[Any]:
    return [
        servers.Figure(name, " ".join(way), cipher, 1e8 * repeat, cpu * repeat)
        for way, cipher in servers._WAYS
        for name, cpu in (("flashferry", ours), ("sshd", theirs))
        for repeat in (1, 2, 3)
    ]


def test_the_table_has_medians_and_what_is_above_the_aim() -> None:
    """A row for each way, the ratio of medians, and a word where it is more than 1.5."""
    good, bad = (servers.to_markdown(_figures(ours, 1.0), 3, (10**7, 2 * 10**7, 3 * 10**7), "x") for ours in (1.5, 1.6))
    assert (
        "| `scp -O` aes128-ctr | 200 (100-300) | 200 (100-300) | 3.00 (1.50-4.50) | 2.00 (1.00-3.00) | 1.50 |" in good
    )
    assert "above" not in good
    assert bad.count("**above 1.5**") == len(servers._WAYS)
    assert "25 kB of anonymous memory each when logged in, 50 kB each in a slow copy" in good
    assert "sessions of ours" not in servers.to_markdown(_figures(1, 1), 3, None, "x")
