"""The verdict section, wanted and found, and where the figures came from."""

from collections.abc import Mapping
from typing import Final

VERDICTS: Final[Mapping[str, tuple[str, str]]] = {
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
