"""Exit codes, JSON forms and budgets."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import pytest

from flashferry.core.codec import to_json
from flashferry.model.exit_codes import ExitCode, exit_code
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.record import sentence_of
from flashferry.model.states import Outcome, Restored


@pytest.mark.parametrize(
    ("outcomes", "restored", "interrupted", "code"),
    [
        ((), (), False, 0),
        ((Outcome.DONE, Outcome.ALREADY_THERE), (Restored.RESTORED,), False, 0),
        ((Outcome.DONE, Outcome.REFUSED), (), False, 4),
        ((Outcome.REFUSED, Outcome.FAILED), (), False, 3),
        ((Outcome.FAILED, Outcome.ERROR), (), False, 1),
        ((Outcome.INTERRUPTED,), (Restored.RESTORED,), True, 130),
        ((Outcome.DONE,), (Restored.FOREIGN_CHANGE,), False, 5),
        ((Outcome.ERROR,), (Restored.INCOMPLETE,), True, 5),
    ],
)
def test_the_gravest_finding_gives_the_exit_code(outcomes, restored, interrupted, code):
    """A device that is not what it was outweighs every failure, a failure every refusal."""
    assert exit_code(outcomes, restored=restored, interrupted=interrupted) == code


def test_every_exit_code_has_a_meaning():
    """The table of exit codes has no hole."""
    assert all(code.meaning for code in ExitCode)


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Login:
    user: str
    path: Path
    colour: Colour
    password: str = field(repr=False)


def test_json_leaves_out_what_the_representation_hides():
    """A field with repr=False is a secret and never reaches a report."""
    value = Login(user="u", path=Path("/x"), colour=Colour.RED, password="hidden")
    assert json.loads(json.dumps(to_json([value]))) == [{"user": "u", "path": "/x", "colour": "red"}]


def test_json_refuses_what_it_does_not_know():
    """An unknown value is a fault of ours, not a string of its representation (which could hold a secret)."""
    with pytest.raises(TypeError, match="object"):
        to_json(object())


def test_an_unexpected_error_is_told_without_its_text():
    """A library's exception may quote a command with a ticket in it; only kind and place are told."""
    try:
        raise RuntimeError("copy ftp://user:secret@host/x")
    except RuntimeError as error:
        text = sentence_of(error)
    assert "secret" not in text
    assert text.startswith("internal error RuntimeError at test_record_results.py:")


def test_a_cap_on_the_link_is_a_lower_rate_of_payload():
    """50 Mbit/s carry 6.083 MB/s of payload in packets of 1500 bytes; no cap stays no cap."""
    assert payload_cap_bytes_per_s(50e6) == pytest.approx(6_083_333, rel=1e-4)
    assert payload_cap_bytes_per_s(None) is None
