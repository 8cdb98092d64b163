"""Settings that a form of the service has, and what options of the command line are called on its pages."""

from __future__ import annotations

import pytest

from flashferry.model.policy import settings
from flashferry.reports.words import as_fields
from flashferry.service.chosen import AT_THE_START, WITH_THE_PLAN, form_rows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("neither by --until nor by windows", 'neither by "Window" nor by windows'),
        ("all side by side (--wave-by all)", 'all side by side (the admin\'s setting "Waves by": all)'),
        ("4 at once (--max-hashes 4)", '4 at once (the admin\'s setting "Hashes at once": 4)'),
        ("--add asks it, too", '"Add the image (install add)" asks it, too'),
        ("--no-dead-man", '"Dead man (EEM applet)": no'),
        ("not allowed (--remove-partial)", 'not allowed (the admin\'s setting "Remove partial")'),
        ("its folder, with --image-dir.", 'its folder, with "Image".'),
        ("run 'flashferry recover --forget r1'", "run 'flashferry recover --forget r1'"),
        ("no --option of ours", "no --option of ours"),
        ("window: expected two times, found '--until 22:00'", "window: expected two times, found '--until 22:00'"),
        ('title: found "it\'s --add"', 'title: found "it\'s --add"'),
        (
            "the devices' limit, --max-hashes 4, isn't",
            "the devices' limit, the admin's setting \"Hashes at once\": 4, isn't",
        ),
    ],
)
def test_a_page_names_fields_and_no_options(text, expected):
    """By their labels. What is in quotes stays: a command, which has no page, or what a person typed."""
    assert as_fields(text) == expected


def test_no_setting_is_called_by_its_option_on_a_page():
    """Whether a form has it or an admin sets it; forms explain theirs without options, too."""
    for one in settings().values():
        assert "--" not in as_fields(f"{one.on} {one.off}"), one.name
    assert not [row for row in (*form_rows(WITH_THE_PLAN), *form_rows(AT_THE_START)) if "--" in str(row["help"])]
