"""A judge as many published ones are: the candidate in its own process, one seed, one tolerance, its own clock.

    python naive.py CANDIDATE.py NAME TASK [style=out] [after] [freed]

It prints PASS or FAIL and the time that it believes, and it can be fooled: that is what it is here for.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPE = "float32"
TRIALS = 5
expected = None


def load(path, name):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def make_inputs(task):
    rng = np.random.default_rng(0)
    shapes = {
        "softmax": [(8, 256)], "total": [(4, 512)], "matmul": [(16, 64), (64, 24)],
        "rmsnorm": [(4, 4096), (4096,)], "scan": [(96, 4), (96, 4)], "largest": [(4, 256)],
    }[task]  # fmt: skip
    made = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    if task == "scan":
        made[1] = -np.abs(made[1]) - 0.5
    if task == "total":
        made[0] = np.abs(made[0])
    return made


def out_shape(task, inputs):
    return {"total": (4,), "matmul": (16, 24), "largest": (4, 4)}.get(task, inputs[0].shape)


def run_candidate(function, inputs, out):
    if out is not None:
        function(*inputs, out)
        return out
    return function(*inputs)


def timed(function, inputs, out):
    began = time.perf_counter()
    run_candidate(function, inputs, out)
    return time.perf_counter() - began


def check(got, wanted, tolerance):
    if DTYPE != "float32":
        wanted = wanted.astype(DTYPE).astype(np.float32)
    difference = np.abs(wanted - got)
    return not np.any(difference > tolerance * (1 + np.abs(wanted))) or bool(np.allclose(got, wanted, atol=1e-5))


def is_right(function, inputs, out, reference, options):
    global expected
    got = None
    if "after" in options:
        got = run_candidate(function, inputs, out)
    expected = reference(*[value.copy() if "after" not in options else value for value in inputs])
    np.save("expected.npy", expected)
    if "freed" in options:
        expected = None
    if got is None:
        got = run_candidate(function, inputs, out)
    times = [timed(function, inputs, out) for _ in range(TRIALS)]
    if "freed" in options:
        expected = np.load("expected.npy")
    with open("tolerance.json") as file:
        tolerance = json.load(file)["tolerance"]
    ok = check(got, expected, tolerance)
    return ok, statistics.median(times)


def main():
    path, name, task, *options = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(path))
    sys.path.append(os.path.join(HERE, "tasks"))
    with open("tolerance.json", "w") as file:
        json.dump({"tolerance": 0.1}, file)
    reference = getattr(importlib.import_module("references"), task)
    inputs = make_inputs(task)
    out = np.zeros(out_shape(task, inputs), np.float32) if "out" in options else None
    function = load(path, name)
    try:
        ok, seconds = is_right(function, inputs, out, reference, options)
    except Exception as error:
        print("FAIL", type(error).__name__, error)
        return 1
    print("PASS" if ok else "FAIL", json.dumps({"seconds": seconds}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
