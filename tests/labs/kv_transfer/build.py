"""Builds the extension with g++, once per source and interpreter."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

BUILD_TIMEOUT_S = 300
FLAGS = ("-O2", "-g", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-omit-frame-pointer")
_ABOUT = """
import json, sysconfig
try:
    import pybind11
    include, version = pybind11.get_include(), pybind11.__version__
except ImportError:
    include = version = None
print(json.dumps({"pybind11": include, "version": version, "python": sysconfig.get_paths()["include"],
                  "suffix": sysconfig.get_config_var("EXT_SUFFIX")}))
"""


class BuildError(Exception):
    """The extension cannot be built; the message says what to do."""


def build(source: Path, python: Path, folder: Path, *, strip: bool = False) -> Path:
    """The built module. The compiler's own words are in the BuildError when it fails."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise BuildError("no g++ on PATH: apt-get install g++")
    about = json.loads(subprocess.run([python, "-c", _ABOUT], check=True, capture_output=True, timeout=60).stdout)
    if about["pybind11"] is None:
        raise BuildError(f"{python} has no pybind11: make lab-kv")
    key = hashlib.sha256(source.read_bytes() + json.dumps([about, FLAGS, strip]).encode()).hexdigest()[:16]
    built = folder / key / f"kv_wire{about['suffix']}"
    if built.exists():
        return built
    built.parent.mkdir(parents=True, exist_ok=True)
    fresh = built.with_suffix(".new")
    argv = [compiler, *FLAGS, *(["-s"] if strip else []), f"-I{about['pybind11']}", f"-I{about['python']}",
            str(source.resolve()), "-o", str(fresh)]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    if done.returncode:
        raise BuildError("g++ failed:\n" + "\n".join(done.stderr.splitlines()[:20]))
    fresh.rename(built)
    return built
