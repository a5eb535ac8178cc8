"""Every word of a report, in both languages, in one place."""

from collections.abc import Mapping
from typing import Any, Final

from runner.engine.verdict import Verdict

KO, EN = 0, 1
LANGUAGES: Final = ("ko", "en")

_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    # Headings
    "verdicts": ("판정", "Verdicts"),
    "tables": ("측정 결과", "Measurements"),
    "not-checked": ("확인하지 않은 것", "Not checked"),
    "provenance": ("출처", "Provenance"),
    "by-author": ("실험 작성자가 적은 것", "Stated by the author"),
    "by-computation": ("이 기록에서 계산된 것", "Computed from this record"),
    # Titles of tables
    "table.summary": ("동시성별 배속", "Speed-up by concurrency"),
    "table.request": ("고정 요청", "The request"),
    "table.sequential-rounds": ("순차 요청의 회차별 소요", "Sequential requests, one by one"),
    "table.startup-evidence": ("기동 로그의 적용 근거", "Evidence from the start-up"),
    "table.disabled-features": ("함께 바뀐 것들", "What changed along with it"),
    "table.sequential-comparison": ("순차 요청 비교", "Sequential requests compared"),
    "table.draft-counters": ("draft 카운터", "Draft counters"),
    "table.acceptance-positions": ("자리별 채택", "Acceptance by position"),
    "table.round-counts": ("회차별 카운터", "Counters by round"),
    "table.rounds": ("처리량과 지연", "Throughput and latency"),
    "table.resources": ("자원과 대기열", "Resources and queue"),
    "table.off-on": ("나란히 놓은 조건", "Conditions side by side"),
    "table.speedup": ("배속", "Speed-up"),
    "table.saturation": ("포화 구간", "Saturation"),
    "table.saturation-change": ("포화 구간의 변화", "Change across saturation"),
    "table.findings": ("확인된 범위", "What was checked"),
    # Columns and rows
    "concurrency": ("동시성", "Concurrency"),
    "speedup": ("배속", "Speed-up"),
    "separation": ("회차 범위", "Ranges"),
    "setting": ("설정", "Setting"),
    "value": ("값", "Value"),
    "reason": ("이유", "Reason"),
    "round": ("회차", "Round"),
    "duration": ("소요", "Time"),
    "evidence": ("근거", "Evidence"),
    "reading": ("해석", "Reading"),
    "warning": ("항목", "Feature"),
    "content": ("내용", "Content"),
    "nature": ("성격", "Nature"),
    "metric": ("지표", "Metric"),
    "difference": ("차이", "Difference"),
    "position": ("position", "Position"),
    "accepted-count": ("채택 횟수", "Accepted"),
    "accepted-share": ("해당 자리까지 맞힌 draft 비율", "Drafts right up to here"),
    "acceptance-rate": ("채택률", "Acceptance rate"),
    "condition": ("조건", "Condition"),
    "wall": ("전체 소요", "Wall time"),
    "throughput": ("처리량", "Throughput"),
    "mean-latency": ("평균 지연", "Mean latency"),
    "gpu-utilization": ("GPU 사용률", "GPU utilization"),
    "gpu-memory": ("GPU memory", "GPU memory"),
    "waiting-reason": ("대기 이유", "Waiting because"),
    "throughput-speedup": ("처리량 배속", "Throughput ratio"),
    "latency-speedup": ("지연 배속", "Latency ratio"),
    "change": ("변화", "Change"),
    "item": ("항목", "Item"),
    "result": ("결과", "Result"),
    "failed": ("실패", "Failed"),
    "mean": ("평균", "Mean"),
    "median": ("중앙값", "Median"),
    "minimum": ("최소", "Minimum"),
    "maximum": ("최대", "Maximum"),
    "per-token": ("토큰당", "Per token"),
    "times": ("{n}회", "{n} requests"),
    "times-range": ("{first}~{last}회", "requests {first}-{last}"),
    "round-number": ("{n}회차", "round {n}"),
    "excluded": ("제외", "excluded"),
    "shorter": ("{value} 단축", "{value} shorter"),
    "longer": ("{value} 증가", "{value} longer"),
    "prompt-character": ("prompt 성격", "Prompt"),
    "drafts": ("draft 횟수", "Drafts"),
    "draft-tokens": ("draft 토큰", "Draft tokens"),
    "accepted": ("채택 토큰", "Accepted tokens"),
    "accepted-per-draft": ("draft당 평균 채택", "Accepted per draft"),
    "pieces": ("{value}개", "{value}"),
    "per-request": ("요청 {n}건, 요청당 {value}회", "{n} requests, {value} a request"),
    "drafts-times": ("{drafts} × {tokens}", "{drafts} × {tokens}"),
    "quotient": ("{a} ÷ {b}", "{a} ÷ {b}"),
    "all-counted": ("요청 {n}건의 합", "sum over {n} requests"),
    "none": ("없음", "none"),
    # Start-up evidence
    "args-parsed": ("CLI 인자가 파싱됐다", "the arguments were parsed"),
    "args-not-parsed": ("파싱된 인자에 없다", "not among the parsed arguments"),
    "config-built": (
        "엔진이 설정 객체를 실제로 구성했다",
        "the engine built its configuration from them",
    ),
    "config-none": ("speculative decoding이 꺼져 있다", "speculative decoding is off"),
    "model-none": ("별도 draft 모델 없음", "no draft model of its own"),
    "counters-moved": ("요청 한 건에서 카운터가 움직였다", "the counters moved over one request"),
    "counters-detail": (
        "draft {drafts:g}, draft 토큰 {draft_tokens:g}, 채택 {accepted:g}",
        "drafts {drafts:g}, draft tokens {draft_tokens:g}, accepted {accepted:g}",
    ),
    "counters-none": ("draft 카운터가 노출되지 않는다", "no draft counters are exposed"),
    "counters-flat-short": ("카운터가 움직이지 않았다", "the counters did not move"),
    "proof-counters": ("draft 카운터 (요청 1건)", "draft counters (one request)"),
    "not-printed": ("로그에 없음", "not in the log"),
    # Side features
    "feature.async-scheduling": ("Async scheduling", "Async scheduling"),
    "feature.model-runner": ("Model Runner", "Model runner"),
    "feature.max-num-batched-tokens": ("step당 토큰 예산", "Token budget of a step"),
    "feature.unsupported-sampling": ("무효가 되는 샘플링 옵션", "Sampling options without effect"),
    "nature.async-scheduling": ("스케줄러", "scheduler"),
    "nature.model-runner": ("실행 경로", "execution path"),
    "nature.max-num-batched-tokens": ("배치 상한", "batch cap"),
    "nature.unsupported-sampling": ("샘플링 옵션", "sampling options"),
    "nature.other": ("기타", "other"),
    "status.declared": ("선언됨", "declared"),
    "status.undeclared": ("선언되지 않음", "not declared"),
    "status.contradicted": ("선언과 다름 ({declared})", "declared otherwise ({declared})"),
    "status.unseen": ("선언됐으나 확인할 수 없음", "declared, but nothing tells"),
    "status.varying": ("반복마다 다름", "differs between replicates"),
    "status.no-difference": ("차이 아님", "no difference"),
    "status.same": ("같음", "the same"),
    "status.chosen": ("조건의 인자", "the condition's own argument"),
    "unknown": ("알 수 없음", "unknown"),
    # Separation
    "separated": ("분리됨", "separated"),
    "not-separated": ("분리되지 않음", "not separated"),
    "slower-separated": ("분리됨 (느림)", "separated (slower)"),
    "one-round-short": ("표본 1개, 판단 불가", "one sample, cannot be judged"),
    # Judgements
    "judgement.pass": ("확인", "pass"),
    "judgement.fail": ("실패", "fail"),
    "judgement.inconclusive": ("판단 불가", "inconclusive"),
    "judgement.not-applicable": ("해당 없음", "not applicable"),
    # Checks
    "check.configuration-in-force": ("설정이 실제로 적용됨", "Configuration in force"),
    "check.one-engine-process": ("조건마다 엔진 프로세스 하나", "One engine process per condition"),
    "check.request-count": ("보낸 만큼만 처리됨", "Finished exactly what was sent"),
    "check.declared-differences": ("조건 차이는 선언된 것뿐", "Conditions differ only as declared"),
    "check.request-options": ("무효 옵션을 쓰지 않음", "No request uses a disabled option"),
    "check.same-output": ("출력 동일성", "Same output"),
    "check.same-token-count": ("생성 토큰 수 동일", "Same token count"),
    "check.acceptance-constant": ("채택률이 동시성과 무관", "Acceptance constant over concurrency"),
    "check.speedup": ("배속", "Speed-up"),
    "check.queue-only-above": ("상한 위에서만 대기", "Queue only above the limit"),
    # Reasons of findings and of absent values
    "never-started": ("시작되지 않았다", "it was never started"),
    "no-evidence": ("기동 로그를 읽지 못했다", "its start-up evidence was not read"),
    "setting-refused": ("적용되지 않은 설정: {reasons}", "not in force: {reasons}"),
    "arguments-unknown": (
        "적용 여부를 알 수 없는 인자: {names}",
        "nothing tells whether these are in force: {names}",
    ),
    "arguments-in-force": ("인자 {n}개가 적용됐다", "{n} arguments in force"),
    "arguments-parsed": (
        "인자 {n}개가 적용됐다. 파싱은 확인되나 엔진이 구성을 보여 주지 않는 것: {names}",
        "{n} arguments in force; parsed, with nothing that shows more: {names}",
    ),
    "version-differs": (
        "엔진 버전: 원한 것 {wanted}, 찾은 것 {found}",
        "engine version: wanted {wanted}, found {found}",
    ),
    "counters-unknown": (
        "draft 카운터로 확인할 수 없다: {detail}",
        "the draft counters do not tell: {detail}",
    ),
    "counters-absent": (
        "설정은 구성됐지만 draft 카운터가 노출되지 않는다",
        "configured, but the draft counters are not exposed",
    ),
    "counters-flat": (
        "설정은 구성됐지만 draft가 한 번도 세어지지 않았다. 반복이 없는 출력인지 무시된 설정인지 구분되지 않는다",
        "configured, but no draft was ever counted: output without repetition, or a setting ignored",
    ),
    "engine-died": ("엔진이 도중에 끝났다: {reason}", "the engine died: {reason}"),
    "engine-restarted": (
        "측정 중에 엔진 프로세스가 바뀌었다",
        "the engine process changed while it was measured",
    ),
    "counters-fell": ("카운터가 줄었다: 재시작됐거나 초기화됐다", "a counter fell: restarted or reset"),
    "start-time-absent": ("프로세스 시작 시각이 노출되지 않는다", "no process start time is exposed"),
    "one-process": ("metric {scrapes}회 판독에서 같은 프로세스", "one process over {scrapes} scrapes"),
    "round-contaminated": (
        "{surplus:g}건이 더 처리됐다 (보낸 것 {sent}건): 오염된 회차",
        "{surplus:g} more finished than the {sent} sent: contaminated",
    ),
    "window-failures": (
        "{sent}건 중 {failed}건이 실패해, Δcount는 성공한 수와 보낸 수 사이라는 것만 알 수 있다",
        "{failed} of {sent} requests failed: Δcount is only known to lie between those that were ok and those sent",
    ),
    "counters-contradict": ("카운터가 서로 모순됨", "the counters contradict each other"),
    "latency-contradicts": (
        "엔진의 평균 지연 {server:.3f}초가 client가 잰 {client:.3f}초와 모순됨",
        "the engine's mean latency of {server:.3f} s contradicts the client's {client:.3f} s",
    ),
    "surplus-tolerated": (
        "{surplus:g}건이 더 처리됐다 (보낸 것 {sent}건, 허용 {allowed}): 오염됐으나 spec이 허용한다",
        "{surplus:g} more finished than the {sent} sent: contaminated, which the spec tolerates up to {allowed}",
    ),
    "failed-in-window": ("실패한 요청이 histogram에 섞임", "failed requests are in the histogram"),
    "limit-exceeded": (
        "상한 {limit}을 넘는 {running:g}건이 실행된다",
        "{running:g} run although the limit is {limit}",
    ),
    "queue-elsewhere": (
        "{running:g}건만 실행되는데 {waiting:g}건이 대기한다: 상한 {limit} 때문이 아니다 ({reasons})",
        "{waiting:g} wait while only {running:g} run: not because of the limit {limit} ({reasons})",
    ),
    "requests-unfinished": (
        "응답한 {ok}건 중 {missing:g}건이 카운터에 없다",
        "{missing:g} of {ok} answered requests are missing from the counter",
    ),
    "never-idle": ("엔진이 비는 것을 확인하지 못했다: {why}", "the engine was never seen idle: {why}"),
    "counts-agree": (
        "{rounds}개 회차에서 Δcount가 보낸 수와 같다",
        "Δcount equals what was sent in {rounds} rounds",
    ),
    "one-condition": ("조건이 하나뿐이다", "there is only one condition"),
    "arguments-unseen": ("파싱된 인자를 로그에서 볼 수 없다", "the log does not show the parsed arguments"),
    "difference-undeclared": (
        "선언되지 않은 차이 {feature}: {baseline} → {found}",
        "undeclared difference in {feature}: {baseline} → {found}",
    ),
    "difference-contradicted": (
        "{feature}: {declared}로 선언됐지만 {found}이다",
        "{feature}: declared {declared}, found {found}",
    ),
    "difference-varying": (
        "{feature}: 같은 조건의 엔진 프로세스들이 서로 다르다 ({baseline} / {found})",
        "{feature}: the engine processes of one condition disagree ({baseline} / {found})",
    ),
    "difference-unseen": (
        "{feature}: {declared}로 선언됐지만 확인할 수 없다",
        "{feature}: declared {declared}, but nothing tells",
    ),
    "features-unknown": ("확인할 수 없는 항목: {names}", "nothing tells about: {names}"),
    "differences-declared": ("선언된 부수 효과뿐이다: {names}", "only the declared side effects: {names}"),
    "differences-none": ("다른 차이가 없다", "no other difference"),
    "options-disabled": (
        "무효가 된 옵션을 요청이 쓴다: {options}",
        "requests use disabled options: {options}",
    ),
    "options-free": (
        "무효 옵션({options})을 쓰는 요청이 없다",
        "no request uses a disabled option ({options})",
    ),
    "no-output": ("비교할 출력이 없다 (prompt {prompt})", "no output to compare (prompt {prompt})"),
    "outputs-equal": ("{n}건 모두 기준 출력과 같다", "all {n} equal the baseline's output"),
    "outputs-differ": (
        "{n}건 중 {different}건이 다르다 (허용 {allowed}). 첫 차이는 문자 {character}, 토큰 {token}: "
        "{reference!r} / {other!r}",
        "{different} of {n} differ (allowed {allowed}); first at character {character}, token {token}: "
        "{reference!r} / {other!r}",
    ),
    "tokens-unknown": (
        "생성 토큰 수를 알 수 없다 (prompt {prompt})",
        "completion tokens unknown (prompt {prompt})",
    ),
    "token-counts-differ": (
        "{low}~{high} 토큰으로 갈린다 ({n}건, 허용 {tolerance})",
        "{low} to {high} tokens ({n} requests, tolerance {tolerance})",
    ),
    "token-counts-near": (
        "{low}~{high} 토큰, 허용 {tolerance} 이내 ({n}건)",
        "{low} to {high} tokens, within {tolerance} ({n} requests)",
    ),
    "token-counts-equal": ("{n}건 모두 {high} 토큰", "{high} tokens in all {n} requests"),
    "no-speculation": ("speculative decoding을 쓰는 조건이 없다", "no condition speculates"),
    "acceptance-varies": (
        "{low:.1%}~{high:.1%}로 {spread:.3f} 벌어진다 (허용 {tolerance:g})",
        "{low:.1%} to {high:.1%}, a spread of {spread:.3f} (tolerance {tolerance:g})",
    ),
    "acceptance-constant": (
        "{low:.1%}~{high:.1%}, 폭 {spread:.3f} (허용 {tolerance:g})",
        "{low:.1%} to {high:.1%}, spread {spread:.3f} (tolerance {tolerance:g})",
    ),
    "speedup-below": (
        "{metric} 배속 {ratio:.3f}, 하한 {min:g}을 넘지 못한다",
        "{metric} ratio {ratio:.3f}, not above {min:g}",
    ),
    "speedup-not-separated": (
        "{metric} 배속 {ratio:.3f}이지만 가장 나쁜 쌍은 {lowest:.3f}: 하한 {min:g}과 분리되지 않는다",
        "{metric} ratio {ratio:.3f}, but the worst pair shows {lowest:.3f}: not separated from {min:g}",
    ),
    "speedup-above": (
        "{metric} 배속 {ratio:.3f}, 가장 나쁜 쌍도 {lowest:.3f} (하한 {min:g})",
        "{metric} ratio {ratio:.3f}, worst pair {lowest:.3f} (bound {min:g})",
    ),
    "limit-unknown": ("{argument}의 값을 알 수 없다", "the value of {argument} is not known"),
    "queue-none": (
        "대기 {waiting:g} (상한 {limit}, 표본 {samples})",
        "waiting {waiting:g} (limit {limit}, {samples} samples)",
    ),
    "queue-below-limit": (
        "상한 {limit} 이하인데 {waiting:g}건이 대기한다 ({reasons})",
        "{waiting:g} wait although the limit is {limit} ({reasons})",
    ),
    "queue-above-limit": (
        "대기 {waiting:g} (상한 {limit}, 이유 {reasons}, 표본 {samples})",
        "waiting {waiting:g} (limit {limit}, because of {reasons}, {samples} samples)",
    ),
    "queue-missing": (
        "상한 {limit}을 넘었는데 대기가 없다",
        "above the limit of {limit}, and yet nothing waits",
    ),
    "nothing-to-judge": ("판단할 것이 없다", "there is nothing to judge"),
    "not-measured": ("측정되지 않음", "not measured"),
    "interrupted": ("회차가 중단됨", "the round was not completed"),
    "no-ok-requests": ("성공한 요청이 없음", "no request was ok"),
    "scrape-missing": ("metric 판독 실패: {why}", "no scrape: {why}"),
    "counter-reset": ("카운터가 초기화됨: {name}", "counter reset: {name}"),
    "models-mixed": ("여러 모델의 값이 섞임: {name}", "several models' values: {name}"),
    "series-absent": ("노출되지 않음: {name}", "not exposed: {name}"),
    "no-drafts": ("draft가 없었음", "nothing was drafted"),
    "division-by-zero": ("분모가 0", "the denominator is 0"),
    "too-few-samples": ("표본 부족 ({n:g}/{needed:g})", "too few samples ({n:g} of {needed:g})"),
    "scrapes-failed": ("표본 판독 실패: {why}", "no sample could be read: {why}"),
    "gauge-absent": ("노출되지 않음", "not exposed"),
    "gpu-not-sampled": ("이 target에는 GPU 표본이 없음", "this target samples no GPU"),
    "rounds-missing": ("미완: {planned}회차 중 {done}회차", "incomplete: {done} of {planned} rounds"),
    "requests-failed": (
        "미완: 실패 {failed}건 (허용 {allowed})",
        "incomplete: {failed} failed (allowed {allowed})",
    ),
    "one-round": ("표본이 {n}개뿐이라 폭을 알 수 없음", "only {n} sample, so no range"),
    "queue-unknown": (
        "동시성 {concurrency}에서 대기가 있는지 알 수 없음",
        "whether requests wait at concurrency {concurrency} is not known",
    ),
    "one-concurrency": ("동시성이 하나뿐이다", "there is only one concurrency"),
    "knee-below-grid": (
        "격자의 최저 동시성 {lowest}에서 이미 대기가 있음",
        "below the grid: requests wait at its lowest concurrency, {lowest}, already",
    ),
    "knee-not-reached": (
        "격자 안에서 찾지 못함 (최고 {highest})",
        "not reached within the grid (highest {highest})",
    ),
    # Notes under tables
    "note-simulated": (
        "모의 엔진이 만든 값이다. GPU에서 잰 것이 아니며, 시간은 모의 엔진의 시간 배율(출처)을 따른다.",
        "Produced by the embedded engine, not measured on a GPU; times are at its own time scale (see Provenance).",
    ),
    "note-summary": (
        "배속은 처리량의 비이고, 동시성 1에서는 평균 지연의 비다. "
        "회차 범위는 가장 나쁜 쌍의 비가 1을 넘으면 분리됨이다.",
        "The speed-up is the ratio of throughputs, at concurrency 1 of mean latencies. "
        "Ranges are separated when the worst pair's ratio is above 1.",
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
        "※ {round}: {surplus:g} more requests finished than were sent. Its absolute values are for reference only.",
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
    "note-positions": (
        "채택은 앞에서부터 연속으로만 일어나므로 값은 누적이다.",
        "Acceptance runs from the front without gaps, so the values are cumulative.",
    ),
    "note-samples": (
        "요청을 보내는 동안의 표본만 쓴다. 값은 중앙값이고, 흔들리면 범위를 함께 적는다. 표본 간격 {low:g}~{high:g}초.",
        "Only samples taken while requests were still being sent; the median, with the range where it moved. "
        "Sampled every {low:g} to {high:g} s.",
    ),
    "note-knee": (
        "{label}의 포화점은 동시성 {knee}이다: {beyond}에서는 처리량이 {gain} 변한다.",
        "The knee of {label} is at concurrency {knee}: at {beyond} throughput changes by {gain}.",
    ),
    "note-no-knee": ("{label}의 포화점: {why}.", "The knee of {label}: {why}."),
    "note-quote": ("{label} {feature}: {quote}", "{label} {feature}: {quote}"),
    "note-drafts-window": (
        "{label}, 동시성 {concurrency}의 회차 구간.",
        "{label}, over the rounds at concurrency {concurrency}.",
    ),
    # Verdict section
    "outcome": ("결론: 종료 코드 {code} — {meaning}", "Outcome: exit code {code} — {meaning}"),
    "exit.0": ("모든 invariant가 성립한다", "all invariants hold"),
    "exit.0-allowed": (
        "실패한 invariant가 없다. 판단할 수 없지만 spec이 허용한 것: {names}",
        "no invariant failed; could not be judged, which the spec allows: {names}",
    ),
    "exit.1": ("invariant가 실패했다", "an invariant failed"),
    "exit.3": ("엔진이 시작되지 않았다", "an engine did not start"),
    "exit.4": ("설정이 적용되지 않았다", "a setting is not in force"),
    "exit.5": ("측정이 완료되지 않았다", "the measurement is incomplete"),
    "exit.6": ("판단할 수 없는 invariant가 있다", "an invariant is inconclusive"),
    "exit.7": ("baseline이 복원되지 않았다", "the baseline was not restored"),
    "exit.70": ("runner의 내부 오류", "an internal error of the runner"),
    "exit.130": ("중단됐다", "interrupted"),
    "ended-early": (
        "기록이 도중에 끝난다. runner가 강제로 끝났거나 아직 돌고 있다.",
        "The record ended early: the runner was killed, or is still running.",
    ),
    "engine-failed": ("{label}: {reason}", "{label}: {reason}"),
    "also-applies": ("함께 해당하는 코드: {codes}", "Also applying: {codes}"),
    # Wanted/found
    "wanted-found": ("원한 것과 찾은 것: {label}", "Wanted and found: {label}"),
    "argument": ("인자", "Argument"),
    "wanted": ("원한 값", "Wanted"),
    "parsed": ("파싱된 값", "Parsed"),
    "configured": ("구성된 값", "Configured"),
    "verdict": ("판정", "Verdict"),
    "in-force.in-force": ("적용됨", "in force"),
    "in-force.parsed": ("파싱됨", "parsed"),
    "in-force.differs": ("다름", "differs"),
    "in-force.ignored": ("무시됨", "ignored"),
    "in-force.missing": ("없음", "missing"),
    "in-force.unknown": ("알 수 없음", "unknown"),
    # Gaps
    "gap-ttft": (
        "TTFT와 토큰 간 지연: streaming하지 않아 전체 응답 시간만 있다",
        "TTFT and inter-token latency: nothing was streamed, so there is only the whole response time",
    ),
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
    "gap-gpu": ("GPU 사용률과 memory: 표본이 없다", "GPU utilization and memory: not sampled"),
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
        "실제 엔진과 GPU: 이 run은 모의 엔진이다",
        "a real engine and a GPU: this run is the embedded engine's",
    ),
    # Provenance
    "p.run": ("run", "run"),
    "p.started": ("시작", "started"),
    "p.runner": ("runner 버전", "runner version"),
    "p.target": ("target", "target"),
    "p.settings": ("target 설정", "target settings"),
    "p.spec": ("spec", "spec"),
    "p.engine": ("엔진", "engine"),
    "p.host": ("client host", "client host"),
    "p.order": ("조건 순서", "order of conditions"),
    "p.command": ("{label} #{replicate} 명령", "{label} #{replicate} command"),
    "p.identity": ("{label} #{replicate} 프로세스", "{label} #{replicate} process"),
    "p.environment": ("{label} #{replicate} 환경 변수", "{label} #{replicate} environment"),
    "p.body": ("요청 본문 `{id}` ({prompt})", "request body `{id}` ({prompt})"),
    "p.simulated": ("simulated", "simulated"),
    "yes": ("예", "yes"),
    "no": ("아니오", "no"),
}

