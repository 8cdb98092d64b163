"""What devices show and ask when they copy by each protocol: what is typed, and what is made of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.devices.platforms.platform import CopyQuestion
from flashferry.transports import TRANSPORTS, transport_named
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.transport import Offer
from tests.unit.transports.talking import answer_to

CAPTURES = Path(__file__).parents[2] / "captures"
IMAGE = "image-universalk9.SPA.bin"
USER, PASSWORD = "q7Zk2mXw", "Gf4tR9bLs0Vn8cJd"
SYSLOG = "*Sep 13 09:24:43.803: %SYS-5-CONFIG_I: Configured from console"
FINGERPRINT = "SHA256:uNiVztksCsDhcc0u9e8BrYEXAMPLEkey0000000000"

FILES = [path for one in TRANSPORTS[1:] for path in sorted((CAPTURES / f"copy_{one.name}").glob("*.txt"))]


def dialogue(name: str = "scp", *, target: str = f"flash:{IMAGE}", **changes: object) -> CopyDialogue:
    transport = transport_named(name)
    offer = {
        "server": "192.0.2.10",
        "port": transport.ports.well_known,
        "image": IMAGE,
        "username": USER,
        "password": PASSWORD,
    }
    return CopyDialogue(
        prompt_pattern=r"(?m)^r1[^\s#>]{0,20}#\s*$",
        offer=Offer(transport=transport, **(offer | changes)),
        target=target,
        platform=IOS_XE,
    )


def protocol_of(path: Path) -> str:
    return path.parent.name.removeprefix("copy_")


def expected(path: Path) -> dict[str, object]:
    return json.loads(path.with_suffix(".expected.json").read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_outcome_of_every_text(path):
    """Only the line that counts the bytes is success; an error is ours where it names our source or target."""
    wanted, talk = expected(path), dialogue(protocol_of(path))
    typed = [answer for sign in path.read_text().replace("\n", "\r\n") if (answer := answer_to(talk, sign))]
    talk.take("r1#")
    assert talk.is_over
    found = talk.outcome()
    assert (found.result.size_bytes if found.result else None) == wanted["bytes"]
    assert found.error == wanted["error"]
    assert (found.no_match.what if found.no_match else None) == wanted["no_match"]
    assert (found.refused is not None and found.refused.finds_file) == wanted["overwrite_prompt"]
    assert typed.count(f"{PASSWORD}\n") == path.read_text().count("Password:")
    assert PASSWORD not in talk.transcript + repr(found)
    assert USER not in talk.transcript


def test_every_text_says_where_it_is_from():
    """What no device was seen to print must not pass for what one did."""
    kinds = Counter(str(expected(path)["text_is"]) for path in FILES)
    assert set(kinds) == {"real", "third party", "assembled", "unknown"}
    assert all(expected(path)["source"] for path in FILES)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Address or name of remote host [192.0.2.10]? ", "\n"),
        (f"Source username [{USER}]? ", "\n"),
        (f"Source filename [/{IMAGE}]? ", "\n"),
        (f"Source filename [{IMAGE}]? ", "\n"),
        ("Password: ", f"{PASSWORD}\n"),
        ("Password:", f"{PASSWORD}\n"),
    ],
)
@pytest.mark.parametrize("name", ["scp", "sftp"])
def test_what_the_url_has_is_confirmed(name, question, answer):
    """Once each, byte by byte as it comes; the password is typed where it is asked for and nowhere else."""
    talk = dialogue(name)
    assert [typed for sign in f"\r\n{question}" if (typed := answer_to(talk, sign))] == [answer]
    assert answer_to(talk, f"\r\n{question}") is None


@pytest.mark.parametrize("name", ["ftp", "http", "https"])
@pytest.mark.parametrize(
    "question",
    [
        "Address or name of remote host [192.0.2.10]? ",
        f"Source filename [/{IMAGE}]? ",
        f"Source filename [{IMAGE}]? ",
    ],
)
def test_what_the_url_has_is_confirmed_once_by_any_protocol(name, question):
    """Some releases ask although the URL has it: Enter, where they show what we sent."""
    talk = dialogue(name)
    assert [typed for sign in f"\r\n{question}" if (typed := answer_to(talk, sign))] == ["\n"]
    assert answer_to(talk, f"\r\n{question}") is None


def test_a_copy_that_asks_for_all_goes_through():
    """Server, file and target in turn, each once, and nothing of the ticket in the transcript."""
    talk = dialogue("ftp")
    asked = (
        "Address or name of remote host [192.0.2.10]? ",
        f"Source filename [{IMAGE}]? ",
        f"Destination filename [{IMAGE}]? ",
    )
    typed = [answer_to(talk, f"\r\n{question}") for question in asked]
    talk.take("\r\n4 bytes copied in 3.444 secs (1 bytes/sec)\r\nr1#")
    assert typed == ["\n"] * 3
    assert talk.is_over
    assert talk.outcome().result is not None


@pytest.mark.parametrize("name", ["scp", "ftp", "http", "https"])
@pytest.mark.parametrize(
    "question",
    [
        "Address or name of remote host [192.0.2.99]? ",
        "Address or name of remote host []? ",
        "Source username [admin]? ",
        "Source filename [/etc/shadow]? ",
        "Source filename []? ",
    ],
)
def test_what_is_not_ours_is_never_confirmed(name, question):
    """Enter would fetch from elsewhere, or as another user; the sentence says what was expected, without the user."""
    talk = dialogue(name)
    assert answer_to(talk, f"\r\n{question}") is None
    is_known = name == "scp" or "username" not in question
    assert ("which the command gave" if is_known else "which we have no answer for") in str(talk.stuck_at)
    assert USER not in str(talk.stuck_at)


@pytest.mark.parametrize("name", ["ftp", "http", "https"])
def test_no_password_is_typed_where_the_url_has_it(name):
    """A prompt of anything else on the line would be told it; the wait ends as at any unknown question."""
    talk = dialogue(name)
    assert answer_to(talk, "\r\nPassword: ") is None
    assert "which we have no answer for" in str(talk.stuck_at)


@pytest.mark.parametrize("cover", [f"\r\n{SYSLOG}\r\n", "\r\n*** Message from tty0 to all terminals:\r\nlunch\r\n"])
def test_a_password_prompt_that_something_stands_behind_gets_nothing(cover):
    """The key would go to whatever is asked now; drawn again, it is answered."""
    talk = dialogue()
    assert answer_to(talk, f"Password: {cover}") is None
    assert talk.is_disturbed
    assert answer_to(talk, "Password: ") == f"{PASSWORD}\n"


@pytest.mark.parametrize(
    "again", ["\r\nPassword: ", "\r\n% Authentication failed\r\nPassword: ", f"\r\n{SYSLOG}\r\nPassword: "]
)
def test_asked_for_the_password_twice_it_was_refused(again):
    """A second time nothing is typed, whatever the cause, and the reason is told."""
    talk = dialogue()
    assert answer_to(talk, "Password: ") == f"{PASSWORD}\n"
    assert (talk.is_login_refused, talk.stuck_at) == (False, None)
    assert answer_to(talk, again) is None
    assert talk.is_login_refused
    assert "typed only once" in str(talk.stuck_at)


@pytest.mark.parametrize(
    "other", ["Enter passphrase: ", "New password: ", "admin@192.0.2.10's password: ", "Username: "]
)
def test_another_question_for_a_secret_is_not_answered(other):
    """Only the words that were seen are known; the wait ends with the question quoted."""
    talk = dialogue()
    assert answer_to(talk, f"\r\n{other}") is None
    assert "which we have no answer for" in str(talk.stuck_at)


HOST_KEY = "Are you sure you want to continue connecting (yes/no)? "


@pytest.mark.parametrize("question", [HOST_KEY, "Are you sure you want to continue connecting? [yes/no]: "])
def test_a_host_key_is_confirmed_by_its_fingerprint(question):
    """Ours, shown behind the command, also where the terminal wrapped it; the question's whole text is unknown."""
    shown = f"\r\nRSA key fingerprint is {FINGERPRINT[:20]}\r\n{FINGERPRINT[20:]}.\r\n{question}"
    assert answer_to(dialogue(fingerprints=(FINGERPRINT,)), shown) == "yes\n"


