"""What a night leaves to be read says what the night says, for people, programs and CI servers; no secret is in it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import forget_secrets, keep_secret
from flashferry.core.values import replace
from flashferry.nightly.artefacts import history_html, write_artefacts
from flashferry.nightly.artefacts.page import night_html
from flashferry.nightly.artefacts.report import (
    night_junit,
    night_report,
    night_result,
    night_word,
    report_json,
    report_schema,
    title_of,
)
from flashferry.nightly.history import by_series
from flashferry.nightly.night import Fault, Night, Rating, SeriesKey, StepName
from tests.pages import Page
from tests.some import some

HOSTILE = "<script>alert(1)</script>\"'&\x07"


@pytest.fixture
def nights(night, play, steps_of):
    """Three weeks: good nights, one off its condition, one of a broken lab, and a drop at the end."""
    made: list[Night] = [night(number) for number in range(18)]
    off = night(18, factor=0.5)
    made.append(replace(off, links=(replace(off.links[0], is_as_planned=False, told="250 ms"), off.links[1])))
    broken = night(19, copies=(), figures=())
    made.append(replace(broken, steps=steps_of(broken.started_at, Fault.LAB, StepName.START)))
    made += [night(number, factor=0.88) for number in (20, 21)]
    return play(*made)


def every_kind(nights):
    """Yield reports of a first night, of a good, a not comparable, a broken, an amber, a red one, and of nothing."""
    judged, history = nights
    for place in (0, 17, 18, 19, 20, 21):
        yield night_report(judged[place], history[: len(history) // len(judged) * place], ["lab.yaml"])
    yield night_report(replace(judged[0], steps=(), nodes=(), links=(), copies=(), figures=(), judgements=()), ())


def test_every_report_is_as_the_published_schema_says(nights, documentation):
    """Nights of every kind; who changes the values publishes them.

    python -c 'import json; from flashferry.nightly.artefacts.report import report_schema as s;
    print(json.dumps(s(), indent=2))' > docs/night.schema.json
    """
    schema = json.loads(documentation("night.schema.json"))
    assert schema == report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for report in every_kind(nights):
        document = json.loads(report_json(report))
        jsonschema.validate(document, schema)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document | {"surprise": 1}, schema)


def test_a_report_has_the_past_of_each_series(nights):
    """Tonight stands last, with what was expected; nights that were not compared are marked."""
    judged, history = nights
    report = night_report(judged[-1], history)
    assert len(report.series) == len(judged[-1].judgements)
    (found,) = (one for one in report.series if one.name == "cat8000v/-/wan50/ftp/probe")
    assert (found.points[-1].night_id, found.points[-1].colour) == (judged[-1].night_id, Rating.RED)
    assert [one.is_comparable for one in found.points].count(False) == 1
    assert (found.unit, len(found.points)) == ("bytes/s", 21)


def cases(report, suite):
    root = ElementTree.fromstring(night_junit(report))
    return {case.get("name"): case for case in root.findall(f"testsuite[@name='{suite}']/testcase")}


def test_junit_counts_what_it_holds(nights):
    """A case per step, per series and per copy, with unique names; counts are those of the cases."""
    for report in every_kind(nights):
        root = ElementTree.fromstring(night_junit(report))
        found = root.findall("testsuite/testcase")
        night = report.night
        assert len(found) == len(night.steps) + len(night.judgements) + len(night.copies)
        assert len({(case.get("classname"), case.get("name")) for case in found}) == len(found)
        for element, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            for suite in root.findall("testsuite"):
                assert len(suite.findall(f"testcase/{element}")) == int(suite.get(attribute, "-1"))
        assert int(root.get("tests", "-1")) == len(found)


@pytest.mark.parametrize(
    ("fault", "element"),
    [(Fault.LAB, "error"), (Fault.CLEANUP, "error"), (Fault.DEVICE, "failure"), (Fault.PRODUCT, "failure")],
)
def test_a_fault_of_the_lab_is_never_a_failure(night, play, steps_of, fault, element):
    """Errors are nobody's who owns the product; what comes behind is skipped; the hint is there."""
    made = night()
    (found,), history = play(replace(made, steps=steps_of(made.started_at, fault, StepName.STAGE)))
    steps = cases(night_report(found, history), "steps")
    told = steps["stage"].find(element)
    assert told is not None
    assert told.get("type") == fault.value
    assert "Look at the controller" in (told.text or "")
    assert steps["kill"].find("skipped") is not None
    assert steps["clean"].find("skipped") is None
    if element == "error":
        assert "<failure" not in night_junit(night_report(found, history))


