"""From an exchange to a judged request: the bytes are read after the round, outside its timing."""

from dataclasses import dataclass, replace

from runner.engine.chat import read_reply
from runner.engine.reply import Reply
from runner.engine.stream import read_stream
from runner.engine.verdict import Verdict
from runner.load.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Judged:
    """An exchange with its verdict; `reply` is None when not even a status line came back."""

    exchange: Exchange
    verdict: Verdict
    detail: str
    reply: Reply | None


def judge_exchange(done: Exchange, *, model: str, stream: bool) -> Judged:
    """The verdict on one exchange. What the transport broke wins over what the cut bytes look like,
    except an error that the engine stated before."""
    if done.status is None:
        verdict = done.transport or Verdict.RESET
        return Judged(done, verdict, done.detail, None)
    if stream:
        reply = read_stream(done.status, done.content_type, done.chunks, ended=done.transport is None, model=model)
    else:
        reply = read_reply(done.status, done.content_type, done.body, model=model)
    if done.transport is not None and reply.verdict not in (Verdict.IN_BAND_ERROR, Verdict.HTTP_ERROR):
        reply = replace(reply, verdict=done.transport, detail=done.detail)
    return Judged(done, reply.verdict, reply.detail, reply)