MD5 = "1f:5d:c2:00:aa:9b:31:77:e0:4c:52:8e:bd:6a:f9:03"


@pytest.mark.parametrize("shown", [MD5, MD5.upper(), MD5.replace(":", ""), f"MD5:{MD5}", MD5.replace(":", "").upper()])
@pytest.mark.parametrize("known", [MD5, MD5.replace(":", "").upper()])
def test_the_older_fingerprint_counts_in_any_spelling(known, shown):
    """Digits of MD5, in pairs or not, in small letters or capitals; another one does not."""
    text = f"\r\nHost key fingerprint is {shown}\r\n{HOST_KEY}"
    assert answer_to(dialogue(fingerprints=(known,)), text) == "yes\n"
    assert answer_to(dialogue(fingerprints=(known.replace("5", "6"),)), text) is None


@pytest.mark.parametrize("known", [(), (FINGERPRINT.replace("u", "v"),), ("",)])
def test_another_servers_key_is_never_confirmed(known):
    """Nor one that nobody can compare: the ticket's password would be told to whoever answers."""
    talk = dialogue(fingerprints=known)
    assert answer_to(talk, f"\r\nRSA key fingerprint is {FINGERPRINT}.\r\n{HOST_KEY}") is None
    assert "the fingerprint of a key of our server" in str(talk.stuck_at)


