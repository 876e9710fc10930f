"""End-to-end recall: how often a request through a wrapped client holds what its question asks for, by budget.

    python benchmarks/end_to_end.py [--seeds 1,2] [--budgets 4000,8000,32000] [--data FILE]

Conversations of 100 to 600 turns are generated from a seed: small talk, long technical messages, support tickets. Facts
stand in their first half, and the questions, which share at least two words with them, come 40 turns later or more. The
turns between questions are written to the log directly, without the facts in memory; each question goes through a
wrapped client to a scripted provider. `found` is the share of questions whose answer is in the request. For comparison:
the last 20 messages, and everything. FILE holds conversations in the format of `benchmarks/recall.py`; with these,
`found` is the mean share of a question's evidence.
"""

import argparse
import json
import random
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import openai

import ctxwrap
from ctxwrap.memory.items import MemoryItem
from ctxwrap.providers.openai_chat import CHAT
from ctxwrap.session.clock import new_turn_id
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings, Shares
from ctxwrap.stores.files.store import FileStore
from ctxwrap.stores.log_format import as_record, timestamp
from ctxwrap.testing import Answer, ScriptedProvider
from ctxwrap.tokens.measure import Measure
from ctxwrap.types import Body, Message, Record, Runtime, SessionKey

MODEL = "gpt-4o"
SYSTEM = "You are a careful assistant. Answer in whole sentences, and say so when you do not know something."
BUDGETS = (4_000, 8_000, 32_000)
SIZES = (100, 250, 600)
FACTS = 24
"""Facts per conversation; half of them are asked for."""

LEAST_GAP = 40
"""Turns between a fact and its question, at least."""


class Question(NamedTuple):
    text: str
    evidence: tuple[str, ...]
    """Texts that occur once in the conversation, in what answers the question."""


class Exchange(NamedTuple):
    """A turn: what the user and the model say, and when; with their names, if they have some."""

    user: str
    answer: str
    time: datetime
    speakers: tuple[str, str] = ("", "")


class Conversation(NamedTuple):
    kind: str
    parts: list[Exchange | Question]
    """In their order; a question is a turn of its own."""


def _listed(written: str) -> list[str]:
    return [each.strip() for line in written.strip().splitlines() for each in line.split("|")]


_WHO = _listed("""
my brother|my neighbour|our landlord|my aunt|the new trainee|my old teacher|my boss|our plumber|my cousin|my uncle
our accountant|my flatmate|the coach|my godmother|the baker|my nephew|our vet|the caretaker|my piano teacher|my dentist
""")
_THING = _listed("""
the garden fence|the electric bicycle|the kitchen tiles|the box of records|the heating|the tomato plants|the old piano
the broken umbrella|the parking space|the chess set|the sewing machine|the hiking boots|the tax forms|the plum cake
the crime novel|the museum tickets|the bathroom mirror|the wooden boat|the jigsaw|the frying pan|the mountain hut
the running shoes|the birthday card|the accordion|the camera|the wardrobe|the lawn mower|the tent|the coffee grinder
""")
_DID = _listed("""
asked about|complained about|laughed at|wanted to sell|talked about|dreamt of|forgot|borrowed|painted|looked for|ordered
argued over|showed me|returned|measured|gave up on|was proud of|cleaned|lost|described|photographed|paid for|wrapped up
""")
_WHEN = _listed("""
yesterday evening|last spring|on the way home|during lunch|before the meeting|at the weekend|this morning|on Tuesday
around midnight|all afternoon|after the storm|while we were cooking|in the middle of the night|just now|in the holidays
""")
_HOW = _listed("""
which surprised everybody|and nobody knew why|so we had to start over|but it was worth it|and I am still tired
because the shop was closed|and the dog barked the whole time|although it was raining|because there was no other way
""")
_SERVICE = _listed("""
billing-api|search-indexer|auth-gateway|report-builder|mail-relay|image-resizer|session-store|rate-limiter|audit-trail
feature-flags|invoice-export|webhook-sender|geo-lookup|stock-sync|chat-bridge|metrics-proxy|payment-router|token-service
""")
_PART = _listed("""
connection pool|write queue|retry loop|schema cache|dead letter topic|thread pool|lease table|shard map|page buffer
replica set|rate window|token bucket|commit log|lock manager|blob volume|event stream|worker fleet|read model
""")
_SYMPTOM = _listed("""
memory leak|slow startup|duplicate rows|lost update|stale read|clock drift|open sockets|empty response|broken pipe
timeouts under load|wrong encoding|missing index|deadlock|cold cache|noisy alert|double delivery|truncated payload
""")
_OPTION = _listed("""
maxRetryCount|poolIdleTimeout|batchFlushSize|leaseRenewInterval|readAheadPages|queueHighWater|socketKeepAlive
cacheWarmupRows|shardMoveLimit|dedupeWindow|compactionRatio|heartbeatGrace|uploadChunkSize|prefetchDepth|backoffCeiling
""")
_FUNCTION = _listed("""
parse_user_config|load_shard_map|flush_write_queue|renew_lease|decode_payload|merge_segments|open_replica|route_event
drain_worker|rotate_token|apply_patch|scan_partition|collect_metrics|seal_block|resolve_host|expire_entries
""")
_PERSON = _listed("Adaeze|Bertrand|Chiyo|Dragan|Eilidh|Farida|Goran|Hanneke|Ines|Jarek|Kwame|Leticia|Marek|Noor|Oriol")
_CITY = _listed("Aarhus|Bergamo|Cork|Dresden|Esbjerg|Faro|Ghent|Haifa|Izmir|Jaén|Kassel|Lublin|Malmö|Nantes|Oulu|Porto")
_DEVICE = _listed("""
label printer|card terminal|barcode scanner|thermostat|door controller|ticket machine|cash drawer|smoke sensor|router
beamer|coffee robot|badge reader|backup battery|charging station|price display|scale|intercom|conveyor belt|dehumidifier
""")
_TROUBLE = _listed("""
does not start any more|shows a blank screen|reboots every hour|prints only half of a page|beeps without a reason
loses its network address|rejects every second card|gets far too hot|forgets its settings|answers after a minute only
""")

