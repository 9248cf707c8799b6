"""Worker: compiles kernels for architectures that need not be there. See `probes.kernels.process`.

Request: kernel (MODULE:NAME, or MODULE: for all of it), or launches; set, architectures, variants, cache, paths.
Answer: triton, compiled[{kernel, architecture, ok, error, directory, ...}]; texts lie in `directory` of the cache.
The cache key is made of the kernel's source with all it calls, its specialisation, the options, the architecture, and
the versions of triton and ptxas: whatever would give another binary gives another key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probes.kernels.inside import Refused, find, first_line, innermost, is_kernel, kernels_of, load_module, serve
from probes.kernels.inside import need_triton as need
from probes.static.triton_compile.signature import as_argument, assumed, specialise

FORMAT = "1"
META = "facts.json"
TEXTS = {"ttir": "kernel.ttir", "ttgir": "kernel.ttgir", "ptx": "kernel.ptx", "amdgcn": "kernel.amdgcn"}
BINARIES = {"cubin": "kernel.cubin", "hsaco": "kernel.hsaco"}
TOOL_TIMEOUT_S = 60


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Compile everything that is asked for; a kernel that does not compile is a result, not a refusal."""
    triton = need()
    launches = request.get("launches") or assumed_launches(request["kernel"], request.get("set", {}))
    compiled = []
    for launch in launches:
        kernel = innermost(find(launch["kernel"]))
        for variant in request.get("variants") or [{}]:
            varied = with_variant(launch, variant, request.get("set", {}))
            for architecture in request["architectures"]:
                compiled.append(one(kernel, varied, architecture, Path(request["cache"])))
    return {"triton": triton.__version__, "compiled": compiled}


