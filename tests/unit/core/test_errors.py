"""What is stored of an error stays what it is: an older journal is read by it, and an alert is set on it."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind, kind_of
from tests.house.raises import error_classes, trees

STORED = (
    *("FlashferryError", "ConfigInvalid", "CodecError", "JournalUnusable"),
    *(
        "DeviceUnreachable",
        "LoginRefused",
        "HostKeyRefused",
        "DeviceRefused",
        "InstallRefused",
        "InstallFailed",
        "OtherDevice",
        "OutputNotUnderstood",
    ),
    *(
        "QuestionLeft",
        "FlashBusy",
        "DialogueDisturbed",
        "FileExists",
        "CopyFailed",
        "NotDelivered",
        "DeviceOverloaded",
    ),
    *("TransferStalled", "ImageCorrupt", "RestoreIncomplete", "Stopped", "CopyStopped", "HashStopped", "Interrupted"),
    *("FtpServerError", "SettingsInvalid", "ServerStartFailed", "ServerGone", "RequestRefused", "TicketUnknown"),
    *("ImageError", "ImageUnknown", "ImageUnreadable", "CatalogueInvalid", "ManifestInvalid"),
    *("CatalogueBusy", "CatalogueFull", "SourceUnreachable", "SourceRefused", "SourceWrong", "SourceChanged"),
    "SyncStopped",
    *("PolicyViolation", "WindowClosed", "TooManyFailed", "LeftOutByPlan", "Forgotten"),
    *("NO_CLIENT", "NO_LOGIN", "WRONG_SOURCE", "NO_DATA", "BROKEN_OFF"),
    *("NightFault", "NoRoom"),
    *("ServiceRefused", "ServiceUnusable", "ApprovalWanted"),
    *("WireError", "UnknownKey", "BrokerUnreachable", "OrderRefused"),
)
"""May grow, and never loses or changes a word."""

WITHOUT_CLASS = {
    *(Kind.POLICY_VIOLATION, Kind.WINDOW_CLOSED, Kind.TOO_MANY_FAILED, Kind.EXCLUDED_BY_PLAN, Kind.FORGOTTEN),
    *(Kind.NO_CLIENT, Kind.NO_LOGIN, Kind.WRONG_SOURCE, Kind.NO_DATA, Kind.BROKEN_OFF),
}
"""Found or decided, never raised."""


def own_kind(one: ast.ClassDef) -> str | None:
    """Return the kind that a class itself states."""
    for line in one.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == "kind":
            assert isinstance(line.value, ast.Attribute)
            return line.value.attr
    return None


def test_the_kinds_that_are_stored_are_these():
    assert tuple(kind.value for kind in Kind) == STORED


def test_every_error_states_a_kind_of_its_own():
    """One that is inherited by accident would have the failure told, counted and retried as another one."""
    kinds = {name: own_kind(one) for name, (_, one) in error_classes().items()}
    assert [name for name, kind in kinds.items() if kind is None] == []
    assert [kind for kind, times in Counter(kinds.values()).items() if times > 1] == []


def test_every_kind_is_that_of_a_class_or_of_none():
    stated = {own_kind(one) for _, one in error_classes().values()}
    assert {kind.name for kind in Kind} - stated == {kind.name for kind in WITHOUT_CLASS}


def test_no_kind_is_written_as_a_word():
    """One beside the enumeration would be a kind that nobody sees, or the name of a class that may change."""
    words = {kind.value for kind in Kind}
    written = [
        f"{name}:{one.lineno}"
        for name, tree in trees().items()
        for one in ast.walk(tree)
        if name not in {"flashferry/core/errors.py", "flashferry/fileserver/__init__.py"}  # the latter names classes
        and ((isinstance(one, ast.Constant) and one.value in words) or (isinstance(one, ast.keyword) and is_name(one)))
    ]
    assert written == []


def is_name(given: ast.keyword) -> bool:
    """Tell whether a class's name is given as a kind."""
    return given.arg == "kind" and "__name__" in ast.dump(given.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FlashferryError("x"), "FlashferryError"),
        (ConfigInvalid("x"), "ConfigInvalid"),
        (ZeroDivisionError("x"), "ZeroDivisionError"),
    ],
)
def test_what_nobody_expected_is_kept_under_its_class(error, kind):
    assert (kind_of(error), type(kind_of(error))) == (kind, str)


def test_an_error_is_told_with_its_place_and_what_to_do():
    error = ConfigInvalid("no image", hint="Give one").at(host="r1", step="check")
    assert str(error) == "r1: check: no image. Give one"
    assert str(error.at(host="r2", step="tune")) == "r1: check: no image. Give one"
    assert str(ConfigInvalid("did you mean 'site'?", hint="Correct the key")) == "did you mean 'site'? Correct the key"