def test_a_red_series_is_a_failure_an_amber_one_is_told(nights):
    """An amber one passes and says so; one of a night that is not compared is skipped."""
    judged, history = nights
    by_night = {place: cases(night_report(judged[place], history), "series") for place in (18, 20, 21)}
    key = "cat8000v/-/wan50/ftp/probe"
    assert by_night[21][key].find("failure") is not None
    assert by_night[20][key].find("failure") is None
    assert "amber: " in str(by_night[20][key].findtext("system-out"))
    assert by_night[18][key].find("skipped") is not None


def test_pages_load_nothing_and_are_in_balance(nights):
    """No script, no style attribute, no address but those of files beside it; a policy that forbids all else."""
    judged, history = nights
    pages = [night_html(one) for one in every_kind(nights)]
    pages += [history_html(judged, by_series(history), written_by="x"), history_html([], [], written_by="x")]
    for text in some(pages):
        page = Page(text)
        assert page.open == []
        assert "<script" not in text
        assert "default-src 'none'" in text
        for _, name, value in page.attributes:
            assert name != "style"
            assert not name.startswith("on")
            assert name not in {"href", "src"} or re.fullmatch(r"[\w./%-]+", value)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (None, "csr1000v, wan50: probe by ftp"),
        ("csr1000v-161101b", "csr1000v-161101b, wan50: probe by ftp"),
        ("candidate", "csr1000v candidate, wan50: probe by ftp"),
    ],
)
def test_a_series_names_its_node_once(image, told):
    """Most images have the name of their node definition in their own; the titles of graphs have little room."""
    key = SeriesKey.of(f"csr1000v/{image or '-'}/wan50/ftp/probe")
    assert title_of(key) == told


def test_the_page_says_what_the_night_says(nights):
    """Result, red series with their sentences, links as planned and measured, each copy's rate, files."""
    judged, history = nights
    text = Page(night_html(night_report(judged[21], history, ["consoles/xe1.log"]))).text
    for judgement in judged[21].judgements:
        assert judgement.sentence in text or judgement.key.verb == "lines left"
    assert "50 Mbit/s, 50 ms, 0.01% lost" in text
    assert "consoles/xe1.log" in text
    assert text.count("probe as it is") > 20
    lab = Page(night_html(night_report(judged[19], history))).text
    assert "The lab failed; nothing is said about the product." in lab
    assert "start: the controller answered 502" in lab


def test_all_nights_are_on_one_page(nights):
    """The last one first, each with its result in a word."""
    judged, history = nights
    words = [night_word(one) for one in judged]
    assert words[17:] == ["good", "not compared", "lab", "amber", "red"]
    assert night_result(judged[21]).startswith("red; series: ")
    text = Page(history_html(judged, by_series(history), written_by="flashferry 0.1.0")).text
    assert [text.index(one.night_id) for one in judged] == sorted(text.index(one.night_id) for one in judged)[::-1]


def test_nothing_that_a_lab_says_is_obeyed(night, play):
    """Names, sentences and hints of a stranger's are text on pages and in XML."""
    made = night(controller=HOSTILE, not_comparable_because=HOSTILE, is_comparable=False)
    made = replace(
        made,
        steps=tuple(replace(step, sentence=HOSTILE, hint=HOSTILE) for step in made.steps),
        nodes=tuple(replace(node, label=HOSTILE) for node in made.nodes),
        links=tuple(replace(link, name=HOSTILE, told=HOSTILE) for link in made.links),
        copies=tuple(replace(copy, condition=HOSTILE, verdict=HOSTILE) for copy in made.copies),
    )
    (found,), history = play(made)
    text = night_html(night_report(found, history, [HOSTILE]))
    assert "<script" not in text
    assert Page(text).open == []
    assert "<script" not in history_html([found], by_series(history), written_by=HOSTILE)
    assert ElementTree.fromstring(night_junit(night_report(found, history))) is not None