SLOTS = {
    "who": _WHO, "thing": _THING, "did": _DID, "when": _WHEN, "how": _HOW, "service": _SERVICE, "part": _PART,
    "symptom": _SYMPTOM, "option": _OPTION, "function": _FUNCTION, "person": _PERSON, "city": _CITY,
    "device": _DEVICE, "trouble": _TROUBLE,
}  # fmt: skip

_CHAT = _listed("""
{Who} {did} {thing} {when}, {how}.|{Who} {did} {thing} {when}.|{When} {who} {did} {thing}.|{Who} {did} {thing}, {how}.
I saw {who} with {thing} {when}.|Then {who} came by and {did} {thing}.|They say that {who} {did} {thing}, {how}.
""")
_CHAT_ASKS = _listed("""
What would you do about {thing}?|Do you think {thing} can wait?|How do I explain {thing} to {who}?|Does {who} mind?
""")
_CHAT_ANSWERS = _listed("""
With {thing} it often helps to begin small and to look at it again a day later.|{Who} may see that differently.
I would write down what you know about {thing}, and what is still open.|That {who} {did} {thing} is easy to understand.
There are two ways: leave {thing} as it is, or ask {who} for help.|It sounds as if {thing} took a good deal of time.
Many people underestimate {thing}, and {when} is seldom the best moment for it.|If {who} agrees, the rest is simple.
Perhaps {thing} matters less than it seems, {how}.|A short note to {who} would settle that.
""")
_CHAT_FACTS = """
{Who} finally had {thing} repaired by a craftsman named {key} near the station.
    Who was it that fixed {thing} for {who}?
We met {who} at the concert, and she is engaged to somebody called {key} now.
    To whom did you hear that {who} is engaged?
{Who} keeps {thing} in a cupboard marked {key}.
    Which cupboard did I say holds {thing} of {who}?
For {who} I want to buy {thing} at the shop {key} in the old town.
    Where did I mean to get {thing} for {who}?
{Who} takes lessons in Portuguese with a teacher named {key}.
    Who teaches {who} Portuguese?
{Who} moved to {key} in the autumn, right after the trouble with {thing}.
    Where does {who} live since that autumn?
I promised {who} to give {thing} back before the festival of {key}.
    By which festival must {who} have {thing} again?
{Who} is allergic to {key}, we found out over dinner.
    What must I not cook when {who} comes to dinner?
{Who} named the new dog {key}, after somebody in a film.
    What is the dog of {who} called?
The new owner of {thing} is a certain {key}, {who} arranged it.
    To whom did {who} pass on {thing}?
{Who} works for a firm called {key}, in the warehouse.
    What is the employer of {who}, the one with the warehouse?
The code for the garage, where {who} stores {thing}, is {key}.
    How do I open the garage with {thing} of {who}?
"""
_TECH = _listed("""
The {part} of {service} showed a {symptom} again, and the graphs of the {part} explain only half of it.
{Person} looked at `{function}` in {service} and thinks that the {part} is not to blame for the {symptom}.
We could move the {part} out of {service}, but then `{option}` has to be read at startup and not per request.
With `{option}` as it is, {service} needs about twice the memory, and the {part} hides that until the next deploy.
A test for the {symptom} exists, but it mocks the {part}, so it says nothing about {service} in production.
`{function}` takes the lock before it reads the {part}, which is fine for {service} and wrong everywhere else.
The dashboard of {service} counts each {symptom} twice because `{function}` reports before and after the {part}.
Before we change `{option}` I would like {person} to confirm how the {part} behaves while {service} restarts.
    for row in {function}(batch): pool.put(row, timeout=config["{option}"])
WARN {service} {function}: {symptom} in the {part}, attempt 3 of 5
Rolling back {service} removed the {symptom} for an hour, so the {part} is part of the story but not all of it.
The documentation of `{option}` promises a default that {service} has not had for a year, as {person} found out.
""")
_TECH_FACTS = """
For {service} we agreed to set `{option}` to {key}, since more saturates the {part}.
    What did we settle on for `{option}` in {service}?
The crash of {service} came from `{function}`, which hands out {key} if the {part} is empty.
    What did `{function}` give back when {service} crashed?
The nightly job of {service} runs on host {key} since the {part} was moved.
    On which machine does the nightly job of {service} run?
{Person} owns the migration of the {part}, and the document {key} has the plan.
    Which document describes how {person} migrates the {part}?
Revision {key} of {service} brought the {symptom}, as bisecting showed.
    Since which revision does {service} have the {symptom}?
If the {part} overflows, {service} falls back to the bucket {key}.
    Where does {service} write when its {part} is full?
The on-call rota for {service} is called {key}, {person} set it up.
    Whom do I page about {service}, which rota was it?
`{function}` must never be called while {key} is running, {person} learned that the hard way.
    What must not run at the same time as `{function}`?
The licence of the driver for the {part} is tied to the account {key}.
    Which account holds the driver licence for the {part}?
We postponed the {symptom} of {service} to the milestone {key}.
    Until when did we put off the {symptom} in {service}?
"""
_TICKET = _listed("""
A customer in {city} says that the {device} {trouble}.|{Person} called from {city}: the {device} {trouble} {when}.
The {device} in {city} was exchanged, but the new one {trouble}, too.|{Person} asks for a date for the {device}.
Spare parts for the {device} go to {city} on Thursday.|The warranty of the {device} in {city} ended {when}.
{Person} sent two pictures of the {device}, neither of them sharp.|In {city} nobody knows about the {device}.
""")
_TICKET_ANSWERS = _listed("""
I noted that the {device} in {city} {trouble}.|Then {person} should try another cable for the {device} first.
A restart of the {device} helps in most cases, and costs nothing.|For {city} the technician comes on Thursdays.
Please ask {person} for the serial number of the {device}.|The manual of the {device} has a table for this on page nine.
If the {device} {trouble}, the supply is the first suspect.|I would tell {person} that it takes until the weekend.
""")
_TICKET_FACTS = """
Closed: the {device} of {person} in {city} only needed the firmware {key}.
    What helped {person} in {city} with the {device}?
{Person} in {city} pays for the {device} through the contract {key}.
    Under which contract does {person} have the {device}?
The technician for {city} is now {key}, and {person} has the number.
    Who is the technician that repairs things for us in {city}?
The {device} in {city} was built into a cabinet labelled {key}.
    Where exactly is the {device} in {city} installed?
{Person} wants every mail about the {device} in copy to {key}.
    Who else gets a copy of our mails to {person}?
We lent {person} a replacement for the {device}, with the number {key}.
    Which replacement did {person} get from us?
For the {device} in {city} the remote access goes through {key}.
    How do I reach the {device} in {city} remotely?
{Person} refused the offer and bought from {key} instead, so {city} is lost.
    Which competitor did {person} in {city} choose?
The {device} in {city} fails whenever {key} is switched on next door.
    What disturbs the {device} in {city}?
"""


