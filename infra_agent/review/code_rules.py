"""The table of rules: which words and constructs in a changed statement make a code change risky, and why.

Words are matched whole, in the parts of a name (`max_tokens` is `max` and `tokens`); `names` are whole names. `match`
and `differ` are examples, before and after, that each rule must and must not find; the tests run them.

Covered: the classes of the design's table, each by what the changed statements say.
Not covered: what a change does at a distance. The answer check and the load rung see that.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from infra_agent.stack.engines.base import RiskClass

Example = tuple[str, str]
_ARITHMETIC = (ast.BinOp, ast.AugAssign, ast.UnaryOp)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One reason for a class. `numeric_only`: it holds where the sources compute with tensors or arrays."""

    risk: RiskClass
    why: str
    words: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    nodes: tuple[type[ast.AST], ...] = ()
    numeric_only: bool = False
    match: tuple[Example, ...] = field(default=())
    differ: tuple[Example, ...] = field(default=())


RULES: tuple[Rule, ...] = (
    Rule(
        risk=RiskClass.NUMERICS,
        why="names a data type, a precision or a tolerance",
        words=_words(
            "dtype float16 float32 float64 bfloat16 bf16 fp16 fp32 fp64 fp8 fp4 int4 int8 half tf32 precision quant"
            " quantize quantized quantization dequant dequantize autocast amp eps epsilon rtol atol tolerance round"
            " rounding"
        ),
        match=(
            ("y = f(x)", "y = f(x.half())"),
            ("y = f(x, torch.float32)", "y = f(x, torch.bfloat16)"),
            ("y = f(x)", "y = f(x, eps=1e-6)"),
            ("a.allow_tf32 = False", "a.allow_tf32 = True"),
            ("y = x", "y = round(x, 3)"),
        ),
        differ=(("y = f(x)", "y = g(x)"), ("y = f(background)", "y = f(around)")),
    ),
    Rule(
        risk=RiskClass.NUMERICS,
        why="changes how numbers are multiplied, reduced or drawn",
        words=_words(
            "matmul einsum bmm addmm gemm softmax logsumexp logits cumsum cumprod norm layernorm rmsnorm attention"
            " sdpa reduce reduction argmax topk softcap kernel kernels triton cuda sampling temperature seed rng"
            " random randint logprob logprobs"
        ),
        nodes=(ast.MatMult,),
        match=(
            ("y = a(q)", "y = softmax(q)"),
            ("y = q", "y = q @ k"),
            ("y = pick(p)", "y = random.choice(p)"),
            ("y = f(temperature)", "y = g(temperature)"),
        ),
        differ=(("y = f(x)", "y = f(z)"),),
    ),
    Rule(
        risk=RiskClass.NUMERICS,
        why="changes arithmetic in sources that compute with tensors",
        words=_words("sum mean var std prod dot mm max min exp log sqrt pow scale scan sort"),
        nodes=_ARITHMETIC,
        numeric_only=True,
        match=(("y = a * b + c", "y = c + a * b"), ("y = f(x)", "y = x.sum()"), ("y = x", "y = -x")),
        differ=(("y = f(x)", "y = g(x)"),),
    ),
    Rule(
        risk=RiskClass.CONCURRENCY,
        why="touches threads, locks, tasks or what they share",
        words=_words(
            "thread threads threading lock locks locked rlock mutex semaphore barrier executor executors pool worker"
            " workers async asyncio await aio coroutine task tasks future futures queue queues atomic gil nogil"
            " process processes multiprocessing concurrent synchronize synchronized daemon signal fork spawn shared"
            " volatile event events wait notify gather uvloop trio anyio"
        ),
        names=_words("run_in_executor to_thread create_task ensure_future call_soon callback add_done_callback"),
        nodes=(ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef, ast.Global, ast.Nonlocal),
        match=(
            ("y = f(x)", "y = pool.submit(f, x)"),
            ("with self._lock:\n    y = f(x)", "with self._lock:\n    pass\ny = f(x)"),
            ("def h():\n    x = 1", "def h():\n    global x\n    x = 1"),
            ("s = HTTPServer(a, h)", "s = ThreadingHTTPServer(a, h)"),
            ("def h():\n    f()", "async def h():\n    f()"),
        ),
        differ=(("def h():\n    time.sleep(0.1)\n    return f()", "def h():\n    return f()"),),
    ),
    Rule(
        risk=RiskClass.CONCURRENCY,
        why="touches streams of an accelerator",
        words=_words("stream streams"),
        numeric_only=True,
        match=(("y = f(x)", "y = f(x, stream=s)"),),
        differ=(("y = f(x)", "y = g(x)"),),
    ),
    Rule(
        risk=RiskClass.MEMORY,
        why="changes what is kept in memory, or how much",
        words=_words(
            "cache cached caches lru memo memoize memory mem buffer buffers capacity prealloc preallocate allocator"
            " alloc arena pinned page pages blocks maxsize gc offload swap evict eviction"
        ),
        match=(
            ("def f(x):\n    return g(x)", "@functools.lru_cache\ndef f(x):\n    return g(x)"),
            ("b = f(n)", "b = make_buffer(n)"),
            ("y = f(x)", "y = self._cache.get(x)"),
        ),
        differ=(("y = f(x)", "y = g(x)"),),
    ),
    Rule(
        risk=RiskClass.PRODUCTION,
        why="changes a limit, a time-out or what users and operators see",
        words=_words(
            "limit limits timeout timeouts deadline port host auth authorization token_secret cors argparse argument"
            " environ getenv environment version license header headers status route config configuration settings"
        ),
        names=_words("add_argument max_tokens max_length max_len max_model_len max_batch_size max_num_seqs min_tokens"),
        match=(
            ("f(timeout=3)", "f(timeout=30)"),
            ("y = body['max_tokens']", "y = body['max_tokens'] - 1"),
            ("p = x", "p = os.environ['X']"),
        ),
        differ=(("y = f(x)", "y = g(x)"),),
    ),
    Rule(
        risk=RiskClass.PRODUCTION,
        why="changes how errors are raised or handled",
        nodes=(ast.Raise, ast.Assert, ast.Try, ast.TryStar, ast.ExceptHandler),
        match=(
            ("def f(x):\n    assert x\n    return x", "def f(x):\n    return x"),
            ("f()", "try:\n    f()\nexcept OSError:\n    pass"),
            ("def f():\n    raise ValueError", "def f():\n    return 0"),
        ),
        differ=(("y = f(x)", "y = g(x)"),),
    ),
    Rule(
        risk=RiskClass.PRODUCTION,
        why="reaches outside the program, or changes code while it runs",
        words=_words(
            "subprocess socket ctypes cffi pickle marshal importlib urllib requests httpx ssl ftplib telnetlib"
        ),
        names=_words("eval exec compile __import__ globals locals setattr delattr popen system unlink rmtree remove"),
        match=(
            ("y = f(x)", "y = eval(x)"),
            ("y = f(x)", "y = subprocess.run(x)"),
            ("a = 1", "setattr(m, 'f', g)"),
        ),
        differ=(("y = f(x)", "y = g(x)"),),
    ),
)
AROUND = frozenset({RiskClass.NUMERICS, RiskClass.CONCURRENCY})
"""Classes that a statement also has by the `with` blocks and decorators around it: a lock, a compiled kernel."""
LOCKS = _words("lock rlock semaphore condition barrier event queue executor pool thread process stream")
"""What a call makes that threads share: names that it is kept under are concurrency wherever they stand."""
NUMERIC_LIBRARIES = _words(
    "torch numpy jax jaxlib triton cupy tensorflow mlx numba scipy cutlass flashinfer xformers onnxruntime tinygrad"
    " vllm sglang transformers"
)
BUILD_FILES = _words("setup.py noxfile.py fabfile.py tasks.py conftest.py sitecustomize.py usercustomize.py")
