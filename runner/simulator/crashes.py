"""How vLLM looks when it does not start: argparse's two lines, or a traceback that nobody caught, and the exit code.

What nobody catches goes to stderr without a logger's header; 0.26.0 puts the process's name before it all the same,
later releases do not. Forms and texts are as recorded (``tests/recordings/crashes``), but for these: the tracebacks are
shortened to three frames; the words of ``bad-model`` are those of transformers for a name that the hub does not know
(``utils/hub.py``; the recording was made without a network), and those of ``cuda-oom`` are torch 2.11's.
"""

from __future__ import annotations

import os
import sys

from runner.simulator import log
from runner.simulator.profile import Host
from runner.simulator.release import Release

_MAIN = (
    ("vllm/entrypoints/cli/main.py", "main", "args.dispatch_function(args)"),
    ("vllm/entrypoints/openai/api_server.py", "run_server", "await run_server_worker(listen_address, sock, args)"),
)
_CONFIG = (*_MAIN, ("vllm/engine/arg_utils.py", "create_engine_config", "config = VllmConfig("))
_START = (*_MAIN, ("vllm/v1/engine/utils.py", "wait_for_engine_startup", "raise RuntimeError("))
_CORE = (
    (
        "vllm/v1/engine/core.py",
        "run_engine_core",
        "engine_core = EngineCoreProc(*args, engine_index=dp_rank, **kwargs)",
    ),
)
_WRAPS_ITS_STREAMS = "0.26.0"
_MIB = 2**20
_GIB = 2**30


def crash(error: str, release: Release) -> int:
    """The API server dies of an exception, `error` in Python's words; the exit code."""
    _uncaught("APIServer", _traceback(_CONFIG, error), release)
    return 1


def raised(words: str) -> str:
    """The last lines of the traceback: what a configuration class of vLLM finds wrong comes as pydantic's error."""
    if words.startswith("1 validation error"):
        return f"pydantic_core._pydantic_core.ValidationError: {words}"
    if words in _OF_SPECULATION:
        return _VALIDATION.format(words=words)
    return f"ValueError: {words}"


_OF_SPECULATION = (
    "num_speculative_tokens was provided but without speculative model.",
    "num_speculative_tokens must be provided with speculative model unless the draft model config contains an "
    "n_predict parameter.",
)
_VALIDATION = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\n"
    "  Value error, {words} [type=value_error, "
    "input_value=ArgsKwargs((), {{'num_spec..., _api_process_rank=0)}}), input_type=ArgsKwargs]\n"
    "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
)


def crash_of_core(error: str, release: Release) -> int:
    """The engine core dies of an exception, and the API server of that; the exit code."""
    traceback = _traceback(_CORE, error)
    log.core("ERROR", "core.py:1330", f"EngineCore failed to start.\n{traceback}")
    _uncaught("EngineCore", f"Process EngineCore:\n{traceback}", release)
    cause = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    _uncaught("APIServer", _traceback(_START, cause), release)
    return 1


def bad_flag() -> int:
    """Fault ``crash-at-start`` with bad-flag: argparse's words for a flag that nobody knows; the exit code."""
    sys.stderr.write(
        "usage: vllm [-h] [-v]\n"
        "            {chat,complete,serve,launch,bench,collect-env,run-batch} ...\n"
        "vllm: error: unrecognized arguments: --no-such-flag\n"
    )
    return 2


def crash_at_start(kind: str, model: str, host: Host, release: Release) -> int:
    """Fault ``crash-at-start``: `kind` is cuda-oom, bad-model or bad-config; the exit code."""
    if kind == "cuda-oom":
        return crash_of_core(f"torch.OutOfMemoryError: {_out_of_memory(host)}", release)
    if kind == "bad-model":
        return crash(
            f"OSError: {model} is not a local folder and is not a valid model identifier listed on "
            "'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a token having "
            "permission to this repo either by logging in with `hf auth login` or by passing `token=<your_token>`",
            release,
        )
    return crash(raised(_OF_SPECULATION[0]), release)


def _out_of_memory(host: Host) -> str:
    wanted, free, unused = 594 * _MIB, 411 * _MIB, 53 * _MIB
    used = host.memory_bytes - free
    allocated = used - unused - host.non_torch_bytes
    return (
        f"CUDA out of memory. Tried to allocate {wanted / _MIB:.2f} MiB. GPU 0 has a total capacity of "
        f"{host.memory_bytes / _GIB:.2f} GiB of which {free / _MIB:.2f} MiB is free. Including non-PyTorch memory, "
        f"this process has {used / _GIB:.2f} GiB memory in use. Of the allocated memory {allocated / _GIB:.2f} GiB is "
        f"allocated by PyTorch, and {unused / _MIB:.2f} MiB is reserved by PyTorch but unallocated. If reserved but "
        "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
        "fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
        "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )


def _traceback(frames: tuple[tuple[str, str, str], ...], error: str) -> str:
    lines = "".join(f'  File "{path}", in {function}\n    {code}\n' for path, function, code in frames)
    return f"Traceback (most recent call last):\n{lines}{error}"


def _uncaught(process: str, text: str, release: Release) -> None:
    prefix = f"({process} pid={os.getpid()}) " if release.version == _WRAPS_ITS_STREAMS else ""
    sys.stdout.flush()
    sys.stderr.write("".join(f"{prefix}{line}\n" for line in text.split("\n")))
    sys.stderr.flush()
