"""How vLLM looks when it does not start: a traceback in the log, and exit code 1."""

from __future__ import annotations

from runner.simulator import log

_FRAMES = (
    ("vllm/entrypoints/cli/main.py", "main", "args.dispatch_function(args)"),
    (
        "vllm/entrypoints/openai/api_server.py",
        "run_server",
        "await run_server_worker(listen_address, sock, args)",
    ),
    ("vllm/engine/arg_utils.py", "create_engine_config", "config = VllmConfig("),
)


def crash_with(role: log.Role, kind: str, message: str) -> int:
    """Print a traceback that ends in `kind: message`; the exit code."""
    lines = ["Traceback (most recent call last):"]
    for path, function, code in _FRAMES:
        lines += [f'  File "{path}", in {function}', f"    {code}"]
    lines += f"{kind}: {message}".split("\n")
    if role == "EngineCore":
        log.core("ERROR", "core.py:1227", "EngineCore failed to start.\n" + "\n".join(lines))
        log.api(
            "ERROR",
            "api_server.py:701",
            "Traceback (most recent call last):\n"
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        )
    else:
        log.api("ERROR", "api_server.py:701", "\n".join(lines))
    return 1


def crash_at_start(kind: str, model: str) -> int:
    """Fault ``crash-at-start``: `kind` is cuda-oom, bad-model or bad-flag; the exit code."""
    if kind == "cuda-oom":
        return crash_with(
            "EngineCore",
            "torch.OutOfMemoryError",
            "CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 22.49 GiB of which "
            "411.19 MiB is free. Including non-PyTorch memory, this process has 22.08 GiB memory in use.",
        )
    if kind == "bad-model":
        return crash_with(
            "APIServer",
            "OSError",
            f"{model} is not a local folder and is not a valid model identifier listed on "
            "'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a token having "
            "permission to this repo either by logging in with `hf auth login` or by passing `token=<your_token>`",
        )
    return crash_with(
        "APIServer",
        "ValueError",
        "num_speculative_tokens was provided but without speculative model.",
    )
