"""Names with a known meaning: what waits, what holds or lets go of the GIL, what needs it.

Covered: libc and POSIX, C++ standard library, CUDA, HIP and Ascend runtimes, NCCL, MPI, ZeroMQ, verbs; CPython,
pybind11, nanobind. Not covered: other libraries' blocking calls, unless their source is among the scanned files.
"""

from __future__ import annotations

import re


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


DEVICE_WAITS = {
    name: "waits for the device"
    for name in words(
        "cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize cuStreamSynchronize cuCtxSynchronize "
        "cuEventSynchronize hipStreamSynchronize hipDeviceSynchronize hipEventSynchronize aclrtSynchronizeStream "
        "aclrtSynchronizeDevice aclrtSynchronizeEvent aclrtSynchronizeStreamWithTimeout device_synchronize"
    )
} | {
    name: "copies or frees with an implied device synchronisation"
    for name in words(
        "cudaMemcpy cudaMemcpy2D cudaMemcpyToSymbol cudaMemcpyFromSymbol cuMemcpyDtoH cuMemcpyHtoD hipMemcpy "
        "aclrtMemcpy cudaFree cudaFreeHost cudaHostUnregister"
    )
}
IO_WAITS = {
    name: "blocking input or output"
    for name in words(
        "read pread readv write pwrite writev recv recvfrom recvmsg send sendto sendmsg accept accept4 connect "
        "poll ppoll select pselect epoll_wait epoll_pwait fread fwrite fgets getline fsync fdatasync flock lockf "
        "msgrcv mq_receive getaddrinfo gethostbyname sendfile splice zmq_recv zmq_msg_recv zmq_send zmq_poll "
        "curl_easy_perform ibv_get_cq_event rdma_get_cm_event io_uring_wait_cqe io_uring_submit_and_wait "
        "aio_suspend tcdrain"
    )
}
OTHER_WAITS = (
    {
        name: "sleeps"
        for name in words("sleep usleep nanosleep clock_nanosleep sleep_for sleep_until pause sigwait Sleep")
    }
    | {name: "waits for another process" for name in words("wait waitpid wait4 waitid system pclose popen")}
    | {
        name: "waits for another thread"
        for name in words(
            "pthread_cond_wait pthread_cond_timedwait pthread_join pthread_barrier_wait sem_wait sem_timedwait "
            "cnd_wait thrd_join WaitForSingleObject WaitForMultipleObjects"
        )
    }
    | {
        name: "waits for other ranks"
        for name in words(
            "MPI_Recv MPI_Send MPI_Ssend MPI_Wait MPI_Waitall MPI_Waitany MPI_Barrier MPI_Allreduce MPI_Bcast "
            "MPI_Allgather MPI_Alltoall MPI_Reduce MPI_Gather MPI_Scatter MPI_Probe MPI_Sendrecv ncclCommInitRank "
            "ncclCommInitAll nvshmem_barrier_all nvshmem_quiet nvshmemx_barrier_all_on_stream"
        )
    }
)
WAIT_CALLS = DEVICE_WAITS | IO_WAITS | OTHER_WAITS
"""Free functions that can block."""
PLAIN_WORDS = words("read write send recv connect accept poll select wait pause sleep system getline splice Sleep")
"""Names that are libc's only when nothing scanned defines them and they are called as free functions."""

METHOD_WAITS = {
    "synchronize": "waits for the device",
    "wait": "waits for another thread",
    "wait_for": "waits for another thread",
    "wait_until": "waits for another thread",
    "arrive_and_wait": "waits for other threads",
    "sync_wait": "waits for another thread",
    "Wait": "waits for another thread",
}
"""Methods that block whatever they are called on."""
FUTURE_TYPES = re.compile(r"\b(shared_)?future\b|\bFuture\b|\bpromise\b")
FUTURE_METHODS = frozenset({"get"})
THREAD_TYPES = re.compile(r"\b(j?thread)\b|\bThread\b")
SEMAPHORE_TYPES = re.compile(r"semaphore", re.IGNORECASE)
STREAM_TYPES = re.compile(r"\b(ifstream|fstream|ofstream|istream|tcp_socket|socket)\b", re.IGNORECASE)
STREAM_METHODS = words("read write getline flush recv send accept connect receive")

