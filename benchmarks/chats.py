"""Generated chats for benchmarks: seeded user and model messages, and a session to run them in."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from ctxwrap.memory.epoch import expand_brief
from ctxwrap.pack.builder import PackSources
from ctxwrap.protocol.instructions import SEPARATOR, asks_for_changes, parse_block
from ctxwrap.providers.openai_chat import OpenAIChat
from ctxwrap.session.clock import new_turn_id
from ctxwrap.session.session import Session
from ctxwrap.settings import Settings
from ctxwrap.stores.files.store import FileStore
from ctxwrap.turn.turn import Turn
from ctxwrap.types import Body, Record, SessionKey, TurnRecord

MODEL = "gpt-4o"
SYSTEM = (
    "You are a friendly assistant of a small company that plans journeys and events for its customers. Answer in the "
    "language of the user, in whole sentences and without lists unless you are asked for one. Ask back when a wish is "
    "not clear, say so when you do not know something, and never promise a price or a date that nobody confirmed. "
    "Keep what the user tells about people, places and plans in mind, and come back to it when it helps."
)
WIRE = OpenAIChat()

_WHO = """
my brother|my neighbour|a friend of mine|our landlord|my aunt|the new trainee|somebody from work|my old teacher|the kids
my boss|our plumber|a colleague|my cousin|the lady next door|my uncle|our accountant|a stranger|my flatmate|the coach
"""
_DID = """
asked me about|complained about|was laughing at|wanted to sell|could not stop talking about|dreamt of|finally fixed
wrote a long letter about|took pictures of|forgot|borrowed|painted|looked for|argued over|showed me|ordered|returned
measured|gave up on|was proud of|cleaned|lost|described|counted
"""
_WHAT = """
the garden fence|an electric bicycle|the kitchen tiles|a box of records|the heating bill|some tomato plants|the choir
a second hand piano|the train timetable|our holiday photos|a broken umbrella|the parking space|a chess tournament
the football results|an old sewing machine|a pair of boots|the tax forms|a recipe for plum cake|the weather forecast
a crime novel|the museum tickets|a stack of newspapers|the bathroom mirror|a wooden boat|the school concert|a jigsaw
the bus strike|a new frying pan|a rainy weekend|the cinema programme|a mountain hut|the running shoes|a birthday card
"""
_WHEN = """
yesterday evening|last spring|on the way home|during lunch|before the meeting|at the weekend|this morning|again
around midnight|all afternoon|after the storm|while we were cooking|in the middle of the night|just now|on Tuesday
"""
_HOW = """
which surprised everybody|and nobody knew why|so we had to start over|but it was worth it|and I am still tired
which took far longer than planned|because the shop was closed|and the dog barked the whole time|as usual
although it was raining|and that was that|so I stayed calm|because there was no other way|and it cost too much
"""
_ASKS = """
What would you do about {what}?|Do you think {what} can wait?|How would I explain {what} to {who}?|Any idea for {what}?
Would {who} enjoy {what}?|Is there a simple way to deal with {what}?|Should I ask {who} about {what} first?
"""
_ANSWERS = """
With {what} it often helps to begin small and to look at it again a day later.|{Who} may see that differently.
I would write down what you know about {what}, and what is still open.|That {who} {did} {what} is easy to understand.
There are two ways: leave {what} as it is, or ask {who} for help.|It sounds as if {what} took a good deal of time.
Many people underestimate {what}, and {when} is seldom the best moment for it.|If {who} agrees, the rest is simple.
Perhaps {what} matters less than it seems, {how}.|A short note to {who} would settle that.
I can put a plan together that leaves room for {what}.|Then we could come back to {what} when {who} has answered.
"""


def _listed(written: str) -> list[str]:
    return [each for line in written.strip().splitlines() for each in line.split("|")]


SLOTS = {
    "who": _listed(_WHO),
    "did": _listed(_DID),
    "what": _listed(_WHAT),
    "when": _listed(_WHEN),
    "how": _listed(_HOW),
}
ASKS, ANSWERS = _listed(_ASKS), _listed(_ANSWERS)


class Talk:
    """Generates sentences, deterministically for a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def filled(self, template: str) -> str:
        words = {name: self.draw.choice(choices) for name, choices in SLOTS.items()}
        text = template.format(**words, Who=words["who"].capitalize())
        return text[0].upper() + text[1:]

    def told(self) -> str:
        ending = self.draw.choice((" {when}", ", {how}", " {when}, {how}"))
        return self.filled(f"{{who}} {{did}} {{what}}{ending}.")

    def sentences(self, made: Callable[[], str], least: int) -> str:
        """Sentences of `least` words or a few more."""
        text = made()
        while len(text.split()) < least:
            text += f" {made()}"
        return text

    def user(self, *own: str) -> str:
        """A user message of 20 to 60 words that includes the sentences in `own`."""
        rest = self.draw.randint(20, 34) - sum(len(each.split()) for each in own)
        told = [self.sentences(self.told, rest)] if rest > 5 else []
        asked = [] if own else [self.filled(self.draw.choice(ASKS))]
        return " ".join([*told, *own, *asked])

    def answer(self) -> str:
        """A model answer of 40 to 120 words."""
        return self.sentences(lambda: self.filled(self.draw.choice(ANSWERS)), self.draw.randint(40, 100))

    def fact(self) -> str:
        """A fact to remember; repeats are rare."""
        whose, value = self.draw.choice(_listed(_OWNERS)), self.draw.choice(_listed(_VALUES))
        return (
            f"By the way, the {self.draw.choice(_listed(_THINGS))} of {whose} is {value} {self.draw.randint(2, 900)}."
        )


