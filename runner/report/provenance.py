"""The last section: where every figure came from."""

import json
import shlex

from runner.record.events import BaselineSaved, EngineLaunched, GpusFound
from runner.record.record import Record
from runner.report.markdown import code, escape
from runner.report.table import Source
from runner.report.words import Words


def provenance(source: Source) -> list[tuple[str, str]]:
    """Label and value of each fact, in Markdown."""
    record, words = source.record, source.words
    started, plan = record.started, record.plan
    facts = [
        (words("p.run"), code(started.run)),
        (words("p.started"), started.started_at),
        (words("p.runner"), started.runner_version),
        (words("p.target"), code(started.target)),
        (words("p.simulated"), _simulated(record, words)),
        (words("p.settings"), code(json.dumps(started.target_settings, ensure_ascii=False))),
        (words("p.spec"), f"{code(plan.spec_file)}, sha256 {code(plan.spec_sha256)}"),
        (words("p.engine"), _versions(record)),
        (words("p.host"), escape(", ".join(f"{name} {value}" for name, value in started.host.items()))),
        *_client(source),
        (words("p.order"), _order(source)),
    ]
    for engine in record.engines:
        about = {"label": source.named(engine.arm), "replicate": engine.replicate}
        if engine.launched is not None:
            if engine.launched.command:
                facts.append((words("p.command", **about), code(shlex.join(engine.launched.command))))
            else:
                facts.append((words("p.endpoint", **about), code(engine.launched.endpoint)))
            if engine.launched.env:
                shown = " ".join(f"{name}={value}" for name, value in engine.launched.env.items())
                facts.append((words("p.environment", **about), code(shown)))
            if engine.launched.transport is not None or engine.launched.transport_doubt is not None:
                facts.append((words("p.transport", **about), _transport(source, engine.launched)))
            facts += [
                (words("p.fact", **about, name=escape(name)), code(value))
                for name, value in engine.launched.facts.items()
            ]
        if engine.ready is not None:
            facts.append((words("p.identity", **about), code(engine.ready.engine)))
        if engine.gpus is not None and engine.gpus.gpus:
            facts.append((words("p.gpus", **about), _gpus(source, engine.gpus)))
    facts += [(words("p.baseline"), _baseline(source, one.saved)) for one in record.baselines]
    facts += [
        (words("p.warning", source=escape(one.source)), f"{code(one.about)}: {escape(one.text)}")
        for one in record.warnings
    ]
    for body in record.bodies.values():
        text = json.dumps(body.body, ensure_ascii=False)
        facts.append((words("p.body", id=body.body_id, prompt=escape(body.prompt)), code(text)))
    return facts


def _client(source: Source) -> list[tuple[str, str]]:
    """How requests were sent, by what the client was let in, and whom it believed: names alone. Older records do not
    say."""
    client, words = source.record.started.client, source.words
    if not client:
        return []
    processes = client.get("processes")
    said = [
        words("p.connection", kind=code(str(client.get("connection")))),
        words("p.processes", n=processes) if isinstance(processes, int) else words("p.processes-by-rule"),
    ]
    for key, word in (
        ("headers", "p.headers"),
        ("bearer-token", "p.bearer-token"),
        ("ca-file", "p.ca-file"),
        ("ca-sha256", "p.ca-sha256"),
        ("proxies-ignored", "p.proxies-ignored"),
    ):
        given = client.get(key) or []
        names = ", ".join(code(str(one)) for one in ([given] if isinstance(given, str) else given))
        said += [words(word, names=names)] if names else []
    return [(words("p.client"), "; ".join(said))]


def _transport(source: Source, launched: EngineLaunched) -> str:
    name = escape(launched.transport or "?")
    if launched.transport_doubt is None:
        return name
    return source.words("p.doubted", transport=name, why=escape(launched.transport_doubt))


def _baseline(source: Source, saved: BaselineSaved) -> str:
    """What was saved, and the artifact that holds it."""
    what = code(saved.what)
    if not saved.existed:
        return source.words("p.not-existing", what=what)
    return what if saved.artifact is None else f"{what}, {code(saved.artifact)}"


def _gpus(source: Source, found: GpusFound) -> str:
    """Each GPU, and by which way it was read."""

    def mebibytes(value: float | None) -> str:
        return source.words("unknown") if value is None else source.numbers.mebibytes(value)

    gpus = [
        source.words(
            "p.gpu",
            index=gpu.index,
            name=escape(gpu.name or "?"),
            uuid=escape(gpu.uuid),
            total=mebibytes(gpu.total_mib),
            before=mebibytes(gpu.before_mib),
        )
        for gpu in found.gpus
    ]
    return "; ".join([*gpus, escape(found.source or "?")])


def _versions(record: Record) -> str:
    found = {
        one.evidence.version or (one.ready.version if one.ready is not None else None)
        for one in record.engines
        if one.evidence is not None
    }
    names = ", ".join(sorted(version or "?" for version in found)) or "?"
    return f"vLLM {escape(names)}"


def _order(source: Source) -> str:
    launches = [f"{source.label(one.arm)} #{one.replicate}" for one in source.record.plan.launches]
    return f"{source.record.plan.order}: {', '.join(launches)}"


def _simulated(record: Record, words: Words) -> str:
    """No only where an engine answered: what never did may have been anything."""
    if record.simulated:
        return words("yes")
    return words("no" if record.real else "unknown")
