"""The page as PDF, printed by a Chromium that is there already; without one, an error that says what to do.

Covered: Chromium and Chrome by their usual names. Not covered: other ways to make a PDF.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from infra_agent.errors import UsageError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT_S = 120.0
_FLAGS = (
    "--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync",
    "--disable-extensions", "--disable-component-update", "--no-pdf-header-footer",
)  # fmt: skip


def browser() -> str | None:
    """The program that prints; None where there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name)) is not None), None)


def print_pdf(page: Path, to: Path) -> None:
    """Print a page to a file. UsageError without a browser, or when it fails."""
    program = browser()
    if program is None:
        hint = "install chromium, or use --format html and print it"
        raise UsageError("a PDF needs Chromium, and there is none on PATH", where="--format pdf", hint=hint)
    with tempfile.TemporaryDirectory(prefix="infra-agent-pdf-") as folder:
        # As root Chromium has no sandbox of its own; the page has neither script nor network (its policy).
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        part = Path(folder) / "report.pdf"
        flags = [*_FLAGS, *root, f"--user-data-dir={folder}/profile", f"--print-to-pdf={part}"]
        try:
            done = subprocess.run(
                [program, *flags, page.absolute().as_uri()], capture_output=True, timeout=TIMEOUT_S, check=False,
                env={"HOME": folder, "PATH": os.environ.get("PATH", os.defpath)}, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UsageError(f"Chromium did not end within {TIMEOUT_S:.0f} s", where=program) from None
        if done.returncode != 0 or not part.is_file():
            lines = done.stderr.decode("utf-8", "replace").splitlines()[-4:]
            raise UsageError("Chromium could not print the page", where=program, lines=lines)
        shutil.move(part, to)
