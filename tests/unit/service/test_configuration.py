"""The service's configuration: every key checked, the template whole, complaints that name key and line."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.service.configuration import SECTIONS, load_settings, parsed_listen, write_template
from flashferry.service.settings import HookSettings, MailSettings, SecretFrom, ServiceSettings
from tests.some import some

WHOLE = """
[listen]
address = "192.0.2.1"
port = 8443
url = "https://staging.example/"

[sessions]
hours = 4
idle_minutes = 15

[sites]
AMS = "Amsterdam"

[proxy]
networks = ["127.0.0.1/32", "2001:db8::/32"]
user_header = "X-Remote-User"
groups_header = "X-Remote-Groups"
[proxy.roles]
night-shift = ["operator@AMS", "viewer"]

[oidc]
issuer = "https://login.example/realms/staff"
client_id = "flashferry"
secret_command = ["pass", "oidc"]
[oidc.roles]
approvers = ["approver"]

[runs]
inventory = "/etc/inventory"
images = "images"
options = ["--keyring"]
recover_options = []
unit = "flashferry-run@.service"
resumes = 1

[images]
keep_hidden_days = 1

[hooks.operations]
secret_command = ["pass", "hook"]
[hooks.channel]
secret_credential = "channel"

[mail]
host = "mail.example"
sender = "flashferry@staging.example"
user = "flashferry"
secret_credential = "mail"
"""


def written(tmp_path, text):
    path = tmp_path / "service.toml"
    path.write_text(text)
    return path


def test_a_whole_one_is_read(tmp_path):
    """Each key arrives where it belongs."""
    found = load_settings(written(tmp_path, WHOLE))
    assert (found.address, found.port, found.url) == ("192.0.2.1", 8443, "https://staging.example")
    assert (found.session_s, found.idle_s, found.keep_hidden_images_s) == (4 * 3600, 15 * 60, 86400)
    assert found.site_names == {"AMS": "Amsterdam"}
    assert found.proxy.networks == (ip_network("127.0.0.1/32"), ip_network("2001:db8::/32"))
    assert found.proxy.roles == {"night-shift": ("operator@AMS", "viewer")}
    assert found.oidc is not None
    assert (found.oidc.secret_command, found.oidc.roles) == (("pass", "oidc"), {"approvers": ("approver",)})
    assert found.runs.images == tmp_path / "images"
    assert (found.runs.options, found.runs.recover_options, found.runs.resumes) == (("--keyring",), (), 1)
    assert found.hooks == {
        "operations": HookSettings(secret=SecretFrom(command=("pass", "hook"))),
        "channel": HookSettings(secret=SecretFrom(credential="channel")),
    }
    assert found.mail == MailSettings(
        host="mail.example",
        sender="flashferry@staging.example",
        user="flashferry",
        secret=SecretFrom(credential="mail"),
    )


def test_an_empty_one_is_the_defaults(tmp_path):
    """What is not said holds as it is documented."""
    assert load_settings(written(tmp_path, "")) == ServiceSettings()


def test_the_template_is_the_defaults(tmp_path):
    """As it is written everything in it is a comment."""
    path = tmp_path / "service.toml"
    assert write_template(path)
    assert load_settings(path) == ServiceSettings()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_template_is_never_written_over_a_file(tmp_path):
    """Who has one keeps it."""
    path = written(tmp_path, "# mine\n")
    assert not write_template(path)
    assert path.read_text() == "# mine\n"


WRONG = {
    "[listen]\nprot = 1": r"key 'listen': unknown key 'prot'; did you mean 'port' \(line 2\)",
    "[listen]\nport = 70000": r"key 'listen.port': expected a whole number from 0 to 65535, found 70000 \(line 2\)",
    '[listen]\naddress = "localhost"': "key 'listen.address': expected an address",
    '[listen]\nurl = "staging.example"': "key 'listen.url': expected an address such as https",
    '[listen]\nurl = "http://staging.example"': "key 'listen.url': expected an address that begins with https://",
    '[runs]\nunit = "foo.service"': "key 'runs.unit': expected the name of a template, NAME@.service",
    '[runs]\nunit = "foo@a.service"': "key 'runs.unit': expected the name of a template",
    '[listen]\ncertificate = "nope.pem"': "key 'listen.certificate': expected a file that can be read",
    "[sessions]\nhours = 0": "key 'sessions.hours'",
    "[sites]\nAMS = 1": "key 'sites.AMS'",
    '[proxy]\nnetworks = "127.0.0.1"': r"key 'proxy.networks': expected a list .* in brackets",
    '[proxy]\nuser_header = "X-User"': "expected networks beside user_header",
    '[proxy]\nnetworks = ["10.0.0.1/8"]': r"key 'proxy.networks\[0\]'",
    '[proxy]\nuser_header = "X User"\nnetworks = ["127.0.0.1"]': "key 'proxy.user_header'",
    '[oidc]\nissuer = "https://x.example"': "key 'oidc.client_id': expected a text, found none",
    '[oidc.roles]\na = ["king"]\n[oidc]\nissuer = "https://x"\nclient_id = "c"': r"key 'oidc.roles.a\[0\]'",
    '[oidc]\nissuer = "http://x.example"\nclient_id = "c"': "expected an issuer by https",
    '[oidc]\nissuer = "https://x"\nclient_id = "c"\nscopes = ["email"]': "expected the scope openid among scopes",
    "[runs]\nresumes = 3": "key 'runs.resumes'",
    '[runs]\noptions = "--keyring"': "key 'runs.options': expected a list of texts",
    '[hooks.a]\nsecret_command = ["a"]\nsecret_credential = "b"': "found both",
    "[hooks.a]\nsecret_command = []": "expected a program and its arguments",
    '[mail]\nhost = "h"\nsender = "s"\nuser = "u"': "expected user together with",
    '[mail]\nhost = "h"\nsender = "s"\nsecurity = "ssl"': "key 'mail.security'",
    "listen = 1": "key 'listen': expected a mapping",
    "[listen": "not valid TOML",
    "[unknown]": "unknown key.* expected some of listen, sessions",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told(tmp_path, text):
    """In one sentence with key, expectation and finding, and with what to do."""
    with pytest.raises(ConfigInvalid, match=WRONG[text]) as caught:
        load_settings(written(tmp_path, text + "\n"))
    assert caught.value.hint


@pytest.mark.parametrize(
    "url", ["https://staging.example", "http://127.0.0.1:8020", "http://[::1]", "http://localhost"]
)
def test_people_may_reach_loopback_without_tls(tmp_path, url):
    """Nobody is on the way there."""
    assert load_settings(written(tmp_path, f'[listen]\nurl = "{url}"\n')).url == url


def test_a_file_that_is_none_is_told(tmp_path):
    """Absent, a folder, or not text."""
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name in ("absent", ".", "bytes"):
        with pytest.raises(ConfigInvalid):
            load_settings(tmp_path / name)


def test_no_key_takes_a_secret():
    """Whatever is called a secret names where it is to be had."""
    told = ("secret", "password")
    names = {key.name for keys in SECTIONS.values() for key in keys if any(word in key.name for word in told)}
    named = names - {"least_password"}  # how long one is
    assert set(some(named)) == {"secret_command", "secret_credential"}


@pytest.mark.parametrize(
    ("given", "found"),
    [("8020", ("", 8020)), ("192.0.2.1:80", ("192.0.2.1", 80)), ("[::1]:0", ("::1", 0))],
)
def test_where_to_listen_is_understood(given, found):
    """A port, with an address or without."""
    assert parsed_listen(given) == found


@pytest.mark.parametrize("given", ["", "x", "host:80", "127.0.0.1", "1:65536", "127.0.0.1:-1"])
def test_where_to_listen_is_refused(given):
    """What is no port, or no address."""
    with pytest.raises(ConfigInvalid, match="expected"):
        parsed_listen(given)
