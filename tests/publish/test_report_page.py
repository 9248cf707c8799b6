"""The page in Chromium, looked at closely (`make report-tests`): pictures, layout, console, network, no script, axe.

Pictures are written to runs/report-tests/. axe-core comes out of a package of the registry at test time; it is part of
nothing that is shipped.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from publish.sample_run import EXTRA, RUNS, Run, baseline, complete_run
from publish.test_report_browser import browse, requested
from publish.test_report_browser import pytestmark as needs_browser
from publish.test_report_html import hostile_run

from infra_agent.ledger import kinds as k
from infra_agent.publish.report.build import build_report
from infra_agent.publish.report.html import render

pytestmark = [*needs_browser, pytest.mark.slow]
PICTURES = Path("runs/report-tests")
AXE = "axe-playwright-python==0.1.8"
SERIOUS = {"serious", "critical"}
LAYOUT = """
const out = {wide: document.documentElement.scrollWidth - window.innerWidth, overlaps: [], cut: [], outside: []};
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim());
  const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
  boxes.forEach(([a, p], i) => {
    if (p.left < box.left - 1 || p.right > box.right + 1) out.outside.push(a);
    boxes.slice(i + 1).forEach(([b, q]) => {
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 2 && h > 3) out.overlaps.push(a + ' / ' + b);
    });
  });
}
for (const e of document.querySelectorAll('h1,h2,h3,p,dt,dd,td,th,caption,li,summary,.badge')) {
  if (e.closest('.scroll') || !e.offsetParent) continue;
  if (getComputedStyle(e).display === 'inline') continue;
  if (e.scrollWidth > e.clientWidth + 2) out.cut.push(e.textContent.slice(0, 60));
}
"""


def page(folder: Path, text: str, script: str = "", name: str = "page.html") -> Path:
    """The page as a file; with a script of the tests, its security policy is taken out of the copy."""
    if script:
        text = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", text)
        end = "const told = document.createElement('pre'); told.id = 'told'; const say = o => {"
        end += " told.textContent = JSON.stringify(o); document.body.append(told); };"
        text = text.replace("</body>", f"<script>{end}\n{script}</script></body>")
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def told(tree: str) -> Any:
    match = re.search(r'<pre id="told">(.*?)</pre>', tree, re.DOTALL)
    assert match is not None, tree[-500:]
    return json.loads(html.unescape(match[1]))


def complete() -> str:
    return render(build_report(complete_run(), EXTRA))


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("light", ("--blink-settings=preferredColorScheme=1",)),
        ("dark", ("--blink-settings=preferredColorScheme=0",)),
        ("narrow", ("--window-size=420,2400",)),
    ],
)
def test_pictures_are_taken_and_differ_from_an_empty_page(tmp_path: Path, name: str, flags: tuple[str, ...]) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{name}.png"
    browse(tmp_path, page(tmp_path, complete()), f"--screenshot={picture.absolute()}", *flags)
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 20_000


def test_it_prints_to_several_pages(tmp_path: Path) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    printed = PICTURES / "print.pdf"
    browse(tmp_path, page(tmp_path, complete()), f"--print-to-pdf={printed.absolute()}")
    content = printed.read_bytes()
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 2


@pytest.mark.parametrize("width", [1180, 420])
@pytest.mark.parametrize("name", ["complete", "waiting", "hostile"])
def test_nothing_overlaps_is_cut_or_makes_the_page_wider(tmp_path: Path, name: str, width: int) -> None:
    state = hostile_run().state if name == "hostile" else RUNS[name]()
    path = page(tmp_path, render(build_report(state, EXTRA)), LAYOUT + "say(out);")
    found = told(browse(tmp_path, path, "--dump-dom", f"--window-size={width},1600"))
    assert found["wide"] <= 0
    assert found["overlaps"] == []
    assert found["outside"] == []
    assert found["cut"] == []


def test_the_console_stays_silent_and_the_network_untouched(tmp_path: Path) -> None:
    path, net_log = page(tmp_path, render(build_report(hostile_run().state, EXTRA))), tmp_path / "net.json"
    log = tmp_path / "console.log"
    browse(tmp_path, path, f"--log-net-log={net_log}", "--enable-logging", f"--log-file={log}", "--dump-dom")
    said = log.read_text("utf-8", "replace") if log.exists() else ""
    assert [line for line in said.splitlines() if "CONSOLE" in line] == []
    assert requested(net_log) == set()


def test_a_page_that_does_complain_would_be_seen(tmp_path: Path) -> None:
    path, log = page(tmp_path, complete(), "console.error('seen');"), tmp_path / "console.log"
    browse(tmp_path, path, "--enable-logging", f"--log-file={log}", "--dump-dom")
    assert "seen" in log.read_text("utf-8", "replace")


def test_no_script_runs_in_it_and_every_question_has_its_answer(tmp_path: Path) -> None:
    """Chromium's switch for scripts also stops its own `--dump-dom`; the page's policy does the same for the page."""
    script = "<script>document.body.append('RAN HERE')</script></body>"
    tree = browse(tmp_path, page(tmp_path, complete().replace("</body>", script)), "--dump-dom")
    assert tree.count("RAN HERE") == 1
    assert tree.count("<section id=") == 9


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """axe-core's own file, out of a package that carries it."""
    folder = tmp_path_factory.mktemp("axe")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--disable-pip-version-check",
        AXE,
        "-d",
        str(folder),
    ]
    subprocess.run(command, check=True, timeout=180)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("axe.min.js")]
        return archive.read(name).decode("utf-8").replace("</script", "<\\/script")


