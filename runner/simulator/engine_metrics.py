"""The ``vllm:`` metrics (v1/metrics/loggers.py): names, labels, buckets, what moves them.

0.26.0 and 0.32.0 are as recorded; 0.33.0 has those of 0.32.0, by reading.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from runner.simulator.cache_labels import cache_labels
from runner.simulator.configuration import Configuration
from runner.simulator.exposition import Page
from runner.simulator.statistics import FinishedRequest, StepStatistics

BASE: Final = ("model_name", "engine")
ITERATION_BUCKETS: Final = (1, *(8 * 2**power for power in range(12)))
FIRST_TOKEN_BUCKETS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_TIME_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_BUCKETS: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
)  # fmt: skip
FINISHED_REASONS: Final = ("stop", "length", "abort", "error", "repetition")
PREEMPTION_BUCKETS: Final = (1, 2, 3, 4, 5, 10, 20)
CACHE_TIERS: Final = ("device", "host", "p2p", "disk", "external_unspecified")
PROMPT_SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")


def one_two_five(limit: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to `limit`."""
    buckets: list[int] = []
    power = 1
    while power <= limit:
        buckets += [power * step for step in (1, 2, 5) if power * step <= limit]
        power *= 10
    return buckets


class EngineMetrics:
    """Every series of one engine, at 0 from the start; `record` applies one step."""

    def __init__(self, configuration: Configuration, page: Page) -> None:
        self._page = page
        self._later = configuration.version != "0.26.0"
        self._labels = (configuration.served_model_names[0], "0")
        drafting = configuration.speculation
        if drafting:
            self._drafts = self._counter("spec_decode_num_drafts", "Number of spec decoding drafts.")
            self._draft_tokens = self._counter("spec_decode_num_draft_tokens", "Number of draft tokens.")
            self._accepted = self._counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.")
            self._accepted_at = self._counters(
                "spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens per draft position.",
                "position",
                tuple(str(position) for position in range(drafting.tokens)),
            )
        for name, what in (
            ("estimated_flops_per_gpu_total", "floating point operations per GPU"),
            ("estimated_read_bytes_per_gpu_total", "bytes read from memory per GPU"),
            ("estimated_write_bytes_per_gpu_total", "bytes written to memory per GPU"),
        ):
            self._counter(name, f"Estimated number of {what} (for Model Flops Utilization calculations).")
        self._make_gauges()
        self._make_counters()
        self._make_histograms(configuration.max_model_len)
        self._describe_cache(configuration)

    # -- making ------------------------------------------------------------------------------------------

    def _counter(self, name: str, text: str) -> tuple[Counter, Counter]:
        metric = self._page.counter(f"vllm:{name}", text, BASE)
        return metric, metric.labels(*self._labels)

    def _counters(
        self, name: str, text: str, label: str, values: tuple[str, ...]
    ) -> tuple[Counter, dict[str, Counter]]:
        metric = self._page.counter(f"vllm:{name}", text, (*BASE, label))
        return metric, {value: metric.labels(*self._labels, value) for value in values}

    def _gauge(self, name: str, text: str) -> tuple[Gauge, Gauge]:
        metric = self._page.gauge(f"vllm:{name}", text, BASE)
        return metric, metric.labels(*self._labels)

    def _gauges(self, name: str, text: str, label: str, values: tuple[str, ...]) -> tuple[Gauge, dict[str, Gauge]]:
        metric = self._page.gauge(f"vllm:{name}", text, (*BASE, label))
        return metric, {value: metric.labels(*self._labels, value) for value in values}

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...] | list[int]) -> tuple[Histogram, Histogram]:
        metric = self._page.histogram(f"vllm:{name}", text, BASE, buckets)
        return metric, metric.labels(*self._labels)

    def _make_gauges(self) -> None:
        self._running = self._gauge("num_requests_running", "Number of requests in model execution batches.")
        self._waiting = self._gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self._waiting_by_reason = self._gauges(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; "
            "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all "
            "reasons equals vllm:num_requests_waiting.",
            "reason",
            ("capacity", "deferred"),
        )
        sleep = self._gauges(
            "engine_sleep_state",
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
            "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
            "sleep_state",
            ("awake", "weights_offloaded", "discard_all"),
        )
        sleep[1]["awake"].set(1)
        self._kv_usage = self._gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")

    def _make_counters(self) -> None:
        queried, hit = "in terms of number of queried tokens.", "in terms of number of cached tokens."
        external = "External prefix cache {} from KV connector cross-instance cache sharing, "
        self._queries = self._counter("prefix_cache_queries", f"Prefix cache queries, {queried}")
        self._hits = self._counter("prefix_cache_hits", f"Prefix cache hits, {hit}")
        self._counter("external_prefix_cache_queries", external.format("queries") + queried)
        self._counter("external_prefix_cache_hits", external.format("hits") + hit)
        self._counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.")
        self._counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.")
        self._preemptions = self._counter("num_preemptions", "Cumulative number of preemption from the engine.")
        self._prompt_tokens = self._counter("prompt_tokens", "Number of prefill tokens processed.")
        self._prompt_sources = self._counters(
            "prompt_tokens_by_source", "Number of prompt tokens by source.", "source", PROMPT_SOURCES
        )
        self._prompt_cached = self._counter(
            "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."
        )
        if self._later:
            self._cached_by_tier = self._counters(
                "prompt_tokens_cached_by_source",
                "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to "
                "DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at "
                "admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
                "source",
                CACHE_TIERS,
            )
        self._generated = self._counter("generation_tokens", "Number of generation tokens processed.")
        self._success = self._counters(
            "request_success",
            "Count of successfully processed requests.",
            "finished_reason",
            FINISHED_REASONS,
        )
        if self._later:
            rejected = self._page.counter(
                "vllm:admission_rejections",
                "Number of admission attempts rejected by a queue limit, by reason.",
                ("model_name", "reason"),
            )
            for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
                rejected.labels(self._labels[0], reason)

    def _make_histograms(self, max_model_len: int) -> None:
        sizes = one_two_five(max_model_len)
        self._request_prompt = self._histogram("request_prompt_tokens", "Number of prefill tokens processed.", sizes)
        self._request_generated = self._histogram(
            "request_generation_tokens", "Number of generation tokens processed.", sizes
        )
        self._iteration = self._histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", ITERATION_BUCKETS
        )
        self._request_max_generated = self._histogram(
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            sizes,
        )
        self._request_n = self._histogram(
            "request_params_n", "Histogram of the n request parameter.", [1, 2, 5, 10, 20]
        )
        self._request_max_tokens = self._histogram(
            "request_params_max_tokens", "Histogram of the max_tokens request parameter.", sizes
        )
        self._first_token = self._histogram(
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            FIRST_TOKEN_BUCKETS,
        )
        self._interval = self._histogram(
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            TOKEN_TIME_BUCKETS,
        )
        self._per_output_token = self._histogram(
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            TOKEN_TIME_BUCKETS,
        )
        self._latency = self._histogram(
            "e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", REQUEST_BUCKETS
        )
        phase = "Histogram of time spent in {} phase for request."
        self._queue = self._histogram("request_queue_time_seconds", phase.format("WAITING"), REQUEST_BUCKETS)
        self._inference = self._histogram("request_inference_time_seconds", phase.format("RUNNING"), REQUEST_BUCKETS)
        self._prefill = self._histogram("request_prefill_time_seconds", phase.format("PREFILL"), REQUEST_BUCKETS)
        self._decode = self._histogram("request_decode_time_seconds", phase.format("DECODE"), REQUEST_BUCKETS)
        if self._later:
            self._request_preemptions = self._histogram(
                "request_num_preemptions",
                "Histogram of the number of times a request was preempted.",
                PREEMPTION_BUCKETS,
            )
        self._computed = self._histogram(
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            sizes,
        )

    def _describe_cache(self, configuration: Configuration) -> None:
        described = cache_labels(configuration)
        info = self._page.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", tuple(described))
        info.labels(*(str(value) for value in described.values())).set(1)

    # -- moving ------------------------------------------------------------------------------------------

    def record(self, step: StepStatistics) -> None:
        """Apply one step's statistics."""
        self._set(self._running, step.running)
        self._set(self._waiting, step.waiting)
        self._waiting_by_reason[1]["capacity"].set(step.waiting)
        self._page.changed(self._waiting_by_reason[0])
        self._set(self._kv_usage, step.kv_usage)
        self._add(self._queries, step.queried)
        self._add(self._hits, step.hits)
        if self._later and step.hits:
            self._cached_by_tier[1]["device"].inc(step.hits)
            self._page.changed(self._cached_by_tier[0])
        self._add(self._preemptions, step.preempted)
        self._add(self._generated, step.generated)
        self._record_drafts(step.drafts)
        computed = 0
        for prompt, cached, waited in step.first:
            computed += prompt - cached
            self._add(self._prompt_tokens, prompt)
            self._add(self._prompt_cached, cached)
            self._prompt_sources[1]["local_compute"].inc(prompt - cached)
            self._prompt_sources[1]["local_cache_hit"].inc(cached)
            self._page.changed(self._prompt_sources[0])
            self._observe(self._first_token, waited)
        for interval in step.intervals:
            self._observe(self._interval, interval)
        if step.produced:
            self._observe(self._iteration, computed + step.generated)
        for request in step.finished:
            self._record_finished(request)

    def _record_drafts(self, drafts: list[tuple[int, int]]) -> None:
        if not drafts:
            return
        self._add(self._drafts, len(drafts))
        for drafted, accepted in drafts:
            self._add(self._draft_tokens, drafted)
            self._add(self._accepted, accepted)
            for position in range(accepted):
                self._accepted_at[1][str(position)].inc()
        self._page.changed(self._accepted_at[0])

    def _record_finished(self, request: FinishedRequest) -> None:
        self._success[1][request.reason].inc()
        self._page.changed(self._success[0])
        for histogram, value in (
            (self._request_prompt, request.prompt_tokens),
            (self._request_generated, request.generated_tokens),
            (self._request_max_generated, request.generated_tokens),
            (self._request_n, 1),
            (self._request_max_tokens, request.max_tokens),
            (self._per_output_token, request.per_output_token),
            (self._latency, request.latency),
            (self._queue, request.queue),
            (self._inference, request.inference),
            (self._prefill, request.prefill),
            (self._decode, request.decode),
            (self._computed, request.computed_tokens),
        ):
            self._observe(histogram, value)
        if self._later:
            self._observe(self._request_preemptions, request.preemptions)

    def _add(self, counter: tuple[Counter, Counter], amount: float) -> None:
        if amount:
            counter[1].inc(amount)
            self._page.changed(counter[0])

    def _set(self, gauge: tuple[Gauge, Gauge], value: float) -> None:
        gauge[1].set(value)
        self._page.changed(gauge[0])

    def _observe(self, histogram: tuple[Histogram, Histogram], value: float) -> None:
        histogram[1].observe(value)
        self._page.changed(histogram[0])
