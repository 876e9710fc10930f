"""A long made-up conversation in four languages, and what somebody who listened would still know of it."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from ctxwrap.documents.sentences import RawMessage

PEOPLE = (
    "Maria Jansen",
    "Tom Becker",
    "Aiko Sato",
    "Luc Moreau",
    "Ines Ortega",
    "Priya Nair",
    "Jonas Weber",
    "Zoe Clark",
)
_ROLES = {
    "Maria Jansen": "Maria Jansen is our product lead.",
    "Tom Becker": "Tom Becker ist unser Designer.",
    "Aiko Sato": "Aiko Sato is our contact in Osaka.",
    "Luc Moreau": "Luc Moreau est notre comptable.",
    "Ines Ortega": "Ines Ortega es nuestra abogada.",
    "Priya Nair": "Priya Nair is the head of support.",
    "Jonas Weber": "Jonas Weber ist unser Administrator.",
    "Zoe Clark": "Zoe Clark is our landlord.",
}
_THINGS = """
    apron barn cabin dome engine ferry garage hangar island jetty kiosk ladder mast nozzle orchard pier quarry ramp silo
    tower umbrella valve winch xylophone yard zipper anchor bridge canopy dynamo easel funnel gasket hammock icebox
    jigsaw kettle lantern mirror notebook oven pulley quilt rudder sled trolley urn vise wagon
    yoke awning bellows crane ditch
""".split()  # noqa: SIM905
_KINDS = """
    amber bronze cobalt denim ebony fuchsia golden hazel indigo jade khaki lilac maroon navy olive pearl quartz russet
    scarlet teal umber violet walnut xanthic yellow zinc
""".split()  # noqa: SIM905

_DECISIONS = (
    "We decided to paint the {kind} {thing} with lacquer {number}.",
    "We agreed to rent the {kind} {thing} from {person}.",
    "We'll go with the {kind} {thing} for hall {number}.",
    "Wir haben beschlossen, {kind} {thing} bei {person} zu kaufen.",
    "Nous avons décidé de garder {kind} {thing} au dépôt {number}.",
    "Hemos acordado vender {kind} {thing} a {person}.",
    "The board approved the {kind} {thing} yesterday.",
)
_TASKS = (
    ("Please order the {kind} {thing} from {person}.", "I ordered the {kind} {thing} from {person}."),
    (
        "{person} needs to repair the {kind} {thing}.",
        "{person} has finished: the {kind} {thing} is repaired, all done.",
    ),
    ("Bitte prüfe {kind} {thing} mit {person}.", "{kind} {thing} ist mit {person} geprüft und erledigt."),
    ("Il faut livrer {kind} {thing} chez {person}.", "{kind} {thing} chez {person}: livré, terminé."),
    ("Hay que limpiar {kind} {thing} con {person}.", "Limpiar {kind} {thing} con {person}: hecho."),
)
_OTHERS = (
    "Hello! How are you today?",
    "Thanks a lot!",
    "The {kind} {thing} weighs {number} kg.",
    "My neighbour's {kind} {thing} arrived on 3 May 2024.",
    "I like {kind} tea from the {thing}.",
    "What does the {kind} {thing} cost?",
    "I saw {person} near the {thing} at {number} o'clock.",
    "Our {kind} {thing} has the number K-{number}.",
    "It rained all day, which was rather boring.",
    "I've been thinking about how strange the weather is these days.",
    "Hallo, wie geht es dir?",
    "Der Preis für {kind} {thing} beträgt {number} Euro.",
    "{person} war am 12. März 2024 in Köln.",
    "Danke schön, alles gut.",
    "Ich mag den {kind} {thing} sehr.",
    "Bonjour ! Merci beaucoup.",
    "Le prix de {kind} {thing} est de {number} euros.",
    "J'adore {kind} {thing} depuis toujours.",
    "Quand est-ce que {person} arrive ?",
    "Buenos días, muchas gracias.",
    "El precio de {kind} {thing} es de {number} euros.",
    "Me gusta {kind} {thing} porque es bonito.",
    "¿Dónde está {person}?",
    "The meeting about the {thing} is on 2024-06-{day}.",
    "She told me that it would be fine.",
    "See https://example.org/{thing}/{number} for the drawings.",
    "Hmm, let me think about it.",
)


class Known(NamedTuple):
    """What must still be in a document after a message."""

    entry: RawMessage
    people: tuple[str, ...]
    decisions: tuple[str, ...]
    """Words that tell each decision from the others, the newest last."""
    tasks: tuple[str, ...]
    """The same of the tasks that are open."""


def talk(count: int, seed: int = 7, most_open: int = 8) -> Iterator[Known]:
    """So many messages, one sentence of interest in each; the same for the same seed."""
    chance = random.Random(seed)
    unused = [f"{kind} {thing}" for kind in _KINDS for thing in _THINGS]
    chance.shuffle(unused)
    people: list[str] = []
    decisions: list[str] = []
    tasks: dict[str, str] = {}
    for number in range(1, count + 1):
        what = chance.random()
        said = {
            "person": chance.choice(PEOPLE),
            "number": chance.randint(10, 9999),
            "day": f"{chance.randint(1, 28):02}",
        }
        said["kind"], said["thing"] = chance.choice(_KINDS), chance.choice(_THINGS)
        role = "user"
        if number <= 4 * len(PEOPLE) and number % 4 == 1:
            people.append(PEOPLE[number // 4])
            text = _ROLES[people[-1]]
        elif what < 0.05 and unused:
            said["kind"], said["thing"] = unused.pop().split()
            text = chance.choice(_DECISIONS).format(**said)
            decisions.append(f"{said['kind']} {said['thing']}")
        elif what < 0.09 and unused and len(tasks) < most_open:
            said["kind"], said["thing"] = unused.pop().split()
            asked, done = chance.choice(_TASKS)
            text = asked.format(**said)
            tasks[f"{said['kind']} {said['thing']}"] = done.format(**said)
        elif what < 0.12 and tasks:
            text = tasks.pop(chance.choice(sorted(tasks)))
            role = chance.choice(("user", "assistant"))
        else:
            text = chance.choice(_OTHERS).format(**said)
            role = chance.choice(("user", "user", "assistant"))
        day = f"2024-{1 + number * 12 // (count + 1):02}-{1 + number % 28:02}T12:00:00Z"
        yield Known(RawMessage(number, role, text, day), tuple(people), tuple(decisions[-20:]), tuple(tasks))
