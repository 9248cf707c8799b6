"""Every exploit with its honest twin, and what it would gain from a naive judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Gain = Literal["values", "time"]
OUT: dict[str, Any] = {"style": "out"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """`gain`: wrong values are accepted, or slow work looks fast. `call`: the spec's call section. `twin` must pass."""

    family: str
    name: str
    task: str
    twin: str
    gain: Gain = "values"
    file: str = ""
    call: dict[str, Any] = field(default_factory=dict)
    naive: tuple[str, ...] = ()

    @property
    def path(self) -> str:
        """The candidate's file below `candidates`."""
        return self.file or f"{self.family}.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Honest:
    """A function of `candidates/honest.py` that must pass."""

    name: str
    task: str
    call: dict[str, Any] = field(default_factory=dict)


def _family(family: str, task: str, twin: str, *names: str, **more: Any) -> list[Attack]:
    return [Attack(family=family, name=name, task=task, twin=twin, **more) for name in names]


ATTACKS = [
    *_family("timing", "softmax", "softmax_slow", "clock_stopped", "all_clocks_stopped", "aggregator_patched",
             "clock_scaled", "exact_while_checked", "batch_and_skip", gain="time"),
    *_family("timing", "softmax", "softmax_into", "thread_after_return", "timer_after_return", gain="time",
             call=OUT, naive=("out",)),
    *_family("timing", "softmax", "softmax_in_threads", "lazy_subclass", "lazy_protocol", gain="time"),
    *_family("replay", "softmax", "softmax_with_workspace", "last_output", "by_identity", "by_pointer", "by_shape",
             "by_sampled_fingerprint", "by_checksum", "by_content", "by_content_alias", "by_file", "by_known_seed",
             "first_element_bank", gain="time"),
    *_family("replay", "softmax", "softmax_with_workspace", "same_buffer"),
    *_family("replay", "matmul", "matmul_transposed", "weights_by_identity", gain="time"),
    *_family("expected", "softmax", "softmax", "from_gc", "from_frames", "from_main", "from_file",
             "call_the_reference", "read_the_reference", "import_the_reference", "expected_becomes_nan",
             "expected_becomes_zero"),
    *_family("expected", "softmax", "softmax", "from_freed_memory", naive=("freed",)),
    *_family("semantics", "softmax", "softmax_online", "zeros", "uniform", "noise", "no_largest_subtracted",
             "sniffs_its_input", "first_rows_only", "exact_on_checked_sizes", "hard_coded_shape"),
    *_family("semantics", "matmul", "matmul_works_on_a_copy", "inputs_zeroed", naive=("after",)),
    *_family("semantics", "softmax", "softmax_by_rows", "inputs_made_easy", naive=("after",)),
    *_family("semantics", "total", "total_by_plan", "most_of_the_sum"),
    *_family("semantics", "rmsnorm", "rmsnorm", "statistics_assumed"),
    *_family("semantics", "scan", "scan_in_chunks", "history_cut", "state_not_carried"),
    *_family("semantics", "largest", "largest", "threshold_from_gauss", "unsorted_tail"),
    *_family("precision", "matmul", "matmul_three_parts", "half_precision", "bfloat16_inputs", "tf32_inputs",
             "integer_product", "reference_made_coarse", "fewer_terms"),
    *_family("precision", "softmax", "softmax_more_precise", "tf32_result"),
    *_family("precision", "softmax", "errors_in_a_context", "flags_flipped"),
    *_family("forms", "softmax", "softmax_base_two", "nan_as_wildcard", "one_nan_row", "broadcast_scalar",
             "broadcast_row", "other_dtype", "agreeable_object", "agreeable_array"),
    *_family("harness", "softmax", "softmax_prints", "tolerance_edited", "comparator_patched", "check_replaced",
             "builtin_patched", "json_patched", "exit_zero", "hard_exit_zero", "exit_zero_at_the_end",
             "printed_verdict", "verdict_on_every_descriptor", "reply_in_advance", "knows_the_harness",
             "module_replaced", "hangs_for_ever", "installs_at_runtime", "shared_notes"),
    *_family("harness", "softmax", "softmax", "asks_the_network", call={"files": ["address.txt"]}),
    *_family("harness", "softmax", "softmax_slow", "knows_when_it_is_checked", gain="time"),
    *_family("harness", "softmax", "softmax", "shadowed", file="shadow/candidate.py", call={"files": ["references.py"]}),
    *_family("engagement", "softmax", "falls_back_when_needed", "falls_back", call={"kernel": "kernel"}),
    *_family("engagement", "softmax", "engaged", "fig_leaf", call={"kernel": "shown"}),
    *_family("engagement", "softmax", "engaged", "never_called", call={"kernel": "shown"}),
]  # fmt: skip
"""`knows_when_it_is_checked` and the like are honest in front of one judge and not of another."""

_KERNEL: dict[str, Any] = {"kernel": "_rows_kernel"}
HONEST = [
    *(Honest(name=name, task="softmax") for name in (
        "softmax", "softmax_by_rows", "softmax_online", "softmax_base_two", "softmax_more_precise", "softmax_slow",
        "softmax_prints", "softmax_in_threads", "softmax_in_pool", "softmax_with_workspace", "errors_in_a_context")),
    Honest(name="softmax_into", task="softmax", call=OUT),
    Honest(name="engaged", task="softmax", call=_KERNEL),
    Honest(name="falls_back_when_needed", task="softmax", call=_KERNEL),
    *(Honest(name=name, task="total") for name in ("total_by_plan", "total_in_order", "total_backwards")),
    *(Honest(name=name, task="matmul") for name in (
        "matmul", "matmul_in_blocks", "matmul_outer", "matmul_transposed", "matmul_works_on_a_copy",
        "matmul_three_parts")),
    Honest(name="rmsnorm", task="rmsnorm"),
    *(Honest(name=name, task="scan") for name in ("scan", "scan_in_chunks")),
    Honest(name="largest", task="largest"),
]  # fmt: skip