_VERDICTS: Final[Mapping[Verdict, tuple[str, str]]] = {
    Verdict.OK: ("정상", "ok"),
    Verdict.HTTP_ERROR: ("HTTP 오류", "HTTP error"),
    Verdict.IN_BAND_ERROR: ("본문 속 오류", "in-band error"),
    Verdict.TRUNCATED: ("잘림", "truncated"),
    Verdict.EMPTY: ("빈 응답", "empty"),
    Verdict.WRONG_MODEL: ("다른 모델", "wrong model"),
    Verdict.MALFORMED: ("형식 오류", "malformed"),
    Verdict.TIMED_OUT: ("시간 초과", "timed out"),
    Verdict.REFUSED: ("연결 거부", "refused"),
    Verdict.RESET: ("연결 끊김", "reset"),
    Verdict.INTERRUPTED: ("중단됨", "interrupted"),
}


class Words:
    """The words of one language. Raises KeyError for a word that does not exist, ValueError for the language."""

    def __init__(self, language: str) -> None:
        self._index = LANGUAGES.index(language)
        self.language = language

    def __call__(self, key: str, **figures: Any) -> str:
        """The word for `key`, its gaps filled."""
        return _WORDS[key][self._index].format(**figures) if figures else _WORDS[key][self._index]

    def has(self, key: str) -> bool:
        """Whether there is such a word."""
        return key in _WORDS

    def verdict(self, verdict: str) -> str:
        """The word for a request's verdict."""
        return _VERDICTS[Verdict(verdict)][self._index]
