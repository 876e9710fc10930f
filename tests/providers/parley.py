"""The adapter for Parley, a made-up provider whose API resembles no real one.

A request has an `engine`, a `brief` for it, `lines` with a `speaker` and `words`, and `most_words` for the reply. The
reply has its words in `answer`; a stream has them in events with a `piece`, and ends with one that has a `verdict`.
"""

from collections.abc import Callable

from ctxwrap.protocol.instructions import sanitise
from ctxwrap.providers.base import ProviderAdapter, TextDelta
from ctxwrap.providers.messages import join_texts, raise_limits, reply_text
from ctxwrap.providers.text_channel import Channel
from ctxwrap.redaction.redactor import SHARED_FIELDS
from ctxwrap.tokens import Counter, TooLong
from ctxwrap.types import Body, Injection, Message, Reply, Request, Role, TextStream

PER_LINE = 11
ROLES: dict[str, Role] = {"human": "user", "engine": "assistant"}
SPEAKERS = {role: speaker for speaker, role in ROLES.items()}


class Parley(ProviderAdapter):
    name = "parley_lines"
    telemetry_name = "parley"
    input_field = "lines"
    reply_limits = ("most_words",)
    field_names = SHARED_FIELDS._replace(ids=SHARED_FIELDS.ids | {"visitor"}, encoded=SHARED_FIELDS.encoded | {"seal"})
    cache_key_field = "shelf"

    def read(self, body: Body) -> Request:
        system = [Message("system", body["brief"])] if body.get("brief") else []
        lines = [Message(ROLES[line["speaker"]], line["words"]) for line in body["lines"]]
        places = (*(-1 for _ in system), *range(len(lines)))
        return Request((*system, *lines), model=body["engine"], stream=bool(body.get("live")), places=places)

    def inject(self, body: Body, injection: Injection) -> Body:
        callers = [line for at, line in enumerate(body["lines"]) if at not in injection.left_out]
        lines = [{"speaker": SPEAKERS[each.role], "words": each.text} for each in injection.history] + callers
        lines = [{**line, "words": sanitise(line["words"])} for line in lines]
        lines[-1] = {**lines[-1], "words": join_texts(lines[-1]["words"], injection.block)}
        brief = join_texts(injection.protocol, body.get("brief", ""), injection.standing, injection.background)
        limits = raise_limits(body, self.reply_limits, injection.reserve)
        return {**body, **limits, **self.cache_key_in(body), "brief": brief, "lines": lines}

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "ParleyRewriter":
        return ParleyRewriter(Channel(streams()))

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        asked = [{"speaker": "engine", "words": reply_text(reply)}, {"speaker": "human", "words": question}]
        rest = {name: value for name, value in body.items() if name != "live"}
        return {**rest, "most_words": reserve, "lines": [*body["lines"], *asked]}

    def request_tokens(self, body: Body, counter: Counter) -> int:
        words = [body.get("brief", ""), *(line["words"] for line in body["lines"])]
        return PER_LINE * len(body["lines"]) + sum(counter.count(each) for each in words if each)

    def too_long(self, error: BaseException) -> TooLong | None:
        told = getattr(error, "told", {})
        return TooLong(told["capacity"], told["offered"]) if told.get("fault") == "out_of_breath" else None


class ParleyRewriter:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last: Body = {}
        self.ended = self.fetched = False

    @property
    def spoken(self) -> bool:
        return self.ended

    def whole(self, payload: Body) -> Body:
        self._last, self.ended = payload, True
        return {**payload, "answer": self._channel.whole(payload["answer"])}

    def event(self, event: Body) -> list[Body]:
        if "verdict" in event:
            held, self._last, self.ended = self.close(), event, True
            return [*held, event]
        visible = self._channel.feed(event["piece"])
        return [{**event, "piece": visible}] if visible else []

    def text_delta(self, event: Body) -> TextDelta | None:
        return TextDelta(("piece",), self._channel.passes) if "piece" in event else None

    def close(self) -> list[Body]:
        rest = "" if self._channel.closed else self._channel.close()
        return [{"piece": rest}] if rest else []

    @property
    def reply(self) -> Reply:
        spent = self._last.get("spent") or {}
        return Reply(
            messages=(Message("assistant", self._channel.text),),
            reading=self._channel.reading if self._channel.closed else None,
            finish=self._last.get("verdict", ""),
            natural=self._last.get("verdict") == "said",
            usage={"input_tokens": spent["heard"], "output_tokens": spent["spoken"]} if spent else {},
        )


PARLEY = Parley()