PAUSES = re.compile(
    r"\b(_mm_pause|__builtin_ia32_pause|yield|sched_yield|pause|cpu_relax|sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\("
    r"|\basm\b|__asm__"
)
CLOCK = re.compile(r"\bnow\s*\(|\bclock(_gettime)?\b|\bgettimeofday\b|elapsed|deadline|timeout|rdtsc|\btime\s*\(", re.I)
SIGNALS = re.compile(r"PyErr_CheckSignals|PyErr_Occurred")
POLL = re.compile(
    r"(^|_)(ready|done|completed?|finished|available|arrived|signall?ed|query|poll|test|try|pending|probe|progress|peek)"
    r"(_|$)|(Query|Poll|Ready|Done|Test|Completed?|Finished|Available|Iprobe|Testall|Arrived)$|^(try|poll|query)[A-Z]"
)
"""Names of functions that ask, at once, whether something has happened."""
FOREIGN_READS = re.compile(
    r"(__atomic_load|__sync_|ld_volatile|ld_acquire|READ_ONCE|atomic_load|load_acquire|volatile_load|test_and_set)"
)
TAKES = re.compile(r"^(read|recv|get_?next|next|pop|pop_front|pop_back|fread|getline|fgets|advance|step|erase|consume)")

LAUNCHES = words(
    "cudaLaunchKernel cudaLaunchKernelExC cudaLaunchKernelEx cuLaunchKernel cuLaunchKernelEx "
    "hipLaunchKernelGGL hipLaunchKernel hipModuleLaunchKernel cudaLaunchCooperativeKernel cudaGraphLaunch"
)
CHEAP = words(
    "cudaMemcpyAsync cudaMemsetAsync cudaEventRecord cudaStreamWaitEvent cudaEventQuery cudaStreamQuery "
    "hipMemcpyAsync hipEventRecord load store fetch_add fetch_sub exchange size data begin end empty push_back "
    "emplace_back at min max move forward swap abs get c_str front back notify_one notify_all"
)
STARTERS = words(
    "thread jthread async submit enqueue post dispatch_async push_task spawn add_task schedule detach defer "
    "launch_thread"
)
"""Calls whose function argument runs on another thread."""
RUN_NOW = words(
    "for_each transform all_of any_of none_of call_once invoke apply visit parallel_for accumulate sort "
    "generate find_if count_if remove_if partition"
)
"""Calls that run their function argument before they return."""

RELEASE = re.compile(r"\bgil_scoped_release\b")
ACQUIRE = re.compile(r"\bgil_scoped_acquire\b")
HOLDERS = re.compile(r"\b(optional|unique_ptr|shared_ptr)\s*<")
SAVE_CALLS = frozenset({"PyEval_SaveThread", "PyEval_ReleaseThread"})
RESTORE_CALLS = frozenset({"PyEval_RestoreThread", "PyEval_AcquireThread"})

NO_GIL_NEEDED = re.compile(
    r"^(Py(Eval_(Save|Restore|Acquire|Release)Thread|GILState_\w+|Mem_Raw\w+|Thread_\w+|Thread[A-Z]\w*)"
    r"|Py_(IsInitialized|AddPendingCall|GetVersion|UNUSED|IsFinalizing|FatalError\w*|ABS|MIN|MAX|ARRAY_LENGTH|SAFE_DOWNCAST))$"
)
PYTHON_CALL = re.compile(r"^(_?Py[A-Z]\w*_\w+|_?Py_[A-Z]\w*|_?Py_[a-z]\w*|THP\w+_\w+)$")
NAMESPACES = frozenset({"py", "pybind11", "nb", "nanobind"})
OBJECT_NAMES = words(
    "object list dict tuple str bytes bytearray set frozenset iterable array array_t function callable module_ "
    "int_ float_ bool_ none capsule args kwargs slice memoryview buffer sequence iterator type ellipsis "
    "weakref anyset staticmethod class_ any mapping"
)
OBJECT_TYPE = re.compile(rf"\b(?:py|pybind11|nb|nanobind)::(?:{'|'.join(OBJECT_NAMES)})\b|\bPyObject\b")
HANDLE_TYPE = re.compile(r"\b(?:py|pybind11|nb|nanobind)::(?:handle|ndarray)\b")
RAW_METHODS = words(
    "data mutable_data shape size ndim itemsize nbytes strides stride unchecked mutable_unchecked writeable "
    "ptr is is_none owndata view index_at offset_at release_raw device_type device_id dtype_raw"
)
"""Methods of array and handle types that read memory only and count no reference."""
RAW_ON = re.compile(r"\b(?:array|array_t|ndarray|handle|buffer_info)\b")
SAFE_FUNCTIONS = words(
    "gil_scoped_release gil_scoped_acquire value_error key_error type_error index_error stop_iteration "
    "import_error buffer_error attribute_error cast_error reference_cast_error next_overload ssize_t "
    "call_guard arg buffer_info format_descriptor init options return_value_policy keep_alive size_t rv_policy "
    "builtin_exception"
)
"""Names in pybind11 and nanobind that may be used without the GIL."""
