"""docs/metrics.md, the alerts and the dashboard ask for what the service tells, by its names and labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from flashferry.monitor.metrics import MetricKind
from flashferry.service.metrics.counting import METRICS
from tests.some import some

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE, EXAMPLES = DOCS / "metrics.md", DOCS / "examples"
RULES, DASHBOARD = EXAMPLES / "prometheus" / "flashferry.rules.yml", EXAMPLES / "grafana" / "flashferry.json"
BEGIN, END = "<!-- service metrics: begin -->\n", "<!-- service metrics: end -->"
ALERTS, ALERTS_END = "<!-- alerts: begin -->\n", "<!-- alerts: end -->"
PARTS = {MetricKind.HISTOGRAM: ("_bucket", "_sum", "_count"), MetricKind.COUNTER: ("_total",), MetricKind.GAUGE: ("",)}
TOLD = {f"flashferry_{one.name}{part}": one for one in METRICS.values() for part in PARTS[one.kind]}
OF_THE_CLIENT = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"}
WORDS = {
    *("sum", "min", "max", "rate", "increase", "time", "histogram_quantile", "max_over_time", "label_values"),
    *("by", "on", "and", "or", "unless"),
}
TARGET_LABELS = {"job", "instance"}
SELECTOR = re.compile(r"([a-z_][a-z0-9_]*)\{([^{}]*)\}")
MATCHER = re.compile(r'\s*([a-z_]+)\s*(=|!=|=~|!~)\s*"([^"]*)"\s*')
NUMBER = re.compile(r"\b\d+(\.\d+)?(e\d+)?\b")

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the tests run away from the checkout, without docs")


def table() -> str:
    """Return the table of all metrics as the page has it."""
    rows = ["| metric | is |", "|---|---|"]
    for one in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{one.shown}` | {one.kind}{f' by {labels}' if labels else ''}: {one.says} |")
    return "\n".join(rows) + "\n"


def alerts() -> list[dict]:
    found = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in found["groups"] for rule in group["rules"]]


def alert_table() -> str:
    """Return the table of all alerts as the page has it; rules lead to its rows."""
    rows = ["| alert | severity | after | what it means, and what to do |", "|---|---|---|---|"]
    for one in alerts():
        name, severity = one["alert"], one["labels"]["severity"]
        text = one["annotations"]["description"]
        rows.append(f'| <a id="{name.lower()}"></a>{name} | {severity} | {one.get("for", "at once")} | {text} |')
    return "\n".join(rows) + "\n"


def panels() -> list[dict]:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]


def expressions() -> list[tuple[str, str]]:
    """Return where each expression of rules and dashboard stands, and the expression."""
    found = [(one["alert"], one["expr"]) for one in alerts()]
    found += [(panel["title"], target["expr"]) for panel in panels() for target in panel.get("targets", ())]
    variables = json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]
    asked = [(one["name"], one["query"]["query"]) for one in variables if one["type"] == "query"]
    # What stands behind the comma is a label.
    return found + [(name, re.sub(r", [a-z]+\)", ")", query)) for name, query in asked]


def faults(expression: str) -> list[str]:
    """Return what is wrong with an expression, as far as a look at its words can tell."""
    found = []
    for opening, closing in ("()", "{}", "[]"):
        if expression.count(opening) != expression.count(closing):
            found.append(f"{opening} without {closing}")
    for name, inside in SELECTOR.findall(expression):
        labels = {*TOLD[name].labels, "le"} if name in TOLD else set()
        for one in inside.split(","):
            matcher = MATCHER.fullmatch(one)
            if matcher is None or matcher[1] not in labels | TARGET_LABELS:
                found.append(f"{name} has no label like {one}")
    rest = re.sub(r"\{[^{}]*\}", "", expression)
    grouped = [word for group in re.findall(r"(?:by|on) \(([^()]*)\)", rest) for word in re.split(r",\s*", group)]
    known = {label for one in METRICS.values() for label in one.labels} | TARGET_LABELS | {"le"}
    found += [f"no metric has the label {word}" for word in grouped if word not in known]
    rest = re.sub(r"(by|on) \([^()]*\)", "", rest)
    rest = re.sub(r"\[\d+[smhd]\]", "", rest)
    words = re.findall(r"[a-zA-Z_][a-zA-Z0-9_:]*", NUMBER.sub("", rest))
    found += [f"nothing is called {word}" for word in words if word not in WORDS | OF_THE_CLIENT | TOLD.keys()]
    signs = re.sub(r"[a-zA-Z_0-9.,\s()]|==|!=|>=|<=|[-+*/<>]", "", rest)
    return found + [f"no sign of the language: {sign}" for sign in signs]


def test_the_page_has_all_metrics_and_no_other():
    """With kind, labels and meaning; `python -m` writes the table anew."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.split(BEGIN)[1].split(END)[0] == table(), f"stale: run python -m {__name__}"