FILES = {
    "lab.yaml": b"password S3cret-of-r1\n",
    "consoles/xe1.log": b"boot\r\n",
    "xe1.pcap": b"\xd4\xc3S3cret-of-r1\xff",
}


@pytest.fixture
def secret():
    keep_secret("S3cret-of-r1")
    yield "S3cret-of-r1"
    forget_secrets()


def test_a_folder_holds_the_whole_night(tmp_path, nights, secret):
    """Reports, files as handed over but for secrets in texts, events, and a line in the list of nights."""
    judged, history = nights
    night = replace(judged[21], controller=f"https://admin:{secret}@cml.example")
    folder = write_artefacts(night, tmp_path / "nights", FILES, history)
    assert folder == tmp_path / "nights" / night.night_id
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {*FILES, "events.jsonl", "report.json", "report.html", "junit.xml"}
    assert (folder / "xe1.pcap").read_bytes() == FILES["xe1.pcap"]
    assert (folder / "consoles/xe1.log").read_bytes() == b"boot\r\n"
    for path in some(folder / name for name in names - {"xe1.pcap"}):
        assert secret not in path.read_text(), path
    report = json.loads((folder / "report.json").read_text())
    assert report["files"] == sorted([*FILES, "events.jsonl"])
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [one["name"] for one in events if one["event"] == "step"] == [one.value for one in StepName]
    assert sum(one["event"] == "judgement" for one in events) == len(night.judgements)
    (line,) = (tmp_path / "nights" / "nights.jsonl").read_text().splitlines()
    assert json.loads(line)["series"]["cat8000v/-/wan50/ftp/probe"] == "red"


def test_a_night_written_again_replaces_itself(tmp_path, night, play):
    """No file of the first time stays; nothing else is left in the folder of nights."""
    (found,), history = play(night())
    write_artefacts(found, tmp_path, {"old.log": b"x"}, history)
    folder = write_artefacts(found, tmp_path, {"new.log": b"x", "events.jsonl": b"{}\n"}, history)
    assert not (folder / "old.log").exists()
    assert (folder / "events.jsonl").read_bytes() == b"{}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [found.night_id, "nights.jsonl"]


def test_the_list_of_nights_has_each_once(tmp_path, nights):
    """A night is written again behind its clean-up: its line is the last word on it; others stay as they are."""
    judged, history = nights
    for night in (judged[0], judged[1], replace(judged[1], is_interrupted=True)):
        write_artefacts(night, tmp_path, {}, history)
    lines = [json.loads(line) for line in (tmp_path / "nights.jsonl").read_text().splitlines()]
    assert [(one["night"], one["exit_code"]) for one in lines] == [(judged[0].night_id, 0), (judged[1].night_id, 130)]


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "report.json", "./report.html", "", "a/../../b"])
def test_no_file_leaves_the_folder_or_takes_the_place_of_ours(tmp_path, night, play, name):
    """A backend's names are not trusted."""
    (found,), history = play(night())
    with pytest.raises(ConfigInvalid, match="expected a name below its folder") as error:
        write_artefacts(found, tmp_path / "nights", {name: b"x"}, history)
    assert error.value.hint
    assert not (tmp_path / "nights").exists()


def test_a_folder_that_cannot_be_written_is_told_and_nothing_of_it_stays(tmp_path, night, play, monkeypatch):
    """A full disk in the middle: a sentence with what to do, and no half folder."""
    (found,), history = play(night())

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flashferry.nightly.artefacts.folder.write_whole", full)
    with pytest.raises(ConfigInvalid, match="No space left") as error:
        write_artefacts(found, tmp_path, {"lab.yaml": b"x"}, history)
    assert error.value.hint
    assert list(Path(tmp_path).iterdir()) == []