def assumed_launches(reference: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Launches of a kernel that nobody called, or of all kernels of a module."""
    module_name, _, name = reference.rpartition(":")
    if not module_name:
        module_name, name = reference, ""
    names = [name] if name else kernels_of(load_module(module_name))
    if not names:
        raise Refused("no-kernel", f"{module_name} defines no Triton kernel")
    launches = []
    for one_name in names:
        kernel = find(f"{module_name}:{one_name}")
        if not is_kernel(kernel):
            raise Refused(
                "no-kernel", f"{module_name}:{one_name} is a {type(kernel).__name__}, not a Triton kernel",
                hint=f"kernels there: {', '.join(kernels_of(load_module(module_name))) or 'none'}; "
                "a function that launches kernels goes to --call",
            )  # fmt: skip
        arguments, options, notes = assumed(kernel, given)
        launches.append(
            {"kernel": f"{module_name}:{one_name}", "arguments": arguments, "options": options, "notes": notes}
        )
    return launches


def with_variant(launch: Mapping[str, Any], variant: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The launch with the caller's values and one variant's values and options in place of its own."""
    arguments = dict(launch["arguments"])
    for name, value in {**given, **variant.get("set", {})}.items():
        arguments[name] = as_argument(name, value, arguments.get(name, {}).get("kind") == "tensor")
    return {**launch, "arguments": arguments, "options": {**launch.get("options", {}), **variant.get("options", {})}}


def target_of(architecture: str) -> Any:
    """The compiler's target for sm_NN or gfxNNN."""
    from triton.backends.compiler import GPUTarget

    if architecture.startswith("sm_") and architecture[3:].rstrip("af").isdigit():
        return GPUTarget("cuda", int(architecture[3:].rstrip("af")), 32)
    if architecture.startswith("gfx"):
        return GPUTarget("hip", architecture, 64 if architecture.startswith("gfx9") else 32)
    raise Refused("no-architecture", f"{architecture!r} is not an architecture", hint="for example sm_90, gfx942")


def one(kernel: Any, launch: Mapping[str, Any], architecture: str, cache: Path) -> dict[str, Any]:
    """One kernel for one architecture, from the cache or compiled now."""
    from triton.compiler.compiler import make_backend

    start = time.perf_counter()
    try:
        target = target_of(architecture)
        backend = make_backend(target)
        special = specialise(kernel, launch["arguments"], launch["options"], backend)
    except Refused:
        raise
    except Exception as error:
        found = {"ok": False, "stage": "options", "error": error_text(error), "lines": error_lines(error)}
        return {**heading(kernel, launch, architecture), **found, "cached": False, "wall_s": 0.0, "directory": ""}
    key = key_of(kernel, special, backend, architecture)
    directory = cache / key[:2] / key
    meta = directory / META
    cached = meta.is_file()
    if not cached:
        store(directory, lambda place: compile_into(place, kernel, special, target))
    facts = json.loads(meta.read_text(encoding="utf-8"))
    wall = time.perf_counter() - start
    special_facts = {
        "signature": special.signature, "constants": constants(kernel, special), "key": key, "cached": cached,
        "wall_s": wall, "directory": str(directory),
    }  # fmt: skip
    return {**heading(kernel, launch, architecture), **facts, **special_facts}


def heading(kernel: Any, launch: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    """What is compiled, for whom."""
    return {
        "kernel": launch["kernel"], "architecture": architecture, "grid": launch.get("grid"),
        "notes": launch.get("notes", []), "options": launch["options"],
        "file": kernel.fn.__code__.co_filename, "line": kernel.starting_line_number,
    }  # fmt: skip


def constants(kernel: Any, special: Any) -> dict[str, Any]:
    """Values of the compile-time parameters by name."""
    found = {}
    for path, value in special.constants.items():
        name = kernel.arg_names[path[0]]
        found[name] = value if value is None or isinstance(value, bool | int | float | str) else str(value)
    return found


def key_of(kernel: Any, special: Any, backend: Any, architecture: str) -> str:
    """SHA-256 of everything that decides the binary."""
    values = [str(getattr(value, "cache_key", value)) for _, value in sorted(special.constants.items())]
    parts = [
        FORMAT, kernel.cache_key, sorted(special.signature.items()), values, str(sorted(special.attributes.items())),
        str(special.options), architecture, need().__version__, str(backend.hash()),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def store(directory: Path, build: Any) -> None:
    """Fill a cache entry in one step: a kill leaves nothing half-made, two writers do no harm."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=".new-", dir=directory.parent))
    try:
        build(place)
        with contextlib.suppress(OSError):
            place.rename(directory)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def compile_into(place: Path, kernel: Any, special: Any, target: Any) -> None:
    """Compile and write texts, binaries, tool output and metadata."""
    import triton
    from triton.compiler import ASTSource

    source = ASTSource(kernel, special.signature, special.constants, special.attributes)
    with tempfile.TemporaryDirectory() as scratch, compiler_log() as log, private_cache(scratch):
        try:
            made = triton.compile(source, target=target, options=vars(special.options))
        except Exception as error:
            facts = {"ok": False, "stage": stage_of(error), "error": error_text(error), "lines": error_lines(error)}
            (place / META).write_text(json.dumps(facts), encoding="utf-8")
            return
        for kind, name in TEXTS.items():
            if kind in made.asm:
                (place / name).write_text(str(made.asm[kind]), encoding="utf-8")
        for kind, name in BINARIES.items():
            if kind in made.asm:
                (place / name).write_bytes(made.asm[kind])
    metadata = made.metadata
    facts = {
        "ok": True, "shared_bytes": metadata.shared, "warps": metadata.num_warps,
        "ctas": getattr(metadata, "num_ctas", 1), "warp_size": getattr(metadata, "warp_size", 32),
        "stages": getattr(metadata, "num_stages", None), "name": metadata.name,
        "tensor_memory_bytes": getattr(metadata, "tmem_size", 0) or 0,
    }  # fmt: skip
    (place / "ptxas.log").write_text("\n".join(log), encoding="utf-8")
    if (place / BINARIES["cubin"]).is_file():
        (place / "usage.txt").write_text(resource_usage(place / BINARIES["cubin"]), encoding="utf-8")
    (place / META).write_text(json.dumps(facts), encoding="utf-8")


@contextlib.contextmanager
def private_cache(scratch: str) -> Iterator[None]:
    """The compiler's own cache is empty: ptxas must run for its log to be seen, and the user's cache stays as it is."""
    before = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = scratch
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_CACHE_DIR"]
        else:
            os.environ["TRITON_CACHE_DIR"] = before


@contextlib.contextmanager
def compiler_log() -> Iterator[list[str]]:
    """What ptxas said while it made the binary: the compiler runs it with -v and throws the log away."""
    log: list[str] = []
    try:
        from triton.backends.nvidia import compiler
    except ImportError:
        yield log
        return

    class Listening:
        CalledProcessError = subprocess.CalledProcessError

        def __getattr__(self, name: str) -> Any:
            return getattr(subprocess, name)

        @staticmethod
        def run(argv: Any, **named: Any) -> Any:
            done = subprocess.run(argv, **named)
            sink = named.get("stderr")
            if isinstance(argv, list) and "-v" in argv and hasattr(sink, "name"):
                log.append("$ " + " ".join(argv))
                log.append(Path(named["stderr"].name).read_text(encoding="utf-8", errors="replace"))
            return done

    original = compiler.subprocess
    compiler.subprocess = Listening()
    try:
        yield log
    finally:
        compiler.subprocess = original


def resource_usage(cubin: Path) -> str:
    """Cuobjdump's word on the binary; empty when the tool is missing."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    found = str(tool) if tool.is_file() else shutil.which("cuobjdump")
    if found is None:
        return ""
    done = subprocess.run(
        [found, "--dump-resource-usage", str(cubin)],
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    return done.stdout


def stage_of(error: BaseException) -> str:
    """Where a compilation ended."""
    name = type(error).__name__
    if name in ("CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure"):
        return "language"
    return {"OutOfResources": "resources", "PTXASError": "ptxas"}.get(name, "lowering")


def error_text(error: BaseException) -> str:
    """What the compiler objects to: its last line, for a language error the sentence after the source excerpt."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    said = [line for line in str(cause).strip().splitlines() if line.strip() and set(line.strip()) != {"^"}]
    return f"{type(cause).__name__}: {said[-1].strip() if said else first_line(error)}"


def error_lines(error: BaseException) -> list[str]:
    """The compiler's own words with the place in the kernel's source."""
    text = str(error).strip() or "".join(traceback.format_exception_only(error))
    return text.splitlines()[:24]


if __name__ == "__main__":
    serve(work)
