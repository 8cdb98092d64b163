"""Pages of images: what people see, and an upload by a form without any script."""

from __future__ import annotations

import pytest

from flashferry.service.api.limits import FormPieces
from flashferry.service.errors import ServiceError
from tests.unit.service.images.conftest import CONTENT, sha512_of

NAME = "c2960x-universalk9-mz.152-7.E8.bin"
KIND = {"Content-Type": "multipart/form-data; boundary=xYx"}


def form(csrf: str, content: bytes = CONTENT, name: str = NAME, sha512: str = "") -> bytes:
    """Return a form as browsers send it."""
    fields = [
        f'--xYx\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
        for field, value in (("csrf", csrf), ("sha512", sha512))
    ]
    head = f'--xYx\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: x/y\r\n\r\n'
    file = head.encode() + content + b"\r\n"
    return b"".join([*fields, file, b"--xYx--\r\n"])


@pytest.fixture
def browser(served):
    return served.browser("op")


@pytest.fixture
def post(served, browser):
    """Return what sends a form as the browser does, its token in it alone."""

    def post(body: bytes):
        return served.call("POST", "/images", browser, content=body, headers={**KIND, "X-CSRF-Token": ""})

    return post


def test_an_upload_without_a_script(served, browser, post):
    """Streamed into its file, judged, and shown; the size is the file's, not the form's."""
    answer = post(form(browser.csrf, sha512=sha512_of(CONTENT)))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/images/{NAME}")
    told = served.view(f"/images/{NAME}", browser)
    assert (told["state"], told["size_bytes"], told["sha512"]) == ("published", len(CONTENT), sha512_of(CONTENT))
    assert (served.service.images / NAME).read_bytes() == CONTENT
    page = served.call("GET", "/images", browser).text
    assert "Without scripts it is sent in one go" in page
    assert served.call("GET", f"/images/{NAME}", browser).status_code == 200


@pytest.mark.parametrize("token", ["guess", ""])
def test_the_forms_token_is_held_before_the_file_is_read(served, post, token):
    """Without the session's own nothing is written, nor is the image announced."""
    answer = post(form(token, CONTENT * 200))
    assert answer.status_code == 403
    assert not (served.service.images / ".arriving").exists()


@pytest.mark.parametrize("name", ["../x.bin", ".x.bin", "a b.bin", "x" * 121, "", "<script>.bin"])
def test_hostile_names_are_refused(served, browser, post, name):
    """As those of the API."""
    assert post(form(browser.csrf, name=name)).status_code in (400, 422)
    assert [path for path in served.service.images.rglob("*") if path.is_file()] == []


def test_what_breaks_off_is_given_up(served, browser, post):
    """The name is free again, and nothing of it stays."""
    assert post(form(browser.csrf)[:-20]).status_code == 400
    assert [path for path in served.service.images.rglob("*") if path.is_file()] == []
    assert post(form(browser.csrf)).status_code == 303


def test_another_ones_upload_is_left_alone(served, browser, post, announce, send):
    """A form for a name that is arriving is a conflict; the upload goes on."""
    announce(NAME, len(CONTENT))
    send(NAME, CONTENT[:100])
    assert post(form(browser.csrf)).status_code == 409
    assert send(NAME, CONTENT[100:], 100).json()["sha512"] == sha512_of(CONTENT)


def test_all_that_may_be_done_by_forms(served, upload):
    """Vouched for, golden, no longer golden, taken away and brought back."""
    upload(NAME)
    chief = served.browser("chief")

    def done(path: str, **fields: str) -> int:
        return served.call("POST", path, chief, form=fields).status_code

    assert "Approve it" in served.call("GET", f"/images/{NAME}", chief).text
    assert done(f"/images/{NAME}/vouch", reason="why") == 303
    for path in (f"/images/{NAME}", "/images"):
        text = served.call("GET", path, chief, headers={"Accept": "text/html"}).text
        assert '<span class="badge good">approved</span> ' in text.replace("</span>", "</span> "), path
        assert "chief approved it: why" in text, path
        assert "vouched" not in text, path
    assert done("/images/golden", model="ws-c2960x-24ts-l", image=NAME) == 303
    assert "WS-C2960X-24TS-L" in served.call("GET", "/images", chief).text
    assert done(f"/images/{NAME}/remove", reason="old") == 409
    assert done("/images/golden/remove", model="WS-C2960X-24TS-L") == 303
    assert done(f"/images/{NAME}/remove", reason="old") == 303
    assert done(f"/images/{NAME}/restore", reason="needed") == 303
    assert done(f"/images/{NAME}/verify", sha512="0" * 128) == 303
    assert served.view(f"/images/{NAME}", chief)["state"] == "mismatch"


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_form_is_read_in_pieces_of_any_size(size):
    """Borders of parts may stand across pieces; what looks like one in the file is none."""
    content = b"\r\n--xYy\r\n--xY" + CONTENT
    body, pieces, found = form("t", content), FormPieces(KIND["Content-Type"]), b""
    for start in range(0, len(body), size):
        found += pieces.feed(body[start : start + size])
    assert (found, pieces.file_name, pieces.is_ended) == (content, NAME, True)
    assert pieces.fields == {"csrf": "t", "sha512": ""}


@pytest.mark.parametrize("kind", ["", "application/json", "multipart/form-data", "multipart/form-data; boundary="])
def test_what_is_no_form_is_refused(kind):
    """Before anything is read."""
    with pytest.raises(ServiceError):
        FormPieces(kind)
