"""Hooks made, changed, tried and removed: by API and by pages, each change in the audit, no secret anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flashferry.core.redaction import forget_secrets
from flashferry.service.hooks.managing import HookForm
from flashferry.service.hooks.sending import Delivery
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.settings import HookSettings, MailSettings, SecretFrom, ServiceSettings
from flashferry.store.service.database import moment
from flashferry.store.service.hooks import due, hooks
from tests.served import serve
from tests.unit.service.hooks.receivers import web_receiver

SECRET = "kX81hsB2mq0"
HOOK = {"name": "ops", "form": "webhook", "target": "https://ops.example/in", "kinds": ["run.ended"]}
HOSTILE = "<script>alert(1)</script>\u202e"


@pytest.fixture
def served(tmp_path):
    made = serve(
        tmp_path,
        ServiceSettings(
            hooks={
                "signing": HookSettings(secret=SecretFrom(command=("printf", SECRET))),
                "log": HookSettings(ca=Path("/ca.pem")),
            },
            mail=MailSettings(host="127.0.0.1", port=9, sender="f@example"),
        ),
    )
    made.person("root", "admin")
    yield made
    forget_secrets()


def called(served, method, path="", json=None):
    return served.call(method, f"/api/v1/hooks{path}", served.token("root"), json=json)


def made(served, **more):
    answer = called(served, "POST", json=HOOK | more)
    assert answer.status_code == 201, answer.text
    return answer.json()["hook_id"]


def test_a_hook_is_made_and_read(served):
    """Where it is, and what the audit says."""
    answer = called(served, "POST", json=HOOK | {"secret_name": "signing"})
    hook_id = answer.json()["hook_id"]
    assert (answer.status_code, answer.headers["location"]) == (201, f"/api/v1/hooks/{hook_id}")
    found = called(served, "GET", f"/{hook_id}").json()
    assert found == HOOK | {
        "hook_id": hook_id,
        "secret_name": "signing",
        "sites": [],
        "is_paused": False,
        "notices": [],
    }
    assert [one["given_up"] for one in called(served, "GET").json()["hooks"]] == [0]
    entry = served.audit()[-1]
    assert (entry.action, entry.actor, entry.object, entry.outcome) == ("hook.made", "root", "hook:ops", "done")


WRONG = {
    "no name": ({"name": " "}, 422, "name: expected 1 to 60"),
    "a name in two lines": ({"name": "a\nb"}, 422, "name: expected"),
    "a form that is none": ({"form": "fax"}, 422, "form"),
    "no kinds": ({"kinds": []}, 422, "kinds: expected some of"),
    "a kind that is none": ({"kinds": ["run.lost"]}, 422, "kinds: expected some of"),
    "the test": ({"kinds": ["hook.test"]}, 422, "kinds: expected some of"),
    "the audit by mail": ({"form": "mail", "target": "a@b", "kinds": ["audit.entry"]}, 422, "a webhook or syslog"),
    "another scheme": ({"target": "file:///etc/passwd"}, 422, "target: expected http"),
    "a port that is none": ({"target": "https://hooks.example:99999/x"}, 422, "target: expected http"),
    "port 0": ({"target": "https://hooks.example:0/x"}, 422, "target: expected http"),
    "a host that is no address": ({"target": "https://[::g]/x"}, 422, "target: expected http"),
    "a port of syslog that is none": ({"form": "syslog", "target": "udp://log.example:99999"}, 422, "target: expected"),
    "a login": ({"target": "https://u:p@ops.example"}, 422, "no login"),
    "a secret that is not there": ({"secret_name": "none"}, 422, r"[hooks.NAME] of the configuration (log, signing)"),
    "slack without its address": ({"form": "slack", "target": "#a"}, 422, "an address that is a secret"),
    "slack's address": (
        {"form": "slack", "target": "https://hooks.slack.com/x", "secret_name": "signing"},
        422,
        "found an address, which is a secret",
    ),
    "syslog nowhere": ({"form": "syslog", "target": "log.example"}, 422, "target: expected an address of syslog"),
    "syslog with a secret": ({"form": "syslog", "target": "udp://a", "secret_name": "signing"}, 422, "takes none"),
    "mail to nobody": ({"form": "mail", "target": "anna"}, 422, "expected mail addresses"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_will_not_do_is_refused(served, case):
    """In one sentence with what to do, and nothing is there afterwards."""
    more, status, sentence = WRONG[case]
    answer = called(served, "POST", json=HOOK | more)
    assert answer.status_code == status
    assert sentence in answer.json()["detail"]
    assert answer.json()["hint"]
    assert called(served, "GET").json()["hooks"] == []


def test_refusals_are_in_the_audit(served):
    """Of names that are taken, too."""
    made(served)
    assert called(served, "POST", json=HOOK).status_code == 409
    entry = served.audit()[-1]
    assert (entry.action, entry.outcome) == ("hook.made", "refused")


def test_a_hook_is_changed_and_removed(served):
    """With what was there before in the audit; what waits for it goes with it."""
    hook_id = made(served)
    other = HOOK | {"target": "https://other.example/", "kinds": ["run.ended", "run.dead"], "is_paused": True}
    assert called(served, "PUT", f"/{hook_id}", json=other).json()["is_paused"] is True
    entry = served.audit()[-1]
    assert json.loads(entry.before)["target"] == HOOK["target"]
    assert json.loads(entry.after)["target"] == "https://other.example/"
    assert called(served, "DELETE", f"/{hook_id}").status_code == 204
    assert called(served, "GET", f"/{hook_id}").status_code == 404
    assert served.audit()[-1].action == "hook.removed"


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/test")])
def test_a_hook_that_is_not_there(served, method, path):
    """404, with where they are listed."""
    answer = called(served, method, f"/none{path}", json=HOOK if method == "PUT" else None)
    assert answer.status_code == 404
    assert answer.json()["hint"] == "See the list of hooks"


def test_a_hook_is_tried(served):
    """At once, signed, whatever kinds it is sent; a failure is told and in the audit."""
    with web_receiver() as receiver:
        hook_id = made(served, target=receiver.url, secret_name="signing")
        assert called(served, "POST", f"/{hook_id}/test").json()["is_taken"] is True
        receiver.answers = [(500, {})]
        answer = called(served, "POST", f"/{hook_id}/test").json()
    assert answer == {
        "is_taken": False,
        "sentence": "expected an answer of 200 to 299, found 500",
        "answer": "500, without a body",
    }
    assert json.loads(receiver.came[0][2])["kind"] == "hook.test"
    assert "x-flashferry-signature" in receiver.came[0][1]
    assert [one.outcome for one in served.audit()[-2:]] == ["done", "failed"]


def test_a_test_shows_what_the_receiver_answered(served):
    """Status and the first 200 characters, in the API and on the page; no secret, no markup, no second line."""
    with web_receiver() as receiver:
        hook_id = made(served, target=receiver.url, secret_name="signing")
        receiver.answers = [(400, {}), (200, {})]
        receiver.body = f"<b>no</b> such\nchannel\x1b[31m, {SECRET} ".encode() + b"x" * 10_000
        answer = called(served, "POST", f"/{hook_id}/test").json()["answer"]
        assert answer.startswith("400: <b>no</b> such channel")
        assert "\x1b" not in answer
        assert SECRET not in answer
        assert len(answer) <= len("400: ") + 200
        page = served.call("GET", f"/admin/hooks/{hook_id}", served.browser("root")).text
        assert "It answered 400: &lt;b&gt;no&lt;/b&gt; such channel" in page
        assert called(served, "POST", f"/{hook_id}/test").json()["answer"].startswith("200: ")


def test_a_secret_address_is_masked_in_the_answer_of_its_receiver(tmp_path):
    """Error pages repeat the path."""
    path = "/services/T0000/B0000/kX81hsB2mq0"
    with web_receiver() as receiver:
        receiver.answers, receiver.body = [(404, {})], f"no route for {path}".encode()
        secret = HookSettings(secret=SecretFrom(command=("printf", receiver.url + path)))
        chatty = serve(tmp_path, ServiceSettings(hooks={"chat": secret}))
        chatty.person("root", "admin")
        hook_id = made(chatty, form="slack", target="#night", secret_name="chat")
        answer = called(chatty, "POST", f"/{hook_id}/test").json()["answer"]
    forget_secrets()
    assert answer.startswith("404: no route for ")
    assert "T0000" not in answer


def test_an_answer_that_never_ends_is_no_failure(served):
    """What counts is the status; what came of the body is shown."""
    with web_receiver() as receiver:
        hook_id = made(served, target=receiver.url)
        receiver.answers = [(200, {"Content-Length": "100"})]
        receiver.body = b"half"
        assert called(served, "POST", f"/{hook_id}/test").json() == {
            "is_taken": True,
            "sentence": "the receiver took it",
            "answer": "200: half",
        }


def test_one_that_begins_to_follow_the_audit_is_sent_what_comes(served):
    """Not what was before; that is exported."""
    hook_id = made(served)
    wish = HOOK | {"kinds": ["audit.entry"]}
    called(served, "PUT", f"/{hook_id}", json=wish)
    with served.service.database.reading() as database:
        (hook,) = hooks(database)
    assert hook.audit_seq == 1, "from the entry on that tells of the change"


def test_what_was_given_up_is_shown_and_sent_again(served):
    """As a dead letter with its trouble, until somebody has it tried once more."""
    with web_receiver() as receiver:
        receiver.answers = [(410, {})]
        hook_id = made(served, target=receiver.url)
        with served.service.database.writing() as database:
            announce(served.service, database, NoticeKind.RUN_ENDED, "run:1", HOSTILE)
        Delivery()(served.service)
        (notice,) = called(served, "GET", f"/{hook_id}").json()["notices"]
        assert (notice["state"], notice["attempts"]) == ("given up", 1)
        assert notice["trouble"] == "expected an answer of 200 to 299, found 410"
        page = served.call("GET", f"/admin/hooks/{hook_id}", served.browser("root")).text
        assert "given up" in page
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page
        assert called(served, "POST", f"/{hook_id}/again").json() == {"notices": 1}
    with served.service.database.reading() as database:
        now = moment(served.clock())
        assert len(due(database, now, latest="9999", most=9)) == 1


def test_by_pages(served):
    """Made, changed, paused, tried, gone on with and removed by forms."""
    browser = served.browser("root")

    def sent(path, **form):
        answer = served.call("POST", f"/admin/hooks{path}", browser, form=form)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    where = sent("", name="ops", form="webhook", target="http://127.0.0.1:9/", kinds="run.ended")
    path = where.removeprefix("/admin/hooks")
    page = served.call("GET", where, browser)
    assert page.status_code == 200
    assert all(f'value="{form}"' in page.text for form in HookForm)
    sent(path, name="ops2", form="syslog", target="udp://127.0.0.1:9", kinds="audit.head")
    sent(f"{path}/pause")
    assert "paused" in served.call("GET", "/admin/hooks", browser).text
    assert served.view(where, browser)["hook"]["is_paused"] is True
    sent(path, name="ops3", form="syslog", target="unix:///nowhere", kinds="audit.head")
    assert served.view(where, browser)["hook"]["is_paused"] is True, "a change leaves it so"
    sent(f"{path}/continue")
    tested = sent(f"{path}/test")
    shown = served.call("GET", tested, browser).text
    assert "did not accept the notice: syslog at unix:///nowhere: No such file or directory" in shown
    assert "Test by root" in shown
    sent(f"{path}/again")
    assert sent(f"{path}/remove") == "/admin/hooks"
    assert "no one is notified" in served.call("GET", "/admin/hooks", browser).text


def test_health_is_shown(served):
    """What the service looks at, and its threads."""
    page = served.call("GET", "/admin/health", served.browser("root"))
    assert page.status_code == 200
    assert "Background tasks" in page.text
    assert served.view("/admin/health", served.browser("root"))["checks"]["journal"] is True


def test_no_secret_is_anywhere(served):
    """Neither in the tables nor in an answer nor in the audit."""
    with web_receiver() as receiver:
        hook_id = made(served, target=receiver.url, secret_name="signing")
        called(served, "POST", f"/{hook_id}/test")
    said = called(served, "GET").text + called(served, "GET", f"/{hook_id}").text + str(served.audit())
    files = b"".join(path.read_bytes() for path in served.service.state.iterdir())
    assert SECRET not in said
    assert SECRET.encode() not in files


def test_a_hook_is_limited_to_sites(served):
    """By API and by form; what touches others it is not sent, what touches nobody knows which it is."""
    hook_id = made(served, sites=["AMS", "AMS", " LIM "])
    assert called(served, "GET", f"/{hook_id}").json()["sites"] == ["AMS", "LIM"]
    who = served.browser("root")
    page = served.call("GET", f"/admin/hooks/{hook_id}", who).text
    assert 'value="AMS, LIM"' in page
    about = (NoticeKind.RUN_ENDED, "run:1", "x")
    with served.service.database.writing() as database:
        each = (("GVA",), ("GVA", "LIM"), (), ("",))
        told = [announce(served.service, database, *about, sites=sites) for sites in each]
    assert told == [0, 1, 1, 0]
    form = {"name": "ops", "form": "webhook", "target": "https://ops.example/in", "kinds": "run.ended", "sites": "GVA,"}
    assert served.call("POST", f"/admin/hooks/{hook_id}", who, form=form).status_code == 303
    assert served.call("POST", f"/admin/hooks/{hook_id}/pause", who, form={}).status_code == 303
    assert called(served, "GET", f"/{hook_id}").json()["sites"] == ["GVA"]


@pytest.mark.parametrize(
    "more",
    [
        {"sites": ["*"]},
        {"sites": [""]},
        {"sites": ["a\nb"]},
        {"sites": ["x" * 61]},
        {"sites": [str(number) for number in range(201)]},
        {"sites": ["AMS"], "kinds": ["run.ended", "audit.entry"]},
        {"sites": ["AMS"], "kinds": ["login.emergency"]},
        {"form": "syslog", "target": "tcp://log.example", "secret_name": "log"},
        {"form": "syslog", "target": "tls://log.example", "secret_name": "signing"},
    ],
)
def test_sites_and_sections_that_will_not_do_are_refused(served, more):
    """With what to do, and nothing is made."""
    answer = called(served, "POST", json=HOOK | more)
    assert (answer.status_code, bool(answer.json()["hint"])) == (422, True)
    assert called(served, "GET").json()["hooks"] == []


def test_syslog_by_tls_names_whom_it_trusts(served):
    """Or nobody: then whom the system trusts."""
    made(served, form="syslog", target="tls://log.example", secret_name="log")
    made(served, name="other", form="syslog", target="tls://log.example:1234")
