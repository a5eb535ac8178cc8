"""The verdict section, wanted and found, and where the figures came from."""

from collections.abc import Mapping
from typing import Final

VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
    # Verdict section
    "outcome": ("결론: 종료 코드 {code} — {meaning}", "Outcome: exit code {code} — {meaning}"),
    "declined": ("측정하지 않았다: {reason}", "nothing was measured: {reason}"),
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
    "exit.8": ("아무것도 바꾸기 전에 거절했다", "refused before anything was changed"),
    "exit.70": ("runner의 내부 오류", "an internal error of the runner"),
    "exit.130": ("중단됐다", "interrupted"),
    "ended-early": (
        "기록이 도중에 끝난다. runner가 강제로 끝났거나 아직 돌고 있다.",
        "The record ended early: the runner was killed, or is still running.",
    ),
    "engine-failed": ("{label}: {reason}", "{label}: {reason}"),
    "engine-failed-after": (
        "{label}: {reason} (드러난 지 {seconds:.1f}초 뒤에 판정)",
        "{label}: {reason} (named {seconds:.1f} s after it could first be seen)",
    ),
    "left-changed": (
        "{what}: 원복되지 않았다. {why}",
        "{what} was not restored: {why}",
    ),
    "also-applies": ("함께 해당하는 코드: {codes}", "Also applying: {codes}"),
    # The terms that a report judges by
    "glossary": ("용어", "Terms"),
    "term.separated": ("분리됨", "separated"),
    "meaning.separated": (
        "두 조건의 회차 범위(동시성 1은 요청 범위)가 겹치지 않고, 같은 배치가 도는 다른 동시성에서도 그렇다.",
        "the ranges of the rounds (at concurrency 1 of the requests) do not overlap, nor at any other concurrency "
        "that runs the same batch.",
    ),
    "term.not-separated": ("분리되지 않음", "not separated"),
    "meaning.not-separated": (
        "범위가 겹치거나, 같은 배치가 도는 다른 동시성이 확인하지 않는다. 효과가 없다는 뜻이 아니라 "
        "흔들림과 구분되지 않는다는 뜻이다.",
        "they overlap, or another concurrency that runs the same batch does not confirm it: no proof that there is no "
        "effect, only that it is not told from noise.",
    ),
    "term.confounded": ("교란", "confounded"),
    "meaning.confounded": (
        "조건과 함께 다른 것도 달라졌다. 차이는 전체의 것이며 설정만의 것이라고 말할 수 없다.",
        "more changed with the condition than its setting: the difference is that of everything together.",
    ),
    "term.contaminated": ("오염", "contaminated"),
    "meaning.contaminated": (
        "보낸 것보다 많은 요청이 처리된 회차다. 행은 남기고 절대값은 참고만 하며 비는 판단한다 (※).",
        "a round in which the engine finished more than was sent: its row stays, its absolute values are for "
        "reference, its ratios are judged (※).",
    ),
    "term.inconclusive": ("판단 불가", "inconclusive"),
    "meaning.inconclusive": (
        "이 기록으로는 알 수 없다. 통과가 아니다.",
        "this record cannot tell; it is no pass.",
    ),
    "term.not-applicable": ("해당 없음", "not applicable"),
    "meaning.not-applicable": (
        "이 실험에는 판단할 대상이 없다. 통과가 아니다.",
        "the experiment has nothing that it could be judged by; it is no pass.",
    ),
    "term.too-few": ("표본 부족", "too few samples"),
    "meaning.too-few": (
        "회차마다 필요한 표본보다 적다. 있는 값을 보이되 그것으로 판단하지 않는다.",
        "a round has fewer samples than needed: what there is may be shown, and decides nothing.",
    ),
    "term.one-round": ("한 회차", "one round"),
    "meaning.one-round": (
        "회차가 하나뿐이라 흔들림을 알 수 없다.",
        "there is a single round, so that its own spread is not known.",
    ),
    # Wanted/found
    "wanted-found": ("원한 것과 찾은 것: {label}", "Wanted and found: {label}"),
    "argument": ("인자", "Argument"),
    "wanted": ("원한 값", "Wanted"),
    "parsed": ("파싱된 값", "Parsed"),
    "configured": ("구성된 값", "Configured"),
    "source": ("출처", "Source"),
    "verdict": ("판정", "Verdict"),
    "in-force.in-force": ("적용됨", "in force"),
    "in-force.parsed": ("파싱됨", "parsed"),
    "in-force.differs": ("다름", "differs"),
    "in-force.ignored": ("무시됨", "ignored"),
    "in-force.missing": ("없음", "missing"),
    "in-force.unknown": ("알 수 없음", "unknown"),
    # Provenance
    "p.run": ("run", "run"),
    "p.started": ("시작", "started"),
    "p.runner": ("runner 버전", "runner version"),
    "p.target": ("target", "target"),
    "p.settings": ("target 설정", "target settings"),
    "p.spec": ("spec", "spec"),
    "p.engine": ("엔진", "engine"),
    "p.host": ("client host", "client host"),
    "p.client": ("client", "client"),
    "p.connection": ("연결 {kind}", "connections {kind}"),
    "p.processes": ("프로세스 {n}개", "{n} process(es)"),
    "p.processes-by-rule": ("프로세스 수는 규칙에 따름", "processes by the rule"),
    "p.headers": ("header {names}", "headers {names}"),
    "p.bearer-token": ("bearer token은 {names}에서", "bearer token from {names}"),
    "p.ca-file": ("{names}의 인증서도 신뢰", "certificates of {names} trusted too"),
    "p.ca-sha256": ("그 SHA-256 {names}", "their SHA-256 {names}"),
    "p.proxies-ignored": ("쓰지 않은 proxy {names}", "proxies ignored {names}"),
    "p.order": ("조건 순서", "order of conditions"),
    "p.command": ("{label} #{replicate} 명령", "{label} #{replicate} command"),
    "p.endpoint": ("{label} #{replicate} 주소", "{label} #{replicate} endpoint"),
    "p.identity": ("{label} #{replicate} 프로세스", "{label} #{replicate} process"),
    "p.environment": ("{label} #{replicate} 환경 변수", "{label} #{replicate} environment"),
    "p.gpus": ("{label} #{replicate} GPU", "{label} #{replicate} GPUs"),
    "p.gpu": (
        "{index} {name} ({uuid}, {total}), 기동 전에 쓰이던 memory {before}",
        "{index} {name} ({uuid}, {total}), memory in use before the start {before}",
    ),
    "p.transport": ("{label} #{replicate} 요청 경로", "{label} #{replicate} transport"),
    "p.doubted": ("{transport}. 확인되지 않는 것: {why}", "{transport}; in doubt: {why}"),
    "p.fact": ("{label} #{replicate} {name}", "{label} #{replicate} {name}"),
    "p.baseline": ("저장된 baseline", "saved baseline"),
    "p.not-existing": ("{what}, 전에 없었음", "{what}, which did not exist"),
    "p.warning": ("{source}의 경고", "warning of {source}"),
    "p.body": ("요청 본문 `{id}` ({prompt})", "request body `{id}` ({prompt})"),
    "p.simulated": ("simulated", "simulated"),
    "yes": ("예", "yes"),
    "no": ("아니오", "no"),
}
