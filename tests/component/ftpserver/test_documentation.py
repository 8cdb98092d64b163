"""What docs/server.md claims is there."""

import re
from pathlib import Path

import pytest

from flashferry.core.values import field_names
from flashferry.fileserver import Limits, SenderProfile, ServerEvent, TransferProgress, TransferRecord

_ROOT = Path(__file__).parents[3]
_TEXT = (_ROOT / "docs" / "server.md").read_text(encoding="utf-8")
SECURITY_TESTS = {
    "bounce, PORT abuse (RFC 2577)": "test_the_server_connects_to_nobody_but_its_client",
    "theft of passive data": "test_a_foreign_data_connection_gets_nothing",
    "traversal, symbolic links": "test_names_are_looked_up_never_resolved",
    "memory errors, parser": "test_no_command_without_a_ticket_does_harm",
    "exhaustion, slow clients": "test_login_has_a_deadline",
    "a right login refused while images are hashed": "test_a_client_waits_until_the_images_are_hashed",
    "a process that hangs": "test_a_process_that_hangs_is_reported_and_when_it_answers_again",
    "guessing, probing for users": "test_wrong_credentials_read_the_same_for_all",
    "clear-text credentials": "test_a_delivered_ticket_is_worthless",
    "STARTTLS injection": "test_there_is_no_tls_to_inject_into",
    "integrity": "test_a_ticket_fetches_its_image",
    "version disclosure, writing": "test_the_banner_tells_nothing",
    "SSH: running, forwarding, writing": "test_nothing_else_is_served",
    "SSH: logins": "test_a_ticket_for_something_else_is_refused",
    "SSH: weak algorithms": "test_nothing_old_is_offered_to_whom_no_ticket_says_so",
    "SSH: host keys stolen or lost": "test_keys_are_made_once_and_kept",
    "SSH: parsers": "test_no_exec_does_harm",
    "HTTP: slowloris, endless handshakes": "test_a_head_that_comes_drop_by_drop_is_ended",
    "HTTP: floods of headers, connections": "test_a_head_out_of_bounds_is_refused",
    "HTTP: tricks with paths": "test_no_path_leads_anywhere",
    "HTTP: smuggling, pipelining": "test_a_body_is_refused",
    "HTTP: methods that write or echo": "test_nothing_but_get_and_head",
    "HTTP: guessing, probing": "test_wrong_credentials_are_all_alike",
    "HTTP: replay of Basic": "test_a_replayed_login_is_worth_nothing_behind_its_delivery",
    "HTTP: parser": "test_anything_is_answered_or_waited_for",
    "HTTPS: downgrade": "test_https_never_speaks_clear_text",
    "HTTPS: wrong certificate, open key": "test_another_name_is_refused",
    "HTTP: parts of two images mixed": "test_another_content_begins_anew",
}
"""Threats of the page's security table, each with one of the tests that hold its control."""
VERDICT_TESTS = (
    "test_the_cause_that_was_set_is_the_one_named",
    "test_no_readings_make_a_link_full_below_80_percent_of_its_known_rate",
)


def test_every_threat_has_a_test_that_exists() -> None:
    """No row of the table rests on a test that was renamed or dropped; what is said of verdicts neither."""
    section = _TEXT.partition("## Security")[2]
    threats = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", section, re.MULTILINE)
    assert [threat for threat in threats if threat != "threat"] == list(SECURITY_TESTS)
    named = {*SECURITY_TESTS.values(), *VERDICT_TESTS}
    defined = {
        name
        for path in (_ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert named - defined == set()


@pytest.mark.parametrize("kind", [TransferRecord, TransferProgress, ServerEvent, Limits, SenderProfile])
def test_every_field_is_explained(kind: type) -> None:
    """Fields of the JSON lines and of the settings all stand in the document."""
    assert [name for name in field_names(kind) if f"`{name}`" not in _TEXT] == []