def test_the_page_has_all_alerts():
    """With what they mean and what to do: where the annotation `runbook` of each leads to."""
    page = PAGE.read_text(encoding="utf-8")
    assert page.split(ALERTS)[1].split(ALERTS_END)[0] == alert_table(), f"stale: run python -m {__name__}"
    for one in some(alerts()):
        path, _, anchor = one["annotations"]["runbook"].partition("#")
        assert (path, f'<a id="{anchor}">' in page) == ("docs/metrics.md", True), one["alert"]


def test_each_alert_says_how_urgent_it_is_and_what_of():
    """In a sentence of its own that names what it is about, by labels that its expression leaves."""
    names = [one["alert"] for one in some(alerts())]
    assert len(set(names)) == len(names)
    for one in alerts():
        assert set(one) <= {"alert", "expr", "for", "labels", "annotations"}
        assert one["labels"] == {"severity": one["labels"]["severity"]}
        assert one["labels"]["severity"] in ("page", "warning")
        assert set(one["annotations"]) == {"summary", "description", "runbook"}
        told = set(re.findall(r"\$labels\.([a-z_]+)", one["annotations"]["summary"]))
        kept = {label for name in TOLD if name in one["expr"] for label in TOLD[name].labels} | TARGET_LABELS
        if group := re.search(r"sum by \(([^()]*)\)", one["expr"]):
            kept = set(group[1].split(", "))
        assert told <= kept, one["alert"]


def test_every_expression_asks_for_what_there_is():
    """Names, labels and words of the language; there is no promtool here to read it wholly."""
    found = {where: wrong for where, expression in some(expressions()) if (wrong := faults(expression))}
    assert found == {}


@pytest.mark.parametrize(
    "wrong",
    [
        "sum(flashferry_nothing)",
        'flashferry_devices{colour="red"} > 0',
        "sum by (color) (flashferry_devices)",
        "sum(flashferry_devices",
        "flashferry_transfers > 0",
        "flashferry_devices & 1",
        "avg_of(flashferry_devices)",
    ],
)
def test_a_wrong_expression_is_found(wrong):
    """The check above is one: names, labels, brackets, signs."""
    assert faults(wrong) != []


def test_the_most_important_alerts_are_there():
    """What is changed and not restored is for somebody who is woken."""
    severities = {one["alert"]: one["labels"]["severity"] for one in alerts()}
    assert severities["DeviceNotRestored"] == "page"
    assert {"RunDied", "RunSilent", "ApprovalCloseToWindow", "NoticesGivenUp", "DiskLow", "DepotDown"} <= set(
        severities
    )


def test_panels_have_numbers_of_their_own_and_lie_beside_each_other():
    """No two have one number, or share a place; each has a title and a source that is chosen at the import."""
    found = some(panels())
    numbers = [one["id"] for one in found]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for one in found:
        place = one["gridPos"]
        columns, lines = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in lines}
        assert taken.isdisjoint(cells), one["title"]
        assert columns.stop <= 24
        taken |= cells
        assert one["title"]
        assert one["type"] == "row" or one["datasource"]["uid"] == "${datasource}"


def test_the_example_scrapes_with_a_token_from_a_file():
    """No token stands in the configuration, and the rules are those beside it."""
    found = yaml.safe_load((EXAMPLES / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    assert found["rule_files"] == [RULES.name]
    service = next(one for one in found["scrape_configs"] if one["job_name"] == "flashferry")
    assert service["authorization"].keys() == {"type", "credentials_file"}
    assert service.get("metrics_path", "/metrics") == "/metrics"


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for begin, end, made in ((BEGIN, END, table()), (ALERTS, ALERTS_END, alert_table())):
        before, rest = text.split(begin)
        text = before + begin + made + end + rest.split(end, 1)[1]
    PAGE.write_text(text, encoding="utf-8")
