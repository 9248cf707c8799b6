"""Runs at the start of the engine's Python: a sleeping thread that tells, when asked, what is in effect.

Standard library only. It reads objects of the running engine and never the command line; what cannot be read is
absent. Nothing here may break the engine: every error is swallowed or put into the answer.

Covered: any Python engine (versions, threads, torch); details of `transformers serve`; notes on executed lines.
Not covered: processes that the engine starts; only the first Python process of a launch answers.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

_SOCKET = "INFRA_AGENT_REPORTER"
_LINES = "INFRA_AGENT_LINES"
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
_REQUEST_TIMEOUT_S = 5.0
_LARGEST_REQUEST = 65536
Facts = dict[str, Any]


def python_facts() -> Facts:
    """Facts of any Python process."""
    return {"python.version": ".".join(map(str, sys.version_info[:3])), "threads.count": _thread_count()}


def torch_facts() -> Facts:
    """Facts of PyTorch, once the engine has imported it."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_num_threads"):
        return {}
    return {"torch.version": str(torch.__version__), "torch.num_threads": int(torch.get_num_threads())}


def model_facts() -> Facts:
    """Facts of the model that `transformers serve` has loaded."""
    model = _served_model()
    if model is None:
        return {}
    facts: Facts = {"model.device": str(model.device), "model.quantization": _quantization(model)}
    dtype = _compute_dtype(model)
    if dtype is not None:
        facts["model.dtype"] = dtype
    attention = getattr(model.config, "_attn_implementation", None)
    if attention:
        facts["model.attn_implementation"] = str(attention).replace("paged|", "").replace("_paged", "")
    return facts


def batching_facts() -> Facts:
    """Facts of continuous batching: what its worker was built with, not what was asked for."""
    if _served_model() is None:
        return {}
    manager = _running_manager()
    if manager is None:
        return {"cb.running": False}
    facts: Facts = {"cb.running": True}
    processor = manager.batch_processor
    if processor is None:
        return facts
    cache, runner = processor.cache, processor.model_runner
    facts["cb.num_blocks"] = int(cache.num_blocks)
    facts["cb.max_batch_tokens"] = int(cache.max_batch_tokens)
    facts["cb.page_size"] = max(int(pages.tokens_per_page) for pages in cache.cache_allocators.values())
    facts["cb.use_cuda_graph"] = bool(runner.use_cuda_graph_varlen or runner.use_cuda_graph_decode)
    if not _fixed_block_count():
        facts["cb.max_memory_percent"] = float(manager.continuous_batching_config.max_memory_percent)
    return facts


def generation_facts() -> Facts:
    """Facts of the generation path that answered requests so far; nothing before the first request."""
    model = _served_model()
    if model is None:
        return {}
    manager = _running_manager()
    if manager is not None and manager.batch_processor is not None:
        runner = manager.batch_processor.model_runner
        compiled = runner._compiled_varlen is not None or runner._compiled_decode is not None
        return {"compile.active": compiled, "generation.cache_implementation": "paged"}
    if not any(state._generate_managers for state in _instances("transformers.cli.serving.utils", "GenerationState")):
        return {}
    own = vars(model)
    static = own.get("_previous_max_cache_length", -1) > 0
    return {
        "compile.active": own.get("_compiled_call") is not None,
        "generation.cache_implementation": "static" if static else "dynamic",
    }


_SOURCES: tuple[Callable[[], Facts], ...] = (
    python_facts,
    torch_facts,
    model_facts,
    batching_facts,
    generation_facts,
)


def snapshot() -> dict[str, Any]:
    """All facts that can be read now, and the errors of those that cannot."""
    facts: Facts = {}
    errors: dict[str, str] = {}
    for source in _SOURCES:
        try:
            facts.update(source())
        except Exception as error:
            errors[source.__name__] = f"{type(error).__name__}: {error}"
    return {"snapshot": facts, "errors": errors}


def _served_model() -> Any:
    for manager in _instances("transformers.cli.serving.model_manager", "ModelManager"):
        for entry in list(manager.loaded_models.values()):
            model = getattr(entry, "model", None)
            if model is not None:
                return model
    return None


def _running_manager() -> Any:
    module = "transformers.generation.continuous_batching.continuous_api"
    for manager in _instances(module, "ContinuousBatchingManager"):
        if manager.is_running():
            return manager
    return None


def _fixed_block_count() -> bool:
    """Whether the number of cache blocks was given, so that the memory share did not size the cache."""
    for state in _instances("transformers.cli.serving.utils", "GenerationState"):
        config = state._cb_config
        return config is not None and config.num_blocks is not None
    return True


def _compute_dtype(model: Any) -> str | None:
    dtype = getattr(model, "dtype", None)
    return None if dtype is None else str(dtype).removeprefix("torch.")


def _quantization(model: Any) -> str:
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is None:
        return "none"
    method = quantizer.quantization_config.quant_method
    return str(getattr(method, "value", method))


def _instances(module: str, name: str) -> Iterator[Any]:
    """Live objects of exactly this class, if its module is loaded. Subclasses and proxies are not touched."""
    kind = getattr(sys.modules.get(module), name, None)
    if kind is None:
        return
    for candidate in gc.get_objects():
        if type(candidate) is kind:
            yield candidate


def _thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))  # noqa: PTH208
    except OSError:
        return threading.active_count()


def _serve(listener: socket.socket) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        try:
            with connection:
                connection.settimeout(_REQUEST_TIMEOUT_S)
                _answer(connection)
        except Exception:
            continue


def _answer(connection: socket.socket) -> None:
    (length,) = struct.unpack("!I", _receive(connection, 4))
    if length > _LARGEST_REQUEST:
        return
    request = json.loads(_receive(connection, length))
    answer = snapshot() if request == {"ask": "snapshot"} else {"error": "unknown request"}
    document = json.dumps(answer).encode()
    connection.sendall(struct.pack("!I", len(document)) + document)


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


def _start(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(4)
    except OSError:
        listener.close()
        return
    threading.Thread(target=_serve, args=(listener,), name="infra-agent-reporter", daemon=True).start()


def _run_next_sitecustomize() -> None:
    """Run the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _main() -> None:
    # Taken out of the environment: a child process of the engine is not the one to report.
    path = os.environ.pop(_SOCKET, None)
    try:
        if path:
            _start(path)
    except Exception:
        pass
    _note_lines()
    _run_next_sitecustomize()


def _note_lines() -> None:
    """In an engagement launch of a code change, in every process: which of its lines are executed."""
    request = os.environ.get(_LINES)
    if request:
        try:
            from importlib.util import module_from_spec, spec_from_file_location

            spec = spec_from_file_location("_infra_agent_lines", os.path.join(_HERE, "lines.py"))  # noqa: PTH118
            if spec is not None and spec.loader is not None:
                module = module_from_spec(spec)
                spec.loader.exec_module(module)
                module.start(request)
        except Exception:
            pass


if __name__ == "sitecustomize":
    _main()