_OWNERS = "my mother|our office|my son|the summer house|my bank|the sailing club|my daughter|our team|the old flat"
_THINGS = "locker number|wifi password|favourite hotel|insurance company|door code|shoe size|bus line|customer number"
_VALUES = "Larkspur|Tamarind|Quillon|Bexley|Orsova|Meridian|Calloway|Vireo|Hartwell|Pomander|Zephyr|Lindisfarne|Corvina"


class Planted(NamedTuple):
    """A fact, a question that paraphrases it, and the key word that answers it."""

    told: str
    asked: str
    key: str


def planted() -> list[Planted]:
    lines = iter(_PLANTED.strip().splitlines())
    pairs = ((told, *then.strip().partition("? ")) for told, then in zip(lines, lines, strict=True))
    return [Planted(told, f"{asked}?", key) for told, asked, _, key in pairs]


_PLANTED = """
My sister's dentist is called Halloran and works near the old mill.
    Which dentist near the mill does my sister see? Halloran
The alarm at the cabin switches off with the word Pelican.
    How do I switch the alarm off when I am at the cabin? Pelican
Our wedding band was booked through an agency named Fontaine.
    Through which agency did we book the band for the wedding? Fontaine
I am allergic to penicillamine, the doctors found out in Lisbon.
    What was it the doctors in Lisbon found I am allergic to? penicillamine
Grandfather's violin was built by a maker from Mirecourt.
    Where did the maker of my grandfather's violin come from? Mirecourt
The spare key of the workshop hangs behind the picture of Neptune.
    Where did I say the spare workshop key hangs? Neptune
Our cat Juniper needs her drops every second evening.
    What is the name of our cat, the one that needs drops? Juniper
My first flat was in Kastanienallee, above a bakery.
    In which street was my first flat, with the bakery below? Kastanienallee
The blue folder for the auditors is with Mrs Okonkwo.
    Who has the blue folder that the auditors want? Okonkwo
I learned to sail on a dinghy called Bluebottle.
    What was the dinghy called on which I learned sailing? Bluebottle
For the anniversary I reserved a table at Trattoria Ghirlanda.
    Where did I reserve the table for our anniversary? Ghirlanda
The printer on the third floor only takes cartridges of type XK-5517.
    Which cartridges does the third floor printer take? XK-5517
My thesis was about the lichens of Svalbard.
    What was my thesis on, those lichens from where? Svalbard
The contract with the caterer ends on the ninth of Brumaire.
    When does our contract with the caterer end? Brumaire
Dad's pills are the Verapamil ones in the white tin.
    Which pills of my dad's are in the white tin? Verapamil
Our guide in the Andes was a man named Wayra.
    Who was our guide when we were in the Andes? Wayra
I keep the passports in the drawer labelled Cinnabar.
    In which drawer do I keep our passports? Cinnabar
The choir rehearses the requiem by Duruflé this season.
    Whose requiem does the choir rehearse this season? Duruflé
My locker at the pool opens with 7741.
    What number opens my locker at the swimming pool? 7741
The mechanic said that the van needs a new Haldex clutch.
    Which clutch does the van need, according to the mechanic? Haldex
Aunt Rosalind's bees were ruined by a fungus called Ascosphaera.
    What was the fungus that ruined my aunt's bees? Ascosphaera
I promised the twins a trip to Legoredo when school ends.
    Which trip did I promise the twins for the end of school? Legoredo
The landlord of the studio wants the rent sent to Banca Sella.
    To which bank does the landlord of the studio want the rent? Sella
Our offer for the harbour project was 48250 francs.
    How many francs was our offer for the harbour project? 48250
My running partner is training for the Comrades in Durban.
    What is my running partner training for, and where? Durban
The wallpaper in the nursery is a pattern named Thistledown.
    What is the pattern of the nursery wallpaper named? Thistledown
The lawyer who handled the inheritance is Doctor Achterberg.
    Which lawyer handled the inheritance for us? Achterberg
I gave my old telescope to the observatory at Pic du Midi.
    Which observatory did I give the old telescope to? Pic du Midi
The wine we liked at the vineyard was a Blaufränkisch.
    Which wine did we like so much at the vineyard? Blaufränkisch
The backup of the photos runs on the server named Galadriel.
    On what server does the backup of my photos run? Galadriel
"""


class Said(NamedTuple):
    """A user message, and the fact in it that a model would remember."""

    text: str
    fact: str = ""


def small_talk(talk: Talk, turns: int, facts: float) -> Iterator[Said]:
    """A chat in which the share `facts` of the messages states a fact."""
    for _ in range(turns):
        fact = talk.fact() if talk.draw.random() < facts else ""
        yield Said(talk.user(fact) if fact else talk.user(), fact)


