"""The file of sites whose depots may fetch: each mistake is a sentence, and no password is in it."""

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.offering.publishing import load_mirrors
from flashferry.model.link_rates import payload_cap_bytes_per_s

WORD = "s3cret-word-of-ours"
GOOD = f'[sites.branch]\nuser = "branch"\npassword = "{WORD}"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "mirrors.toml"
    path.touch(mode=0o600)
    return path


def test_a_site_has_a_login_and_a_cap(path: Path) -> None:
    """Its name is the site's, by which devices and depot share the cap: four fifths of the link unless it says more."""
    path.write_text(GOOD + 'allow = ["10.1.0.0/24"]\nlink_mbps = 10\n')
    mirror, login = load_mirrors(path)["branch"]
    assert (login.username, login.site, login.source_addresses) == ("branch", "branch", ("10.1.0.0/24",))
    assert mirror.cap_bytes_per_s == payload_cap_bytes_per_s(8e6)
    assert mirror.cap_source == "80% of 10 Mbit/s, of the file of mirrors"
    assert login.link_bytes_per_s == payload_cap_bytes_per_s(10e6)


def test_a_cap_may_be_said_itself(path: Path) -> None:
    """Or none."""
    path.write_text(GOOD + "cap_mbps = 3\n")
    assert load_mirrors(path)["branch"][0].cap_bytes_per_s == payload_cap_bytes_per_s(3e6)
    path.write_text(GOOD)
    assert load_mirrors(path)["branch"][0].cap_bytes_per_s is None


def test_a_password_may_be_in_a_file_of_its_own(path: Path, tmp_path: Path) -> None:
    """Which others cannot read either."""
    secret = tmp_path / "branch.password"
    secret.touch(mode=0o600)
    secret.write_text(f"{WORD}\n")
    path.write_text(f'[sites.branch]\nuser = "branch"\npassword_file = "{secret}"\n')
    assert load_mirrors(path)["branch"][1].password == WORD
    secret.chmod(0o644)
    told = f"--mirrors {path}: sites.branch.password_file {secret}: expected a file of ours"
    with pytest.raises(ConfigInvalid, match=f"{told} that others cannot read, found mode 0644") as caught:
        load_mirrors(path)
    assert f"chmod 600 {secret}" in (caught.value.hint or "")
    secret.unlink()
    with pytest.raises(ConfigInvalid, match=f"password_file {secret}: expected a file that can be read"):
        load_mirrors(path)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_can_reach_is_refused(path: Path, mode: int) -> None:
    """With the way out."""
    path.write_text(GOOD)
    path.chmod(mode)
    with pytest.raises(ConfigInvalid, match=f"found mode {mode:04o}.*") as caught:
        load_mirrors(path)
    assert "chmod 600" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "found no site"),
        ("[other]\n", "nothing else, found other"),
        ("[sites.branch]\n", "sites.branch.user: expected this key"),
        ('[sites.branch]\nuser = "branch"\n', "sites.branch.password: expected it, or a password_file"),
        (GOOD + 'password_file = "/x"\n', "sites.branch.password: expected it, or a password_file"),
        (GOOD + "link_mbps = 0\n", "link_mbps: expected more than 0"),
        (GOOD + "cap_share = 1.5\n", "cap_share: expected more than 0 and at most 1"),
        (GOOD + "caps = 1\n", "sites.branch.caps: unknown key"),
        (GOOD + 'link_mbps = "10"\n', "sites.branch.link_mbps: expected"),
        (GOOD + 'allow = ["nowhere"]\n', "sites.branch: fixed login"),
        (GOOD.replace(WORD, "short"), "expected a password of 8 to 64"),
        (GOOD + GOOD.replace("sites.branch", "sites.other"), "expected a user of its own for each site"),
        (
            f"[sites.branch\npassword = '{WORD}'",
            "not valid TOML: expected keys and tables, found something else at line 1",
        ),
    ],
)
def test_a_mistake_is_a_sentence(path: Path, text: str, told: str) -> None:
    """It says which file and where, and never shows the password."""
    path.write_text(text)
    with pytest.raises(ConfigInvalid, match=told) as caught:
        load_mirrors(path)
    assert str(path) in caught.value.message
    assert WORD not in caught.value.message


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """Nothing there, a folder."""
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(ConfigInvalid, match="expected a file that can be read"):
            load_mirrors(path)
