"""The embedded engine: an HTTP server shaped like vLLM, in its own process, with no model in it.

    python -m runner.simulator serve MODEL [flags of ``vllm serve``]

The arguments are those of the release and nothing else: its parser's data lies under ``schemas/vllm-serve``, and
:mod:`runner.simulator.simulated` lists which of them are acted on, which are refused because a figure would be a
lie, and which are taken with a remark. The simulator's own knobs are environment variables:

===========================  =================================================================================
``SIMULATOR_TIME_SCALE``     every step time is multiplied by it (float > 0, default 1.0)
``SIMULATOR_STARTUP_SECONDS``  how long the start takes before the port listens (float, default 0)
``SIMULATOR_VERSION``        the release to be: 0.26.0 (default), 0.32.0, 0.33.0; :mod:`runner.simulator.release`
``SIMULATOR_PROFILE``        the host and its step times: article (default), h200, cpu; :mod:`runner.simulator.profile`
``SIMULATOR_FAULTS``         JSON list of faults, see :mod:`runner.simulator.faults` (default none)
===========================  =================================================================================

vLLM's own variables that are honoured: ``VLLM_USE_V2_MODEL_RUNNER``, ``VLLM_SERVER_DEV_MODE``,
``VLLM_LOG_STATS_INTERVAL`` and, as far as the log mentions it, ``VLLM_USE_FLASHINFER_SAMPLER``.

What is real here: continuous batching, KV blocks and prefix caching, N-gram drafting and greedy acceptance,
counters, queues. What is simulated: the model (:mod:`runner.simulator.continuation` states its words) and
the time of a step (:mod:`runner.simulator.step_time`, fitted to measurements). Host and model are those of the
profile, whatever MODEL says; the default is one NVIDIA GPU of 23,034 MiB with a 3-billion-parameter AWQ model of
the Qwen2.5 shape.

Nothing here imports the rest of ``runner`` (but ``runner.resources``, which finds files) and nothing there imports
this package: a simulator and the program that reads it must not share code.
"""
