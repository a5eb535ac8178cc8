"""`request`: what was asked, field by field, and why (article, section 1)."""

import json

from runner.report.markdown import code, escape
from runner.report.table import Source, Table, table


@table("request")
def request(source: Source) -> list[Table]:
    """Columns: field, value as sent, the author's reason. Every field of the body is listed, and each prompt."""
    plan, words = source.record.plan, source.words
    streams = sorted({phase.stream for phase in plan.phases})
    bodies = [
        (arm, plan.body(arm, name, stream=stream))
        for arm in plan.arms
        for name in plan.sent_prompts
        for stream in streams
    ]
    fields = dict.fromkeys(name for _, body in bodies for name in body if name != "messages")
    rows = []
    for name in fields:
        values: dict[str, dict[str, None]] = {}
        for arm, body in bodies:
            shown = code(json.dumps(body[name], ensure_ascii=False)) if name in body else "–"
            values.setdefault(shown, {})[source.label(arm.id)] = None
        if len(values) == 1 or all(len(arms) == len(plan.arms) for arms in values.values()):
            text = " / ".join(values)
        else:
            text = "; ".join(f"{', '.join(arms)}: {shown}" for shown, arms in values.items())
        rows.append([code(name), text, escape(plan.notes.request.get(name, ""))])
    for name in plan.sent_prompts:
        prompt = plan.prompts[name]
        reason = plan.notes.request.get(f"prompt.{name}", plan.notes.request.get("prompt", ""))
        character = prompt.character or prompt.messages[-1]["content"][:80]
        title = words("prompt-character") + (f" {code(name)}" if len(plan.sent_prompts) > 1 else "")
        rows.append([title, escape(character), escape(reason)])
    return [Table("request", [words("setting"), words("value"), words("reason")], rows, ["left"] * 3)]
