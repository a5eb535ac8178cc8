"""The record of a run with every request read from the captures again: the journal's figures, checked or replaced."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from runner.execution.context import output_of
from runner.execution.requests import PROOF, WARM_UP, Place, done_event
from runner.execution.sending import captures, packed_name
from runner.load.capture import CaptureError
from runner.load.reading import Heard, Judged, read_captures
from runner.plan.model import Launch, Plan
from runner.record import events
from runner.record.directory import ARTIFACTS, JOURNAL
from runner.record.journal import read_journal
from runner.record.record import Record, build_record, read_plan

_KINDS = {"warm-up": WARM_UP, "proof": PROOF, "excluded": "", "measured": ""}
_Key = tuple[str, int, str, int, int, str]


@dataclass(frozen=True, slots=True)
class Recaptured:
    """The record as the captures tell it; `differences` from the journal, in words; `requests` that were read again."""

    record: Record
    differences: list[str]
    requests: int


def recaptured(directory: Path) -> Recaptured:
    """Read a run's requests from its captures. Readiness probes are the journal's: they are in no figure. Raises
    JournalError; CaptureError where a capture is missing, or is none."""
    plan = read_plan(directory)
    again = _Again(plan, directory)
    record = build_record(plan, again.replay())
    return Recaptured(record, again.differences, again.requests)


@dataclass
class _Again:
    plan: Plan
    directory: Path
    differences: list[str] = field(default_factory=list)
    requests: int = 0
    _models: dict[str, str] = field(default_factory=dict)
    _outputs: set[str] = field(default_factory=set)
    _heard: dict[_Key, Heard] = field(default_factory=dict)
    _left: dict[_Key, dict[int, Judged]] = field(default_factory=dict)

    def replay(self) -> Iterator[events.Event]:
        for event in read_journal(self.directory / JOURNAL):
            match event:
                case events.RequestDone() if event.role in _KINDS:
                    yield from self._request(event)
                case events.ClientWatched():
                    yield self._client(event)
                case _:
                    if isinstance(event, events.BodySeen):
                        self._models[event.body_id] = str(event.body.get("model"))
                    if isinstance(event, events.OutputSeen):
                        self._outputs.add(event.output_id)
                    yield event
        for key, left in self._left.items():
            where = _where(key)
            self.differences += [f"{where}: request {number} is in no journal" for number in left]

    def _request(self, event: events.RequestDone) -> Iterator[events.Event]:
        key = _key(event, _KINDS[event.role])
        self._read(key, event, self._models.get(event.body_id, ""))
        judged = self._left[key].pop(event.index, None)
        if judged is None:
            raise CaptureError(f"{_where(key)}: no capture holds request {event.index}")
        self.requests += 1
        output = None
        if event.output_id is not None or judged.reply is not None:
            reply = judged.reply
            if reply is not None and (reply.text or reply.reasoning or reply.token_ids):
                seen = output_of(reply)
                output = seen.output_id
                if output not in self._outputs:
                    self._outputs.add(output)
                    yield seen
        found = done_event(_place(event), event.role, judged, event.body_id, output)
        self._compare(f"{_where(key)}: request {event.index}", event, found)
        yield found

    def _client(self, event: events.ClientWatched) -> events.ClientWatched:
        heard = self._heard.get(_key(event, ""))
        if heard is None:
            return event  # a round of which no request is in the journal
        found = event.model_copy(update={"processes": heard.processes})
        self._compare(f"{_where(_key(event, ''))}: the load generator", event, found)
        return found

    def _read(self, key: _Key, event: events.RequestDone, model: str) -> None:
        if key in self._heard:
            return
        place = _place(event)
        folder = self.directory / ARTIFACTS
        paths = captures(folder, place, key[-1])
        if not paths:
            raise CaptureError(f"{_where(key)}: there is no capture below {folder / place.folder}")
        stream = next((one.stream for one in self.plan.phases if one.name == event.phase), self.plan.phases[0].stream)
        heard = read_captures(
            paths, model=model, stream=stream, artifact=lambda path: packed_name(path, self.directory)
        )
        self._heard[key] = heard
        self._left[key] = {one.exchange.index: one for one in heard.judged}

    def _compare(self, what: str, before: events.Event, now: events.Event) -> None:
        was, is_now = before.model_dump(), now.model_dump()
        changed = [name for name, value in was.items() if is_now[name] != value]
        if changed:
            told = ", ".join(f"{name} {_short(was[name])}, captured {_short(is_now[name])}" for name in changed)
            self.differences.append(f"{what}: {told}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _key(event: events.OfRound, kind: str) -> _Key:
    return event.arm, event.replicate, event.phase, event.concurrency, event.round, kind


def _where(key: _Key) -> str:
    arm, replicate, phase, concurrency, number, kind = key
    return f"{arm} #{replicate} {phase} C={concurrency} round {number}{kind.replace('-', ' ', 1)}"


def _place(event: events.OfRound) -> Place:
    launch = Launch(arm=event.arm, replicate=event.replicate)
    return Place(launch, event.phase, event.concurrency, event.round, event.engine)