@pytest.mark.parametrize(
    ("name", "subject", "is_ours"),
    [
        ("scp", f"scp://*:*@192.0.2.10/{IMAGE}", True),
        ("scp", f"scp://*:*@192.0.2.10//{IMAGE}", True),
        ("scp", f"scp://*:*@192.0.2.10:2222/{IMAGE}", True),
        ("scp", f"scp://192.0.2.10/{IMAGE}", True),
        ("scp", f"ftp://*:*@192.0.2.10/{IMAGE}", False),
        ("scp", f"scp://*:*@192.0.2.99/{IMAGE}", False),
        ("http", "http://*:*@192.0.2.10/startup-config.cfg", False),
        ("https", f"https://*:*@192.0.2.10/{IMAGE}", True),
        ("https", f"http://*:*@192.0.2.10/{IMAGE}", False),
        ("sftp", f"bootflash:/{IMAGE}", True),
    ],
)
def test_whose_error_it_is(name, subject, is_ours):
    """Ours names our source, masked, with or without the port, or our target; others' jobs name theirs."""
    talk = dialogue(name, port=2222) if ":2222" in subject else dialogue(name)
    talk.take(f"%Error opening {subject} (I/O error)\r\nr1#")
    assert (talk.outcome().error == "I/O error") is is_ours


def test_a_copy_that_went_well_has_no_error():
    """Whatever a log line beside it says of somebody else's session."""
    talk = dialogue()
    talk.take(
        "\r\n*Mar 3 09:11:02.431: %SSH-3-NO_MATCH: No matching cipher found: client 3des-cbc server aes128-ctr\r\n"
    )
    talk.take("[Connection to 192.0.2.77 aborted: error status 0]\r\n4 bytes copied in 3.444 secs (1 bytes/sec)\r\nr1#")
    found = talk.outcome()
    assert (found.error, found.no_match) == (None, None)
    assert found.result is not None


def test_no_answer_to_a_transports_question_destroys_anything():
    """Enter goes where something is offered, the password where it is wanted, and yes to our own key."""
    for question in {one for transport in TRANSPORTS for one in transport.questions}:
        assert isinstance(question, CopyQuestion)
        assert question.wants_password or question.offers is not None, question.name
        assert not question.ends_copy
        assert question.answer in {"", "\n", "yes\n"}, question.name
