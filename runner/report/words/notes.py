"""Sentences under tables, and what a run did not check."""

from collections.abc import Mapping
from typing import Final

NOTES: Final[Mapping[str, tuple[str, str]]] = {
    # Notes under tables
    "note-simulated": (
        "모의 엔진이 만든 값이다. GPU에서 잰 것이 아니며, 시간은 모의 엔진의 시간 배율을 따른다.",
        "Produced by the embedded engine, not measured on a GPU; times are at its own time scale.",
    ),
    "note-summary": (
        "배속은 처리량의 비이고, 동시성 1에서는 평균 지연의 비다. "
        "회차 범위는 가장 나쁜 쌍의 비가 1을 넘고, 같은 배치가 도는 다른 동시성(max-num-seqs 이상)에서도 그러면 "
        "분리됨이다.",
        "The speed-up is the ratio of throughputs, at concurrency 1 of mean latencies. Ranges are separated when the "
        "worst pair's ratio is above 1, here and at every other concurrency that runs the same batch (max-num-seqs or "
        "more).",
    ),
    "note-differs": (
        "{label}이 기준과 다른 점: {names}.",
        "{label} differs from the baseline by {names}.",
    ),
    "note-chance": (
        "회차가 {base}개와 {other}개면, 같은 두 조건도 우연히 {chance:.0%}의 확률로 분리된다 (동시성 1 제외).",
        "With {base} and {other} rounds, two equal conditions are separated by chance in {chance:.0%} of the cells "
        "(concurrency 1 apart).",
    ),
    "note-confounded": (
        "{label}은 교란된 비교다: {features}도 함께 달라졌다. 배속은 이들의 몫을 포함하며, 나눌 수 없다.",
        "The comparison of {label} is confounded: {features} changed along with it. "
        "The speed-up includes their doing, and this run cannot tell how much.",
    ),
    "note-excluded": (
        "제외된 요청 앞에 이미 토큰 하나짜리 확인과 요청 한 건이 있었으므로, 재기동 직후의 첫 요청은 아니다.",
        "A one-token probe and one whole request came before the excluded ones: they are not the first of the process.",
    ),
    "note-window-counted": (
        "{phase}: Δcount의 구간은 warm-up {warm}건을 포함한다. 정상값은 {warm} + {requests} = {total}.",
        "{phase}: the window of Δcount includes {warm} warm-up; expected is {warm} + {requests} = {total}.",
    ),
    "note-window-plain": (
        "{phase}: Δcount의 구간은 측정 요청 {requests}건이다.",
        "{phase}: the window of Δcount is the {requests} measured requests.",
    ),
    "note-contaminated": (
        "※ {round}: 보낸 것보다 {surplus:g}건이 더 처리됐다. 절대값은 참고만 하고 비만 판단에 쓴다.",
        "※ {round}: {surplus:g} more requests finished than were sent. Its absolute values are for reference only, "
        "its ratios are judged.",
    ),
    "note-contaminated-kind": (
        "Δdraft ÷ Δcount는 {own}로, 다른 회차의 {siblings}와 {same}.",
        "Δdraft ÷ Δcount is {own}, and the other rounds' is {siblings}: {same}.",
    ),
    "same-kind": ("같다", "the same kind of request"),
    "other-kind": ("다르다", "another kind of request"),
    "note-tolerated": (
        "‡ {cell}: 실패한 요청 {failed}건을 spec이 허용했다. 걸린 시간은 처리량에 들어 있다.",
        "‡ {cell}: {failed} requests failed, which the spec tolerates; the time they took is in the throughput.",
    ),
    "note-failed": ("‡ {cell}: {detail}.", "‡ {cell}: {detail}."),
    "note-absent-drafts": (
        "speculative decoding이 꺼진 엔진은 draft 카운터를 노출하지 않는다. 없는 것은 0이 아니다.",
        "An engine without speculation exposes no draft counters. Absent is not 0.",
    ),
    "note-latency": (
        "평균 지연은 엔진 histogram의 Δsum ÷ Δcount이며, 동시성 1에서만 client가 잰 평균이다.",
        "Mean latency is Δsum ÷ Δcount of the engine's histogram; at concurrency 1 it is the client's mean.",
    ),
    "note-quantiles": (
        "모든 회차의 정상 측정 요청을 한데 모은 분위수다. n은 요청 수이며, ITL은 토큰 수, chunk 간격은 간격 수다. "
        "p90은 값 10개, p99는 100개부터 적는다.",
        "Quantiles over the ok measured requests of all rounds together. n counts requests, for ITL tokens, for chunk "
        "gap gaps; p90 takes 10 values and p99 takes 100.",
    ),
    "note-not-streamed": (
        "{levels}: streaming하지 않아 토큰의 지연은 없고 E2E만 있다.",
        "{levels}: not streamed, so that there is E2E alone and nothing of tokens.",
    ),
    "note-client": (
        "회차와 프로세스 가운데 가장 나쁜 값이다. 달성한 동시 요청은 첫 전송부터 마지막 전송까지의 평균이다.",
        "Of several rounds and processes the worst. Achieved is the mean number in flight from the first sending to "
        "the last.",
    ),
    "note-trouble": (
        "{round}: 회차 중에 보인 문제 — {kind}, 요청 {index} ({detail}).",
        "{round}: trouble seen while it ran — {kind}, request {index} ({detail}).",
    ),
    "stalled": ("멈춤", "stalled"),
    "note-positions": (
        "채택은 앞에서부터 연속으로만 일어나므로 값은 누적이다.",
        "Acceptance runs from the front without gaps, so the values are cumulative.",
    ),
    "note-samples": (
        "요청을 보내는 동안의 표본만 쓴다. GPU는 범위, 요청 수는 중앙값이고 흔들리면 범위를 함께 적는다. "
        "표본 간격 {low:g}~{high:g}초.",
        "Only samples taken while requests were still being sent: of the GPU the range, of requests the median, with "
        "the range where it moved. Sampled every {low:g} to {high:g} s.",
    ),
    "note-gpu-shared": (
        "† {cell}: 같은 GPU에 다른 프로세스가 있었다: {processes}. GPU 값은 그것까지 합한 값이고, 시간에도 그 몫이 "
        "들어 있을 수 있다.",
        "† {cell}: other processes were on the GPUs: {processes}. The GPUs' figures include them, and so may the "
        "times.",
    ),
    "gpu-process": ("GPU {gpu}의 pid {pid} ({name}, {memory})", "pid {pid} on GPU {gpu} ({name}, {memory})"),
    "gpu-tenant": ("GPU {gpu}의 {name} ({memory})", "{name} on GPU {gpu} ({memory})"),
    "gpu-process-unnamed": ("이름을 알 수 없음", "name not known"),
    "gpu-process-memory-unknown": ("memory를 알 수 없음", "memory not known"),
    "note-client-times": ("§ {names}: {why}.", "§ {names}: {why}."),
    "note-gpu-others": ("{labels}: {why}.", "{labels}: {why}."),
    "note-gpu-samples": (
        "GPU는 {low:g}~{high:g}초마다 읽었다.",
        "The GPUs were read every {low:g} to {high:g} s.",
    ),
    "note-gpus-several": (
        "{label}: GPU가 {n}개이며, memory는 합, 사용률은 평균이다.",
        "{label}: {n} GPUs, of which memory is the sum and utilization the mean.",
    ),
    "note-gpu-doubt": ("{label}: {why}.", "{label}: {why}."),
    "note-knee": (
        "{label}의 포화점은 동시성 {knee}이다: {beyond}에서는 처리량이 {gain} 변한다.",
        "The knee of {label} is at concurrency {knee}: at {beyond} throughput changes by {gain}.",
    ),
    "note-no-knee": ("{label}의 포화점: {why}.", "The knee of {label}: {why}."),
    "note-reconstruction": (
        "이 표는 복원이지 측정이 아니다. draft 스텝 하나가 채택 수 + 1개를 만든다는 동작을 전제로 한다.",
        "A reconstruction, not a measurement: it supposes that a draft step emits its accepted tokens and one more.",
    ),
    "note-step-cost": (
        "스텝 비용을 넣은 예측은 decode 스텝당 토큰 × (기준의 스텝 시간 ÷ 이 조건의 스텝 시간)이며, "
        "엔진 histogram에서 나온다.",
        "With the cost of a step: tokens per decode step × (step time of the baseline ÷ step time of this condition), "
        "all from the engine's histograms.",
    ),
    "note-few-waves": (
        "C={level}: 요청이 {waves}번의 파도로 끝나 동시성이 유지되는 구간이 짧다. 벽시계 역산은 과대평가된다.",
        "C={level}: only {waves} waves of requests, so that the concurrency is kept up for a small part of the round; "
        "the wall clock over-estimates.",
    ),
    "note-step-falls": (
        "C={low} → C={high}: 배속이 회차 간 흔들림보다 크게 줄었다.",
        "C={low} → C={high}: the speed-up falls by more than the rounds' spread.",
    ),
    "note-step-rises": (
        "C={low} → C={high}: 배속이 회차 간 흔들림보다 크게 늘었다.",
        "C={low} → C={high}: the speed-up rises by more than the rounds' spread.",
    ),
    "note-step-overlaps": (
        "C={low} → C={high}: 회차의 폭이 겹친다. 차이 없이 같은 자리로 읽는다.",
        "C={low} → C={high}: the rounds' ranges overlap; read as the same.",
    ),
    "note-step-within-noise": (
        "C={low} → C={high}: 폭은 겹치지 않지만, 같은 배치가 도는 동시성끼리 벌어진 만큼을 넘지 않는다.",
        "C={low} → C={high}: the ranges are apart, by no more than those of concurrencies that run the same batch.",
    ),
    "note-step-same-batch": (
        "C={low} → C={high}: 같은 배치가 도는데도 폭이 겹치지 않는다. 배속의 변화가 아니라 host의 흔들림이다.",
        "C={low} → C={high}: the ranges are apart although the same batch runs: the host's noise, no effect.",
    ),
    "note-step-unknown": ("C={low} → C={high}: {why}.", "C={low} → C={high}: {why}."),
    "note-operating-point": (
        "운영 지점은 동시성 {level}이다. {label} 기준 {rate}.",
        "The operating point is concurrency {level}: {rate} with {label}.",
    ),
    "note-one-round": (
        "{cells}: 한 회차의 값이라 흔들림을 알 수 없다.",
        "{cells}: the figure of one round, whose spread is not known.",
    ),
    "note-memory-cost": (
        "증가가 실행 요청 수를 따라 커지지 않으면, 요청당 값은 그 요청들의 몫이 아니다.",
        "Where the difference does not grow with the running requests, the quotient is no cost of theirs.",
    ),
    "note-quote": ("{label} {feature}: {quote}", "{label} {feature}: {quote}"),
    "note-drafts-window": (
        "{label}, 동시성 {concurrency}의 회차 구간.",
        "{label}, over the rounds at concurrency {concurrency}.",
    ),
    # The baseline
    "note-restore-how": ("방법: {how}, {seconds}.", "How: {how}, {seconds}."),
    "note-restore-meant": ("하려던 방법: {how}.", "How it was to be put back: {how}."),
    "note-restore-field": ("다른 필드: {field}", "A field that differs: {field}"),
    "by-hand": ("직접 되돌리려면: {command}", "To put it back by hand: {command}"),
    "note-warning": ("{source}의 경고 ({about}): {text}", "Warning of {source} ({about}): {text}"),
    # Gaps
    "gap-ttft": (
        "TTFT와 토큰 간 지연: streaming하지 않아 전체 응답 시간만 있다",
        "TTFT and inter-token latency: nothing was streamed, so there is only the whole response time",
    ),
    "gap-ttft-of": (
        "{phases}의 TTFT와 토큰 간 지연: streaming하지 않아 전체 응답 시간만 있다",
        "TTFT and inter-token latency of {phases}: not streamed, so there is only the whole response time",
    ),
    "gap-client-limit": (
        "{cells}에서 요청과 토큰이 걸린 시간: {why}",
        "how long requests and tokens take at {cells}: {why}",
    ),
    "gap-clock-user": (
        "{labels}의 응답이 도착한 정확한 시각: kernel이 아니라 client가 읽으면서 적었다 ({why})",
        "when exactly the replies of {labels} came in: the client stamped them as it read them, not the kernel ({why})",
    ),
    "clock-old": (
        "기록한 runner의 시계는 이것뿐이다",
        "the runner that recorded them had no other clock",
    ),
    "clock-unsaid": ("이유는 기록에 없다", "why is not in the record"),
    "gap-one-prompt": (
        "prompt가 하나뿐이라 다른 prompt로 일반화할 수 없다",
        "only one prompt: the result does not generalise to others",
    ),
    "gap-one-replicate": (
        "엔진 프로세스가 조건마다 하나뿐이라 재기동 간의 흔들림을 알 수 없다",
        "one engine process per condition: how much a restart changes is not known",
    ),
    "gap-order": (
        "조건을 한 순서로만 실행해 시간에 따른 변화와 조건의 효과가 섞일 수 있다",
        "conditions ran in one order only: drift over time and the condition's effect are mixed",
    ),
    "gap-confounded": (
        "{label}의 배속에서 {features}의 몫: 이를 나눌 대조 조건이 없다",
        "the share of {features} in the speed-up of {label}: there is no control condition that tells",
    ),
    "gap-controlled": (
        "{label}의 배속에서 {shared}의 몫: 이것이 같은 대조 조건 {control}에 대한 비는 {ratios}. 판정하지 않은 값이다",
        "the share of {shared} in the speed-up of {label}: against the control {control}, which shares them, it is "
        "{ratios}; not judged",
    ),
    "gap-log": (
        "{label}의 엔진 로그: 이 target에서는 볼 수 없다. 파싱된 인자와 무효 옵션은 알 수 없다",
        "the log of {label}: this target does not see it, and so neither the parsed arguments nor options without "
        "effect",
    ),
    "gap-transport": (
        "{labels}의 요청과 토큰이 걸린 시간: {why}",
        "how long requests and tokens of {labels} take: {why}",
    ),
    "gap-gpu": ("GPU 사용률과 memory: 표본이 없다", "GPU utilization and memory: not sampled"),
    "gap-gpu-why": ("GPU 사용률과 memory: {why}", "GPU utilization and memory: {why}"),
    "gap-gpu-of": ("{labels}의 GPU 사용률과 memory: {why}", "GPU utilization and memory of {labels}: {why}"),
    "gap-knee": ("{label}의 포화점: {why}", "the knee of {label}: {why}"),
    "gap-outputs": (
        "조건 사이의 출력 동일성: `same-output`을 요구하지 않았다",
        "whether the conditions gave the same output: `same-output` was not asked for",
    ),
    "gap-concurrency": (
        "동시성 {level}: 회차당 요청이 {requests}건뿐이라 그만큼만 동시에 실행된다",
        "concurrency {level}: a round has only {requests} requests, and no more were ever in flight",
    ),
    "gap-table": ("표 `{table}`: 해당하는 자료가 없다", "table `{table}`: there is nothing to put into it"),
    "gap-cell": ("{label} C={level}: {why}", "{label} C={level}: {why}"),
    "gap-simulated": (
        "실제 엔진과 GPU: 이 run은 모의 엔진{settings}이다",
        "a real engine and a GPU: this run is the embedded engine's{settings}",
    ),
}
