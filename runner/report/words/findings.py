"""Judgements, checks, their reasons, and why a figure is absent."""

from collections.abc import Mapping
from typing import Final

FINDINGS: Final[Mapping[str, tuple[str, str]]] = {
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
    "check.sequential-separated": ("순차 요청의 범위가 겹치지 않음", "Sequential requests do not overlap"),
    "check.positions-add-up": ("자리별 채택이 누적이고 합이 맞음", "Accepted by position add up"),
    "check.forward-model": ("forward 횟수와 비용이 배속을 설명함", "Steps and their cost explain the speed-up"),
    "check.latency-cross-check": ("벽시계와 histogram이 일치", "Wall clock and histogram agree"),
    "check.spread-below-effect": ("효과가 회차 간 흔들림보다 큼", "Effect above the rounds' spread"),
    "check.same-prefix-hits": ("prefix cache 적중률 동일", "Same prefix-cache hit ratio"),
    "check.memory-per-running": ("실행 요청당 memory", "GPU memory per running request"),
    "check.baseline-restored": ("baseline 원복", "Baseline in force again"),
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
    "process-shared": (
        "조건 {other}도 같은 서버 프로세스가 처리했다: 두 조건의 엔진 설정이 다르므로 둘 중 하나는 측정되지 않았다",
        "{other} was served by the same process, although the two start their engines differently",
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
    "counters-disagree": (
        "`{name}`은 {counted:g} 늘었는데 응답들의 합은 {answered}이다",
        "`{name}` moved by {counted:g}, while the replies add up to {answered}",
    ),
    "counts-agree": (
        "{rounds}개 회차에서 Δcount가 보낸 수와 같다",
        "Δcount equals what was sent in {rounds} rounds",
    ),
    "one-condition": ("조건이 하나뿐이다", "there is only one condition"),
    "arguments-unseen": ("파싱된 인자를 보여 주는 로그가 없다", "no log shows the parsed arguments"),
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
    "outputs-partly-kept": (
        "{n}건 중 {kept}건의 출력만 기록에 있고, 모두 기준 출력과 같다",
        "only {kept} of {n} texts are in the record; all of them equal the baseline's output",
    ),
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
    "speedup-not-confirmed": (
        "{metric} 배속 {ratio:.3f}이지만, 같은 배치가 도는 {levels}가 확인하지 않는다 (하한 {min:g})",
        "{metric} ratio {ratio:.3f}, but {levels}, where the same batch runs, does not confirm it (bound {min:g})",
    ),
    "speedup-above": (
        "{metric} 배속 {ratio:.3f}, 가장 나쁜 쌍도 {lowest:.3f} (하한 {min:g})",
        "{metric} ratio {ratio:.3f}, worst pair {lowest:.3f} (bound {min:g})",
    ),
    "nothing-to-restore": (
        "해당 없음: target {target}은 기존의 것을 바꾸지 않는다",
        "not applicable: the target {target} changes nothing that existed before",
    ),
    "never-restored": (
        "되돌려지지 않았다: 원복 전에 기록이 끝난다",
        "it was never put back: the record ends before",
    ),
    "restore-failed": ("되돌리지 못했다: {why}", "it could not be put back: {why}"),
    "baseline-differs": ("전과 다르다: {facts}", "it is not as it was: {facts}"),
    "baseline-fields-differ": (
        "전과 다르거나 그 사이 다른 누군가가 바꾼 필드: {fields}",
        "fields that are not as they were, or that somebody else changed meanwhile: {fields}",
    ),
    "baseline-unknown": (
        "전과 같은지 알 수 없는 것: {facts}",
        "nothing tells whether these are as they were: {facts}",
    ),
    "baseline-uncompared": (
        "되돌렸으나 전과 같은지 비교한 것이 없다",
        "it was put back, and nothing of it was compared with what it was",
    ),
    "baseline-removed": ("전에 없었고, 다시 없앴다", "it did not exist before, and was removed again"),
    "baseline-equal": (
        "되돌렸고, 비교한 {n}가지가 모두 전과 같다",
        "it was put back, and the {n} facts compared are as they were",
    ),
    "transport-doubted": (
        "{transport}(으)로 잰 시간은 엔진의 것이라고 할 수 없다: {why}",
        "times taken over {transport} are not the engine's: {why}",
    ),
    "client-limit": (
        "client가 한계였다: 요청 {asked}건이 동시에 실행되어야 했으나 평균 {achieved:.2f}건이었다",
        "the client was the limit: {achieved:.2f} requests in flight of the {asked} asked for",
    ),
    "client-lag": (
        "client가 한계였다: {lag:.4f}초 늦었고, 요청은 중앙값으로 {duration:.4f}초 걸렸다",
        "the client was the limit: it was {lag:.4f} s late, beside requests of {duration:.4f} s (median)",
    ),
    "clock-cannot-carry": (
        "시계의 오차 안에 있음: {low:.6f}~{high:.6f}초",
        "the clock cannot carry it: between {low:.6f} and {high:.6f} s",
    ),
    "clock-unknown": ("시계의 오차를 알 수 없음", "the error of the clock is not known"),
    "client-unwatched": ("client가 자신을 재지 않음", "the client did not watch itself"),
    "sent-at-once": ("모두 한꺼번에 보냄", "all were sent at once"),
    "not-streamed": ("streaming하지 않음", "not streamed"),
    "no-token-events": ("토큰이 담긴 event가 없는 응답이 있음", "a reply without an event that carried a token"),
    "event-tokens-unknown": (
        "event마다의 토큰 수를 server가 알려 주지 않음",
        "the server did not say how many tokens an event carried",
    ),
    "no-last-byte": ("마지막 바이트의 시각을 모르는 응답이 있음", "a reply whose last byte has no stamp"),
    "nothing-to-time": ("잴 것이 없음", "there is nothing to time"),
    "too-few-values": ("값 부족 ({needed}개 필요)", "too few values ({needed} needed)"),
    "not-said": ("system이 알려 주지 않음", "the system does not say"),
    "no-timer": ("회차가 너무 짧음", "the round was too short"),
    "no-read-lag": ("kernel 시각이 없음", "no stamps of the kernel"),
    "same-batch-unknown": (
        "같은 배치가 도는 {levels}를 알 수 없음",
        "{levels}, where the same batch runs, is not known",
    ),
    "phases-differ": ("phase마다 prompt가 다름", "the phases send different prompts"),
    "several-prompts": ("여러 prompt가 섞임", "several prompts are mixed"),
    "only-sequential": ("격자에 동시성 1뿐이다", "the grid has concurrency 1 only"),
    "baseline-speculates": ("기준 조건이 speculative decoding을 쓴다", "the baseline speculates"),
    "effect-not-confirmed": (
        "효과 {effect:.1%}이지만, 같은 배치가 도는 {levels}가 확인하지 않는다",
        "an effect of {effect:.1%}, but {levels}, where the same batch runs, does not confirm it",
    ),
    "no-sequential": ("동시성 1이 격자에 없다", "concurrency 1 is not in the grid"),
    "ranges-apart": (
        "범위가 겹치지 않는다: 어느 쌍을 골라도 배속은 {lowest:.2f}~{highest:.2f}",
        "the ranges do not overlap: any pair shows {lowest:.2f} to {highest:.2f}",
    ),
    "ranges-overlap": (
        "범위가 겹친다: 쌍에 따라 배속이 {lowest:.2f}~{highest:.2f}",
        "the ranges overlap: pairs show {lowest:.2f} to {highest:.2f}",
    ),
    "positions-rise": (
        "자리별 카운터가 누적이 아니다",
        "the counters by position are not cumulative",
    ),
    "positions-agree": (
        "자리별 합 {sum:g}이 채택 토큰과 같다",
        "the positions add up to the {sum:g} accepted tokens",
    ),
    "positions-disagree": (
        "자리별 합은 {sum:g}, 채택 토큰은 {accepted:g}",
        "the positions add up to {sum:g}, accepted are {accepted:g}",
    ),
    "forward-agrees": (
        "예측 {predicted:.2f}배, 측정 {measured:.2f}배 (허용 {tolerance:.0%})",
        "predicted {predicted:.2f}, measured {measured:.2f} (tolerance {tolerance:.0%})",
    ),
    "forward-disagrees": (
        "예측 {predicted:.2f}배가 측정 {measured:.2f}배에서 {tolerance:.0%} 넘게 벗어난다",
        "predicted {predicted:.2f} is more than {tolerance:.0%} off the measured {measured:.2f}",
    ),
    "few-waves": (
        "요청이 {needed}번의 파도에 못 미쳐 벽시계로 검산할 수 없다",
        "fewer than {needed} waves of requests: the wall clock cannot check it",
    ),
    "latencies-agree": (
        "차이 {difference:+.1%} (허용 {tolerance:.0%})",
        "{difference:+.1%} (tolerance {tolerance:.0%})",
    ),
    "latencies-disagree": (
        "벽시계 역산이 histogram과 {difference:+.1%} 다르다 (허용 {tolerance:.0%})",
        "the wall clock is {difference:+.1%} off the histogram (tolerance {tolerance:.0%})",
    ),
    "effect-above-spread": (
        "효과 {effect:.1%}, 회차 간 흔들림 {spread:.1%} (배수 {factor:g})",
        "an effect of {effect:.1%}, a spread of {spread:.1%} (factor {factor:g})",
    ),
    "effect-within-spread": (
        "효과 {effect:.1%}가 회차 간 흔들림 {spread:.1%}과 구분되지 않는다 (배수 {factor:g})",
        "an effect of {effect:.1%} is not told from a spread of {spread:.1%} (factor {factor:g})",
    ),
    "no-prefix-lookups": ("prefix cache를 조회하지 않았다", "nothing was looked up in a prefix cache"),
    "prefix-hits-alike": (
        "적중률 {own:.1%}, 기준 {baseline:.1%} (허용 {tolerance:.1%})",
        "hit ratio {own:.1%}, the baseline's {baseline:.1%} (tolerance {tolerance:.1%})",
    ),
    "prefix-hits-differ": (
        "적중률 {own:.1%}이 기준 {baseline:.1%}과 다르다 (허용 {tolerance:.1%})",
        "hit ratio {own:.1%}, the baseline's {baseline:.1%}: they differ (tolerance {tolerance:.1%})",
    ),
    "memory-below": ("실행 요청당 {mib:.0f} MiB (상한 {max:g})", "{mib:.0f} MiB a running request (bound {max:g})"),
    "memory-above": (
        "실행 요청당 {mib:.0f} MiB, 상한 {max:g}을 넘는다",
        "{mib:.0f} MiB a running request, above the bound of {max:g}",
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
    "gpu-not-sampled": ("GPU 표본 없음", "no GPU was sampled"),
    "gpu-shared": (
        "다른 프로세스가 같은 GPU에 있었다 ({who})",
        "other processes were on the GPUs ({who})",
    ),
    "gpu-others-unknown": (
        "GPU에 다른 프로세스가 없었다고 할 수 없다: {why}",
        "other processes on the GPUs cannot be excluded: {why}",
    ),
    "gpu-others-not-looked": (
        "GPU에 다른 프로세스가 있었는지 기록에 없다",
        "whether other processes were on the GPUs is not in the record",
    ),
    "gpu-unread": ("GPU 판독 실패: {why}", "the GPU could not be read: {why}"),
    "gpu-figure-absent": ("GPU가 알려 주지 않음", "the GPU does not say"),
    "rounds-cut": (
        "미완: {planned}회차 중 {done}회차. round-seconds {seconds:g}초가 지나 더 보내지 않았다",
        "incomplete: {done} of {planned} rounds; after round-seconds, {seconds:g} s, nothing more was sent",
    ),
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
}