class Kind(NamedTuple):
    """How a kind of conversation is written: sentences, their number of words, and facts with their questions."""

    user: Sequence[str]
    asks: Sequence[str]
    answers: Sequence[str]
    words: tuple[int, int]
    answer_words: tuple[int, int]
    facts: list[tuple[str, str]]


def _facts(written: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in written.strip().splitlines()]
    return list(zip(lines[::2], lines[1::2], strict=True))


KINDS = {
    "small talk": Kind(_CHAT, _CHAT_ASKS, _CHAT_ANSWERS, (15, 45), (30, 100), _facts(_CHAT_FACTS)),
    "technical": Kind(_TECH, _TECH, _TECH, (80, 300), (100, 350), _facts(_TECH_FACTS)),
    "tickets": Kind(_TICKET, _TICKET, _TICKET_ANSWERS, (20, 80), (20, 60), _facts(_TICKET_FACTS)),
}


class Writer:
    """Writes conversations of one kind, deterministically for a seed."""

    def __init__(self, name: str, seed: int) -> None:
        self._name, self._kind, self._draw = name, KINDS[name], random.Random(f"{name} {seed}")
        self._keys: set[str] = set()

    def conversation(self, turns: int) -> Conversation:
        draw, facts = self._draw, [self._fact() for _ in range(FACTS)]
        told = dict(zip(draw.sample(range(turns // 2), FACTS), facts, strict=True))
        time, exchanges = datetime(2026, 1, 5, 9, 0, tzinfo=UTC), []
        for at in range(turns):
            time += timedelta(minutes=draw.randint(2, 40)) if at % 12 else timedelta(days=draw.randint(1, 6))
            exchanges.append(Exchange(self._user(told[at][0] if at in told else ""), self._answer(), time))
        asked = [(at, question) for at, (_, question) in draw.sample(sorted(told.items()), FACTS // 2)]
        return Conversation(self._name, _with_questions(exchanges, asked, draw))

    def _fact(self) -> tuple[str, Question]:
        told, asked = self._draw.choice(self._kind.facts)
        slots = self._slots()
        key = slots["key"] = self._key()
        return _filled(told, slots), Question(_filled(asked, slots), (key,))

    def _key(self) -> str:
        syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
        while (key := "".join(self._draw.choices(syllables, k=4)).capitalize()) in self._keys:
            pass
        self._keys.add(key)
        return key

    def _slots(self) -> dict[str, str]:
        return {name: self._draw.choice(choices) for name, choices in SLOTS.items()}

    def _user(self, fact: str) -> str:
        sentences = self._sentences(self._kind.user, *self._kind.words)
        if fact:
            sentences.insert(self._draw.randint(0, len(sentences)), fact)
        else:
            sentences.append(_filled(self._draw.choice(self._kind.asks), self._slots()))
        return _joined(sentences)

    def _answer(self) -> str:
        return _joined(self._sentences(self._kind.answers, *self._kind.answer_words))

    def _sentences(self, templates: Sequence[str], least: int, most: int) -> list[str]:
        """Sentences of about so many words."""
        made, left = list[str](), self._draw.randint(least, most)
        while left > 0:
            made.append(_filled(self._draw.choice(templates), self._slots()))
            left -= len(made[-1].split())
        return made


def _filled(template: str, slots: dict[str, str]) -> str:
    capitals = {name.capitalize(): value[0].upper() + value[1:] for name, value in slots.items()}
    return template.format(**slots, **capitals)


def _joined(sentences: Sequence[str]) -> str:
    """Sentences as a text of paragraphs."""
    groups = [sentences[at : at + 4] for at in range(0, len(sentences), 4)]
    return "\n\n".join(" ".join(group) for group in groups)


def _with_questions(
    exchanges: Sequence[Exchange], asked: Sequence[tuple[int, Question]], draw: random.Random
) -> list[Exchange | Question]:
    """The turns, with each question LEAST_GAP turns after the place that answers it, or later; or at the end."""
    by_place: dict[int, list[Question]] = {}
    for at, question in asked:
        by_place.setdefault(draw.randint(min(at + LEAST_GAP, len(exchanges)), len(exchanges)), []).append(question)
    parts: list[Exchange | Question] = []
    for at, exchange in enumerate(exchanges):
        parts += [*by_place.get(at, ()), exchange]
    return [*parts, *by_place.get(len(exchanges), ())]


def generated(seeds: Sequence[int], sizes: Sequence[int] = SIZES) -> Iterator[Conversation]:
    for seed in seeds:
        for kind in KINDS:
            for turns in sizes:
                yield Writer(kind, seed + 1000 * turns).conversation(turns)


def recorded(path: Path, questions: int) -> Iterator[Conversation]:
    """The conversations of a file, with up to `questions` questions each."""
    for number, data in enumerate(json.loads(path.read_text())):
        said = [
            (turn, datetime.strptime(session["date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC))
            for session in data["sessions"]
            for turn in session["turns"]
        ]
        places = {turn["id"]: at for at, (turn, _) in enumerate(said)}
        asked = []
        for each in data["questions"]:
            named = [places[id] for text in each["evidence"] for id in re.findall(r"D\d+:\d+", text) if id in places]
            if named:
                question = Question(each["question"], tuple(said[at][0]["text"] for at in named))
                asked.append((max(named) // 2, question))
        pairs = zip(said[::2], said[1::2], strict=False)
        exchanges = [
            Exchange(one["text"], other["text"], time, (one["speaker"], other["speaker"]))
            for (one, time), (other, _) in pairs
        ]
        draw = random.Random(number)
        chosen = draw.sample(asked, min(questions, len(asked)))
        yield Conversation("recorded", _with_questions(exchanges, chosen, draw))


class Past:
    """Writes turns into a session's log without calls, as calls would leave them there."""

    def __init__(self, session: Session, model: str = MODEL) -> None:
        self._session, self._measure = session, Measure(model)

    def add(self, exchange: Exchange) -> None:
        said = (
            Message("user", exchange.user, name=exchange.speakers[0]),
            Message("assistant", exchange.answer, name=exchange.speakers[1]),
        )
        self.write(said, exchange.time, _remembered)

    def write(
        self, said: Sequence[Message], time: datetime, remembered: Callable[[int], list[Record]] = lambda _: []
    ) -> None:
        """Write one turn, and the operations of its snapshot by round."""
        with self._session.locked():
            round = self._session.rounds(said)[0]
            runtime = Runtime(round, timestamp(time), timestamp(time))
            events: list[Record] = [
                {"type": "start", "runtime": runtime.as_json(), "ctx": {}},
                {"type": "snapshot", "round": round, "status": "clean", "operations": remembered(round), "ctx": {}},
                {"type": "done", "status": "ok", "ctx": {}},
            ]
            messages = [
                as_record(each, round=round, tokens={self._measure.name: self._measure.counted(each)}) for each in said
            ]
            self._session.append(new_turn_id(), messages, events, time)


def _remembered(turn: int) -> list[Record]:
    """Every eighth turn adds a memory item, which is about nothing that anybody asks for."""
    if turn % 8 != 1:
        return []
    tier = ("core", "working", "ephemeral")[turn // 8 % 3]
    content = f"In round {turn} the user was content with how the answer was put, and wants it shorter next time."
    item = MemoryItem(
        id=f"note-{turn}", type="preference", content=content, tags=("style",), tier=tier, decay=0.2,  # type: ignore[arg-type]
        anchor=turn, first=turn, last=turn, since=turn, importance=0.2,
    )  # fmt: skip
    return [{"kind": "add", "id": item.id, "tier": tier, "item": item.as_json()}]


class Outcome(NamedTuple):
    found: float
    tokens: int


Outcomes = dict[str, list[Outcome]]
"""By what was sent."""


def run(conversation: Conversation, name: str, budgets: Sequence[int], settings: Settings, home: Path) -> Outcomes:
    """The outcomes of all questions of a conversation, by budget and for the comparisons."""
    outcomes: Outcomes = {}
    for budget in budgets:
        for label, outcome in asked(conversation, f"{name}-{budget}", replace(settings, budget=budget), home):
            if budget == budgets[0] or label == "ctxwrap":
                label = f"budget {budget:,}" if label == "ctxwrap" else label
                outcomes.setdefault(label, []).append(outcome)
    return outcomes


def asked(conversation: Conversation, name: str, settings: Settings, home: Path) -> Iterator[tuple[str, Outcome]]:
    """Ask the questions of a conversation where they come; the turns between them are only written to the log."""
    store, measure = FileStore(home), Measure(MODEL)
    key = SessionKey("default", "default", name)
    past = Past(Session(key, store.open(key), settings, derives=False))
    said: list[Body] = []
    with ScriptedProvider(lambda _: Answer("I see.")) as provider:
        bare = openai.OpenAI(api_key="x", base_url=provider.openai_url, max_retries=0)
        client = ctxwrap.wrap(bare, session=name, store=store, settings=settings)
        for part in conversation.parts:
            if isinstance(part, Exchange):
                past.add(part)
                said += ({"role": "user", "content": part.user}, {"role": "assistant", "content": part.answer})
                continue
            said.append({"role": "user", "content": part.text})
            client.chat.completions.create(**request(said[-1:]))
            sent = provider.last.ask.body
            for way, body in (("ctxwrap", sent), ("last 20", request(said[-20:])), ("everything", request(said))):
                yield way, _outcome(body, part, measure)
            said.append({"role": "assistant", "content": "I see."})


def request(messages: Sequence[Body]) -> Body:
    return {"model": MODEL, "messages": [{"role": "system", "content": SYSTEM}, *messages]}


def _outcome(body: Body, question: Question, measure: Measure) -> Outcome:
    sent = _letters("\n".join(str(message["content"]) for message in body["messages"]))
    found = [_letters(each) in sent for each in question.evidence]
    return Outcome(statistics.mean(found), measure.body(CHAT.request_tokens, body))


def _letters(text: str) -> str:
    """Letters and digits only: passages are sent as JSON."""
    return re.sub(r"\\[nrt]|\W+", "", text)


def show(conversations: Sequence[Conversation], budgets: Sequence[int], settings: Settings) -> None:
    by_kind: dict[str, Outcomes] = {}
    with tempfile.TemporaryDirectory() as home:
        for number, conversation in enumerate(conversations):
            outcomes = run(conversation, str(number), budgets, settings, Path(home))
            for kind in (conversation.kind, "all"):
                for way, each in outcomes.items():
                    by_kind.setdefault(kind, {}).setdefault(way, []).extend(each)
        ctxwrap.flush()
    by_kind["all"] = by_kind.pop("all")  # the last column
    print("| sent | " + " | ".join(f"{kind}, found | tokens" for kind in by_kind) + " |")
    print("| --- |" + " --- | --- |" * len(by_kind))
    for way in sorted(by_kind["all"], key=lambda way: not way.startswith("budget")):
        cells = [cell for outcomes in by_kind.values() for cell in _cells(outcomes[way])]
        print(f"| {way} | " + " | ".join(cells) + " |")
    print(f"\n{len(by_kind['all']['everything'])} questions about {len(conversations)} conversations")


def _cells(outcomes: Sequence[Outcome]) -> tuple[str, str]:
    found, tokens = (statistics.mean(column) for column in zip(*outcomes, strict=True))
    return f"{100 * found:.1f} %", f"{tokens:,.0f}"


def numbers(written: str) -> list[int]:
    return [int(each) for each in written.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=numbers, default=[1])
    parser.add_argument("--sizes", type=numbers, default=SIZES, help="turns of the conversations")
    parser.add_argument("--budgets", type=numbers, default=BUDGETS)
    parser.add_argument("--data", type=Path, help="recorded conversations instead of generated ones")
    parser.add_argument("--questions", type=int, default=40, help="questions per recorded conversation")
    parser.add_argument("--retrieved", type=float, help="another share for what is found")
    options = parser.parse_args()
    shares = Shares() if options.retrieved is None else Shares(retrieved=options.retrieved)
    conversations = (
        recorded(options.data, options.questions) if options.data else generated(options.seeds, options.sizes)
    )
    show(list(conversations), options.budgets, Settings(shares=shares))


if __name__ == "__main__":
    main()
