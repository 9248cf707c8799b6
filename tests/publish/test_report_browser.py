"""The page in a real browser: it asks for nothing, runs nothing, and both colour schemes can be read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sample_run import EXTRA, complete_run
from test_report_html import hostile_run

from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import QUESTIONS, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("INFRA_AGENT_TEST_BROWSER") != "required",
        reason="no Chromium on PATH: apt-get install chromium",
    ),
]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--hide-scrollbars", "--window-size=1180,1400",
)  # fmt: skip


def browse(tmp_path: Path, page: Path, *flags: str) -> str:
    assert CHROMIUM is not None
    profile = tmp_path / "profile"
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()],
        capture_output=True, text=True, timeout=60, check=False, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def requested(net_log: Path) -> set[str]:
    """URLs that the page itself asked for: requests of the browser's own have no page as their initiator."""
    document: dict[str, Any] = json.loads(net_log.read_text(encoding="utf-8"))
    params = [event.get("params", {}) for event in document["events"]]
    started = [each for each in params if "initiator" in each and "url" in each]
    urls = {str(each["url"]) for each in started if each["initiator"] != "not an origin"}
    return {url for url in urls if not url.startswith(("file:", "chrome:"))}


def test_a_hostile_report_makes_no_request_and_runs_nothing(tmp_path: Path) -> None:
    page, _ = write_report(tmp_path, build_report(hostile_run().state, EXTRA))
    net_log = tmp_path / "net.json"
    tree = browse(tmp_path, page, f"--log-net-log={net_log}", "--dump-dom")
    assert requested(net_log) == set()
    assert "<script" not in tree
    assert "<img" not in tree
    assert all(f'id="q{number}"' in tree for number in range(1, len(QUESTIONS) + 1))


def test_a_page_that_does_ask_would_be_seen(tmp_path: Path) -> None:
    page, net_log = tmp_path / "asks.html", tmp_path / "net.json"
    page.write_text('<img src="http://127.0.0.1:9/x">', encoding="utf-8")
    browse(tmp_path, page, f"--log-net-log={net_log}", "--dump-dom")
    assert requested(net_log) == {"http://127.0.0.1:9/x"}


def test_light_and_dark_are_two_readable_pictures(tmp_path: Path) -> None:
    page, _ = write_report(tmp_path, build_report(complete_run(), EXTRA))
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    browse(tmp_path, page, f"--screenshot={light}", "--blink-settings=preferredColorScheme=1")
    browse(tmp_path, page, f"--screenshot={dark}", "--blink-settings=preferredColorScheme=0")
    pictures = [light.read_bytes(), dark.read_bytes()]
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 50_000 for picture in pictures)
    assert pictures[0] != pictures[1]
