"""The dashboard as Grafana's own SDK reads it, and its queries as a Prometheus that scrapes the service answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from benchmarks.subjects import free_port
from tests.browsing import serving
from tests.component.service.tokens import token_of
from tests.needs import need_packages
from tests.patience import PATIENCE_S, until
from tests.some import some

pytestmark = pytest.mark.soak

DASHBOARD = Path(__file__).parents[3] / "docs" / "examples" / "grafana" / "flashferry.json"
READ = """
import sys
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
import json
register_default_plugins()
print(JSONEncoder().encode(Dashboard.from_json(json.load(sys.stdin))))
"""


def lost(before: object, after: object, path: str = "") -> list[str]:
    """Return what Grafana's types do not know of a document, or read otherwise; a null is as good as nothing."""
    if isinstance(before, dict):
        kept = after if isinstance(after, dict) else {}
        return [one for key, value in before.items() for one in lost(value, kept.get(key), f"{path}/{key}")]
    if isinstance(before, list):
        kept = after if isinstance(after, list) and len(after) == len(before) else [None] * len(before)
        return [one for at, value in enumerate(before) for one in lost(value, kept[at], f"{path}/{at}")]
    return [] if before == after else [f"{path}: {before!r} became {after!r}"]


def test_grafanas_sdk_knows_all_of_the_dashboard():
    """Each panel, query and option has a type of Grafana's published schema: nothing is dropped on the way through."""
    python = need_packages("grafana-foundation-sdk")
    text = DASHBOARD.read_text(encoding="utf-8")
    read = subprocess.run([str(python), "-c", READ], input=text, capture_output=True, text=True, check=True)
    assert lost(json.loads(text), json.loads(read.stdout)) == []
    wrong = text.replace('"gridPos"', '"gridPosition"', 1)
    read = subprocess.run([str(python), "-c", READ], input=wrong, capture_output=True, text=True, check=True)
    assert lost(json.loads(wrong), json.loads(read.stdout)) != []


def queries() -> list[str]:
    """Return what the panels ask, with Grafana's variables filled in."""
    document = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in document["panels"] for target in panel.get("targets", ())]
    return [re.sub(r"\$\{?\w+\}?", ".*", one.replace("$__rate_interval", "5m")) for one in asked]


def test_prometheus_answers_every_query_of_the_dashboard(tmp_path):
    """It scrapes the service with a token, as docs/examples has it, and refuses none of the panels' expressions."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no Prometheus here: apt-get install prometheus")
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (tmp_path / "token").write_text(token_of(state, "prometheus", "viewer"))
    with serving(state, free_port()) as served:
        scrape = {
            "job_name": "flashferry",
            "authorization": {"type": "Bearer", "credentials_file": str(tmp_path / "token")},
            "static_configs": [{"targets": [served.url.removeprefix("http://")]}],
        }
        # JSON is YAML.
        configuration = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
        (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))
        listens = f"127.0.0.1:{free_port()}"
        command = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
        with (
            subprocess.Popen(
                [*command, f"--web.listen-address={listens}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as process,
            httpx.Client(base_url=f"http://{listens}/api/v1", timeout=PATIENCE_S, trust_env=False) as client,
        ):
            try:
                until(lambda: _values(client, 'up{job="flashferry"} == 1'), "Prometheus to scrape the service")
                answers = {one: client.get("/query", params={"query": one}).json() for one in some(queries())}
                assert {one: answer for one, answer in answers.items() if answer["status"] != "success"} == {}
                assert _values(client, 'count({__name__=~"flashferry_.*"}) > 10')
            finally:
                process.kill()


def _values(client: httpx.Client, query: str) -> list:
    try:
        answer = client.get("/query", params={"query": query})
    except httpx.TransportError:
        return []
    return answer.json()["data"]["result"] if answer.is_success else []
