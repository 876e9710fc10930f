"""OpenAI legacy Completions: one prompt, text out."""

from collections.abc import Callable

from ctxwrap.protocol.instructions import sanitise
from ctxwrap.providers.base import TextDelta
from ctxwrap.providers.messages import (
    ample_limits,
    join_texts,
    raise_limits,
    reply_text,
    set_path,
    short_answer_options,
)
from ctxwrap.providers.openai_chat import Choices, OpenAIAdapter
from ctxwrap.providers.text_channel import Channel
from ctxwrap.tokens.counting import Counter
from ctxwrap.tokens.messages import ContentCounter, as_list
from ctxwrap.types import Body, Injection, Message, Reply, Request, TextStream


class OpenAICompletions(OpenAIAdapter):
    name = "openai_completions"
    input_field = "prompt"
    cache_key_field = ""

    def read(self, body: Body) -> Request:
        prompt = body.get("prompt")
        messages = (Message("user", prompt),) if isinstance(prompt, str) else ()
        return Request(
            messages=messages,
            places=(-1,) * len(messages),
            model=str(body.get("model") or ""),
            stream=bool(body.get("stream")),
            no_trailer="a stream of several texts" if body.get("stream") and (body.get("n") or 1) > 1 else "",
            no_context=_no_context(body),
        )

    def inject(self, body: Body, injection: Injection) -> Body:
        """Everything goes before the caller's prompt, which the model continues."""
        history = sanitise("\n".join(f"{message.role}: {message.text}" for message in injection.history))
        stable = (injection.protocol, injection.standing, injection.background, history)
        prompt = join_texts(*stable, injection.block, sanitise(body["prompt"]))
        return {**body, **raise_limits(body, self.reply_limits, injection.reserve), "prompt": prompt}

    def rewriter(self, body: Body, streams: Callable[[], TextStream]) -> "CompletionsRewriter":
        return CompletionsRewriter(body, streams)

    def ask_again(self, body: Body, reply: Reply, question: str, reserve: int) -> Body:
        prompt = join_texts(body["prompt"], reply_text(reply), question)
        return {**short_answer_options(body), **ample_limits(body, self.reply_limits, reserve), "prompt": prompt}

    def request_tokens(self, body: Body, counter: Counter) -> int:
        """The tokens of the longest prompt, since several prompts are separate requests; integers are tokens."""
        content = ContentCounter(counter, str(body.get("model") or ""))
        prompts = as_list(body.get("prompt"))
        if prompts and all(isinstance(token, int) for token in prompts):
            return len(prompts)
        sizes = (len(prompt) if isinstance(prompt, list) else content.tokens(prompt) for prompt in prompts)
        return max(sizes, default=0) + content.tokens(body.get("suffix"))


COMPLETIONS = OpenAICompletions()


def _no_context(body: Body) -> str:
    if not isinstance(body.get("prompt"), str):
        return "only a prompt that is one text can carry context"
    if body.get("echo"):
        return "echo=True would show it"
    return "a suffix leaves no room for a trailer" if body.get("suffix") else ""


class CompletionsRewriter(Choices):
    """Removes the trailer from every choice's text; no chunk is dropped."""

    def __init__(self, body: Body, streams: Callable[[], TextStream]) -> None:
        super().__init__(body)
        self.fetched = False
        self._streams = streams
        self._channels: dict[int, Channel] = {}
        self._finish: dict[int, str] = {}
        self.fetched = False

    def whole(self, payload: Body) -> Body:
        self._note(payload)
        for at, choice in enumerate(payload.get("choices") or ()):
            index = choice.get("index", at)
            self._finish[index] = str(choice.get("finish_reason") or "")
            visible = self._channel(index).whole(choice.get("text") or "")
            payload = self._put(payload, at, visible, choice, self._channels[index])
        self.ended = True
        return payload

    def event(self, event: Body) -> list[Body]:
        self._note(event)
        held: list[Body] = []
        for at, choice in enumerate(event.get("choices") or ()):
            index = choice.get("index", at)
            channel = self._channel(index)
            event = self._put(event, at, channel.feed(choice.get("text") or ""), choice, channel)
            if choice.get("finish_reason"):
                self._finish[index] = choice["finish_reason"]
                rest = self._released(index)
                if rest and event["choices"][at].get("text"):
                    said, event = self._split_chunk(event, at, {"text": ""})
                    rest.insert(0, said)
                held += rest
        return [*held, event]

    def text_delta(self, event: Body) -> TextDelta | None:
        return None  # this API is rarely streamed

    @property
    def spoken(self) -> bool:
        return self.ended or sum(map(bool, self._finish.values())) >= self._awaited

    def close(self) -> list[Body]:
        return [piece for index in list(self._channels) for piece in self._released(index)]

    @property
    def reply(self) -> Reply:
        first = self._channels.get(0)
        return Reply(
            messages=tuple(Message("assistant", self._channels[at].text) for at in sorted(self._channels)),
            reading=first.reading if first and first.closed else None,
            finish=self._finish.get(0, ""),
            natural=self._finish.get(0) == "stop",
            usage=self._usage,
            response_id=str(self._newest.get("id") or ""),
            model=str(self._newest.get("model") or ""),
        )

    def _channel(self, index: int) -> Channel:
        if index not in self._channels:
            self._channels[index] = Channel(self._streams())
        return self._channels[index]

    def _put(self, payload: Body, at: int, visible: str, choice: Body, channel: Channel) -> Body:
        if visible != (choice.get("text") or ""):
            payload = set_path(payload, ("choices", at, "text"), visible)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("tokens"), list):
            payload = set_path(
                payload, ("choices", at, "logprobs"), _columns(logprobs, channel.tokens(_rows(logprobs)))
            )
        return payload

    def _released(self, index: int) -> list[Body]:
        channel = self._channels[index]
        if channel.closed:
            return []
        rest, rows = channel.close(), channel.tokens([])
        if not rest and not rows:
            return []
        piece: Body = {"index": index, "text": rest, "finish_reason": None, "logprobs": None}
        if rows:
            piece["logprobs"] = _columns({}, rows)
        return [self._chunk(piece)]


def _rows(logprobs: Body) -> list[Body]:
    """The legacy format's parallel lists as one object per token, with the newer format's field names."""
    names = [name for name, values in logprobs.items() if isinstance(values, list)]
    rows = zip(*(logprobs[name] for name in names), strict=False)
    return [
        {"token" if name == "tokens" else name: value for name, value in zip(names, row, strict=True)} for row in rows
    ]


def _columns(logprobs: Body, rows: list[Body]) -> Body:
    """The visible rows as parallel lists."""
    lists: Body = {name: [] for name, values in logprobs.items() if isinstance(values, list)}
    for row in rows:
        for name, value in row.items():
            lists.setdefault("tokens" if name == "token" else name, []).append(None if value == [] else value)
    return {**logprobs, **lists}
