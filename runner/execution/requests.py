"""Judged exchanges as events, and where in the run they belong."""

from dataclasses import dataclass

from runner.execution.context import Context
from runner.load.reading import Judged
from runner.plan.model import Launch
from runner.record.events import RequestDone
from runner.record.parts import TokenEvents

WARM_UP, PROOF = "-warm-up", "-proof"
"""What the captures of these requests have in their names."""
KINDS = ("", WARM_UP, PROOF)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the run something happened: the launch, the cell, the round, and the engine that answered."""

    launch: Launch
    phase: str
    concurrency: int
    round: int
    engine: str

    @property
    def fields(self) -> dict[str, str | int]:
        """The fields that every event of a round carries."""
        return {
            "arm": self.launch.arm,
            "replicate": self.launch.replicate,
            "phase": self.phase,
            "concurrency": self.concurrency,
            "round": self.round,
            "engine": self.engine,
        }

    @property
    def folder(self) -> str:
        """The artifact folder of this launch."""
        return launch_folder(self.launch)

    @property
    def stem(self) -> str:
        """How this round's artifacts begin."""
        return f"{self.phase}-c{self.concurrency}-r{self.round}"


def launch_folder(launch: Launch) -> str:
    """The artifact folder of one engine process."""
    return f"{launch.arm}-{launch.replicate}"


def request_done(context: Context, place: Place, role: str, judged: Judged, body_name: str) -> RequestDone:
    """The event of one request; its output is journaled on the way if it is new."""
    return done_event(place, role, judged, body_name, context.output_seen(judged.reply))


def done_event(place: Place, role: str, judged: Judged, body_name: str, output_id: str | None) -> RequestDone:
    """The event of one request whose output is known by this id."""
    done, reply = judged.exchange, judged.reply
    usage = reply.usage if reply is not None else None
    return RequestDone.model_validate(
        {
            **place.fields,
            "index": done.index,
            "role": role,
            "body_id": body_name,
            "planned_ns": done.planned_ns,
            "sent_ns": done.sent_ns,
            "first_byte_ns": done.first_byte_ns,
            "first_token_ns": reply.first_token_ns if reply is not None else None,
            "last_byte_ns": done.last_byte_ns,
            "ended_ns": done.ended_ns,
            "verdict": judged.verdict.value,
            "detail": judged.detail,
            "status": done.status,
            "finish_reason": reply.finish_reason if reply is not None else None,
            "prompt_tokens": usage.prompt if usage is not None else None,
            "completion_tokens": usage.completion if usage is not None else None,
            "output_id": output_id,
            "connect_ns": done.connect_ns,
            "clock": done.clock,
            "events": _token_events(judged),
        }
    )


def _token_events(judged: Judged) -> TokenEvents | None:
    """The events with tokens, by the time of sending; None where no stream brought any."""
    sent, reply = judged.exchange.sent_ns, judged.reply
    if sent is None or reply is None or not reply.event_ns:
        return None
    return TokenEvents(
        at_ns=[at - sent for at in reply.event_ns],
        tokens=None if reply.events_tokens is None else list(reply.events_tokens),
        bounds=[(number, 0 if before is None else max(before - sent, 0)) for number, before in reply.event_bounds],
    )


def duration_s(judged: Judged) -> float | None:
    """Seconds from sending to the last byte, None when one of them never was."""
    done = judged.exchange
    if done.sent_ns is None or done.last_byte_ns is None:
        return None
    return (done.last_byte_ns - done.sent_ns) / 1e9
