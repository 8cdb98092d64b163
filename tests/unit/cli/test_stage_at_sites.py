"""`flashferry stage --sites`: what it takes beside a plan, which is nothing that a plan says."""

from __future__ import annotations

import sys

import pytest

from flashferry.cli.main import main


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--image", "x.bin"), "no plan"),
        (("--plan", "p.json", "--dry-run"), "a dry run"),
        (("--plan", "p.json", "--host", "r1"), "more about devices, images, waves or tuning"),
        (("--plan", "p.json", "--wave-size", "3"), "more about devices, images, waves or tuning"),
        (("--plan", "p.json", "--no-tune"), "more about devices, images, waves or tuning"),
        (("--plan", "p.json", "--retries", "1"), "more about devices, images, waves or tuning"),
    ],
)
def test_what_a_plan_says_is_not_said_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], found: str
) -> None:
    """Refused before a file is read, with what was expected and what was found."""
    monkeypatch.setattr(sys, "argv", ["flashferry", "stage", *words, "--sites", "sites.toml"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert f"--sites: expected --plan FILE with it and nothing else that a plan says, found {found}" in (
        capsys.readouterr().err
    )


def test_nothing_is_left_out_where_nothing_is_given_to_sites(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From here other options choose devices: the one is not taken for another."""
    monkeypatch.setattr(sys, "argv", ["flashferry", "stage", "--plan", "p.json", "--leave-out", "lim"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert "--leave-out: expected --sites FILE with it, found none" in told
    assert "--host, --group and --filter choose" in told
