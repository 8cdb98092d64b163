"""Looks and speed tests: what is asked of the rooms below, and what is refused before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashferry.api.checking import ProbeOptions, ServerPlace, check, probe, read_image
from flashferry.core.errors import ConfigInvalid
from flashferry.model.exit_codes import ExitCode
from flashferry.model.states import Outcome

NORNIR: Any = object()


def looked(seen: dict[str, Any], *outcomes: Outcome) -> Any:
    def look(nornir: Any, wanted: Any, *options: Any, **more: Any) -> tuple[Any, ...]:
        seen.update(more, wanted=wanted, options=options)
        return tuple(SimpleNamespace(outcome=one) for one in outcomes)

    return look


@pytest.mark.parametrize(
    ("outcomes", "is_stopped", "code"),
    [
        ((Outcome.DONE, Outcome.ALREADY_THERE), False, ExitCode.OK),
        ((Outcome.DONE, Outcome.REFUSED), False, ExitCode.REFUSED),
        ((Outcome.FAILED, Outcome.REFUSED), False, ExitCode.DEVICES_FAILED),
        ((Outcome.DONE,), True, ExitCode.INTERRUPTED),
    ],
)
def test_a_check_says_what_it_comes_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcomes: tuple[Outcome, ...], is_stopped: bool, code: ExitCode
) -> None:
    """The gravest finding counts, and that the caller stopped it outweighs them."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr("flashferry.api.checking.check_fleet", looked(seen, *outcomes))
    found = check(NORNIR, state=tmp_path, interrupted=lambda: is_stopped)
    assert (found.exit_code, len(found.devices)) == (code, len(outcomes))
    assert (seen["state"], seen["wanted"]) == (tmp_path, None)


def test_an_image_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As a file, or as what was read of one; devices fetch from where our server is said to be."""
    image, seen = tmp_path / "x.bin", {}
    image.write_bytes(b"an image")
    monkeypatch.setattr("flashferry.api.checking.reach_fleet", looked(seen, Outcome.DONE))
    wanted = read_image(image)
    check(NORNIR, wanted, reach=True, server=ServerPlace(address="192.0.2.9", port=2100), state=tmp_path)
    assert seen["wanted"] is wanted
    (options,) = seen["options"]
    assert (options.verb, options.server.address, options.server.port) == ("check", "192.0.2.9", 2100)
    check(NORNIR, str(image), reach=True, state=tmp_path)
    assert seen["wanted"] == wanted
    with pytest.raises(ConfigInvalid, match="published MD5"):
        read_image(image, md5="0" * 32)


def test_a_speed_test_of_nothing_is_refused(tmp_path: Path) -> None:
    """Before a journal is made."""
    with pytest.raises(ConfigInvalid, match="found neither"):
        probe(NORNIR, ProbeOptions(as_is=False, tuned=False), state=tmp_path / "state")
    assert not (tmp_path / "state").exists()