class Forgetful:
    """A model that answers but never writes memory."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk

    def __call__(self, body: Body, said: Said) -> str:
        return self.talk.answer()


class Attentive(Forgetful):
    """A model that follows the protocol: facts go to core, tasks and hints come at intervals, and tasks get done."""

    def __call__(self, body: Body, said: Said) -> str:
        state, before = state_in(body), state_in(body)
        memory, now = state["memory"], state["runtime"]["round"]
        if said.fact:
            memory["core"].append(_note(f"fact-{now}", "fact", 0.1, now, said.fact))
        if now % 7 == 0:
            task = f"The user has to see to {self.talk.draw.choice(SLOTS['what'])}."
            memory["working"] = [note for note in memory["working"] if now - note["round"] < 20]
            memory["working"].append(_note(f"task-{now}", "task", 0.3, now, task))
            state["active_task"] = task
        if now % 5 == 0:
            hint = f"Today {self.talk.draw.choice(SLOTS['who'])} is on the user's mind."
            memory["ephemeral"].append(_note(f"hint-{now}", "hint", 0.6, now, hint))
        written = changes(before, state) if asks_for_changes(texts_in(body)[0]) else state
        return f"{self.talk.answer()}\n\n{SEPARATOR}\n{json.dumps(written, ensure_ascii=False, separators=(',', ':'))}"


def changes(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """A delta snapshot: new, changed and moved items, and the ids of dropped ones."""
    known, kept = (
        {note["id"]: (tier, note) for tier, notes in state["memory"].items() for note in notes}
        for state in (before, now)
    )
    memory = {
        tier: [note for note in notes if known.get(note["id"]) != (tier, note)] for tier, notes in now["memory"].items()
    }
    dropped = [id for id in known if id not in kept]
    return {**now, "memory": memory, **({"dropped": dropped} if dropped else {})}


def _note(id: str, type: str, decay: float, round: int, content: str) -> Record:
    return {"id": id, "type": type, "decay": decay, "round": round, "tags": [type], "content": content}


def state_in(body: Body) -> dict[str, Any]:
    """The state as a model reads it: the changes applied to the memory in its instructions."""
    texts = texts_in(body)
    state, epoch = parse_block(texts[-1]), parse_block(texts[0], "memory")
    assert state is not None, "the request carries no context block"
    told = {note["id"] for notes in state["memory"].values() for note in notes} | {*state.pop("dropped", ())}
    state.pop("unchanged", None)
    for tier, notes in expand_brief(epoch).items():
        state["memory"][tier] = [note for note in notes if note["id"] not in told] + state["memory"][tier]
    return state


def texts_in(body: Body) -> list[str]:
    """The messages of a request, each as one string."""
    return [f"{message['role']}\n{_text(message['content'])}" for message in body["messages"]]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


class Taken(NamedTuple):
    """A completed turn."""

    body: Body
    start: Record
    """The event with the receipt of its pack."""
    record: TurnRecord
    written: str
    """The model's reply with its trailer."""


class Chat:
    """A session and a caller who sends the whole history or only the newest message; turns are a minute apart."""

    def __init__(
        self,
        home: Path,
        name: str,
        model: Callable[[Body, Said], str],
        *,
        sends_all: bool = False,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.key = SessionKey("bench", "agent", name)
        self.session = Session(self.key, FileStore(home).open(self.key), self.settings)
        self.said: list[Body] = []
        """All messages except the system prompt."""
        self._model, self._sends_all = model, sends_all
        self._now = datetime(2026, 2, 20, 9, 0, tzinfo=UTC)

    def take(self, said: Said) -> Taken:
        self._now += timedelta(minutes=1)
        self.said.append({"role": "user", "content": said.text})
        body = request(self.said if self._sends_all else self.said[-1:])
        turn = opened(self.session, self.key, body, self._now, self.settings)
        with self.session.locked():
            opening = turn.opening_records(self.session.packs.keep(turn.texts))
            self.session.append(turn.id, *opening, self._now, part="o")
        written = self._model(turn.body, said)
        shown = turn.reader.whole(completion(written))
        close(self.session, turn, self._now)
        self.said.append(dict(shown["choices"][0]["message"]))
        return Taken(turn.body, opening[1][0], turn.record, written)


def request(messages: Sequence[Body]) -> Body:
    return {"model": MODEL, "messages": [{"role": "system", "content": SYSTEM}, *messages]}


def opened(session: Session, key: SessionKey, body: Body, now: datetime, settings: Settings | None = None) -> Turn:
    """A turn with its pack, as a call opens it, before anything is written."""
    read = WIRE.read(body)
    with session.locked():
        opening = session.open_turn(read, now)
        sources = PackSources(None, session.retrieve)
        return Turn(new_turn_id(), key, WIRE, body, read, "enabled", opening, settings or Settings(), sources)


def close(session: Session, turn: Turn, now: datetime) -> None:
    with session.locked():
        session.append(turn.id, *turn.closing_records(session.memory, session.next_message), now, part="c")


def completion(text: str) -> Body:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}