@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
@pytest.mark.parametrize("name", ["complete", "hostile"])
def test_axe_finds_no_serious_violation(tmp_path: Path, axe: str, name: str, scheme: int) -> None:
    state = hostile_run().state if name == "hostile" else RUNS[name]()
    script = (
        axe + ";axe.run(document).then(r => say(r.violations.map(v => [v.impact, v.id, v.nodes.map(n => n.html)])));"
    )
    path = page(tmp_path, render(build_report(state, EXTRA)), script)
    flags = (f"--blink-settings=preferredColorScheme={scheme}", "--virtual-time-budget=60000", "--dump-dom")
    found = told(browse(tmp_path, path, *flags))
    assert [each for each in found if each[0] in SERIOUS] == []


def test_axe_would_see_a_fault(tmp_path: Path, axe: str) -> None:
    broken = complete().replace(
        "<main>", '<main><img src="data:image/gif;base64,R0lGODlhAQABAAAAACw="><a href="#q1"></a>'
    )
    script = axe + ";axe.run(document).then(r => say(r.violations.map(v => [v.impact, v.id])));"
    found = told(browse(tmp_path, page(tmp_path, broken, script), "--virtual-time-budget=60000", "--dump-dom"))
    assert {"image-alt", "link-name"} <= {each[1] for each in found}


def many(count: int) -> str:
    """A run with this many candidates, each with a verdict."""
    run = Run()
    baseline(run)
    for number in range(1, count + 1):
        document = {
            "id": f"C{number}", "title": f"candidate {number} " + "x" * 40, "hypothesis": "", "base": "stock",
            "changes": ({"parameter": "dtype", "value": str(number), "before": None},), "settings": {"n": number},
            "digest": f"{number:064x}", "risk": "routine", "risk_reasons": (), "family": "dtype", "lane": "agent",
        }  # fmt: skip
        run.add(k.CandidateProposed.model_validate(document))
        found = k.EstimateData(ratio=0.9, low=0.8, high=1.01, p=None, n=1, confidence=0.95, method="one window")
        run.spend(5.0)
        run.verdict(f"C{number}", "rejected", "no_gain", "load", "no gain of 1 % seen", (), estimate=found)
    return render(build_report(run.state, EXTRA))


def test_five_hundred_candidates_stay_small_and_open_fast(tmp_path: Path) -> None:
    text = many(500)
    assert len(text.encode()) < 1_500_000
    script = "addEventListener('load', () => setTimeout(() => say(performance.timing.loadEventEnd"
    script += " - performance.timing.navigationStart), 0));"
    took_ms = told(browse(tmp_path, page(tmp_path, text, script), "--dump-dom"))
    sys.stderr.write(f"500 candidates: {len(text.encode()) / 1e6:.2f} MB, opened in {took_ms} ms\n")
    assert took_ms < 8000  # 1 s on a machine that is not busy; the figure is printed
