"""An agent's configuration: what it says, and what is said where it is wrong."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.sites import settings
from flashferry.sites.broker_settings import BrokerSettings, check_broker
from flashferry.sites.keys import PrivateKey
from flashferry.sites.settings import TEMPLATE, load_agent_settings, write_agent_template

CENTRE = PrivateKey.make().public.line
GOOD = f"""
site = "ams"
state = "state"
key = "agent.key"
[centre]
keys = ["{CENTRE}"]
[broker]
url = "rediss://broker.example:6380/0"
user = "site-ams"
password_file = "broker.password"
[runs]
inventory = "inventory"
options = ["--keyring"]
[depot]
catalogue = "catalogue"
[source]
url = "https://centre.example:8443"
user = "site-ams"
password_file = "source.password"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    PrivateKey.make().save(tmp_path / "agent.key")
    for name in ("broker.password", "source.password"):
        (tmp_path / name).write_text("verysecret\n")
        (tmp_path / name).chmod(0o600)
    return tmp_path


def written(folder: Path, text: str) -> Path:
    path = folder / "agent.toml"
    path.write_text(text)
    return path


def test_a_whole_configuration_is_read_with_its_paths_from_its_folder(folder: Path) -> None:
    """What is not said has its default."""
    found = load_agent_settings(written(folder, GOOD))
    assert (found.site, found.state, found.catalogue) == ("ams", folder / "state", folder / "catalogue")
    assert [key.line for key in found.centres] == [CENTRE]
    assert found.broker.password_file == folder / "broker.password"
    assert (found.runs.inventory, found.runs.options) == (str(folder / "inventory"), ("--keyring",))
    assert (found.runs.recover_options, found.runs.resumes, found.beat_s) == (None, 3, 15.0)
    assert found.source is not None
    assert found.source.url == "https://centre.example:8443"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('site = "ams"', "", "site"),
        ('site = "ams"', 'site = "a b"', "site"),
        ('site = "ams"', 'site = "ams"\nsecret = "x"', "unknown key"),
        ('="]', '"]', "public key"),
        ('keys = ["THEKEY"]', 'keys = ["THEKEY", "THEKEY"]', "each key once"),
        ('keys = ["THEKEY"]', "keys = []", "at least one"),
        ("rediss://broker", "redis://broker", "expected TLS"),
        ("rediss://broker", "rediss://me:pw@broker", "without user and password"),
        ("rediss://broker", "https://broker", "expected a URL such as rediss"),
        ("https://centre", "http://centre", "begins with https://"),
        ("https://centre", "https://me@centre", "an address such as"),
        ('options = ["--keyring"]', 'options = "--keyring"', "a list of texts"),
        (
            'user = "site-ams"\npassword_file = "broker',
            'certificate = "agent.key"\npassword_file = "broker',
            "together",
        ),
    ],
)
def test_what_is_wrong_is_told_with_file_and_key(folder: Path, old: str, new: str, told: str) -> None:
    """And with what is expected; nothing is begun."""
    old, new = old.replace("THEKEY", CENTRE), new.replace("THEKEY", CENTRE)
    assert old in GOOD
    path = written(folder, GOOD.replace(old, new, 1))
    with pytest.raises(ConfigInvalid) as caught:
        load_agent_settings(path)
    assert str(path) in caught.value.message
    assert told in caught.value.message
    assert "me:pw" not in str(caught.value)


@pytest.mark.parametrize("name", ["agent.key", "broker.password", "source.password"])
def test_a_secret_that_others_may_read_is_refused(folder: Path, name: str) -> None:
    """Whichever it is, it is named."""
    (folder / name).chmod(0o644)
    with pytest.raises(ConfigInvalid, match="its owner alone may read") as caught:
        load_agent_settings(written(folder, GOOD))
    assert name in str(caught.value)


def test_the_template_is_complete_but_for_what_nobody_else_can_know(folder: Path) -> None:
    """Written once, never over another; it asks for the centre's key first."""
    path = folder / "agent.toml"
    assert write_agent_template(path)
    assert not write_agent_template(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigInvalid, match=r"centre\.keys"):
        load_agent_settings(path)
    path.write_text(path.read_text().replace("keys = []", f'keys = ["{CENTRE}"]'))
    assert load_agent_settings(path).site == "SITE"
    assert TEMPLATE.endswith(".toml")


def test_a_broker_without_tls_is_for_loopback_or_where_it_is_said_so() -> None:
    """Elsewhere who is on the way would read the names of devices."""
    check_broker(BrokerSettings(url="redis://127.0.0.1:6379/0"))
    check_broker(BrokerSettings(url="redis://broker.example/0", is_plain_allowed=True))
    with pytest.raises(ConfigInvalid, match="expected TLS"):
        check_broker(BrokerSettings(url="redis://broker.example/0"))


def test_each_key_stands_in_the_documentation_and_in_the_template() -> None:
    """Nobody has to look for one in the code."""
    page = Path(__file__).parents[3] / "docs" / "sites.md"
    if not page.exists():
        pytest.skip("the tests run away from the checkout, without docs")
    manual, template = page.read_text(), files("flashferry.sites").joinpath(TEMPLATE).read_text()
    for keys in (settings.TOP, settings.CENTRE, settings.BROKER, settings.RUNS, settings.DEPOT, settings.SOURCE):
        for key in keys:
            assert f"`{key.name}`" in manual or f"`[{key.name}]`" in manual, key.name
    for key in settings.WORDS:
        assert f"`{key.name}`" in manual
        assert f"# {key.name} = " in template
