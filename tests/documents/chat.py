"""A chat of sixty turns about the launch of a product, with small talk in between, and what a model remembers of it."""

from typing import NamedTuple


class Turn(NamedTuple):
    user: str
    assistant: str
    remembered: tuple[tuple[str, str], ...] = ()
    """Items that the model's snapshot has from this turn on, each as type and content."""


TURNS = (
    Turn(
        "Hi, I'm Priya Nair, product manager at Northwind. We're planning the Q3 launch of the Atlas dashboard.",
        "Hi Priya! Happy to help with the Atlas launch. What's the target date?",
        (("identity", "The user's name is Priya Nair"), ("fact", "Priya Nair is product manager at Northwind")),
    ),
    Turn(
        "The launch is on 17 Aug 2025. Budget is 40,000 EUR. Tom Becker leads engineering and Aisha does design.",
        "Got it: 17 Aug 2025, 40,000 EUR, Tom on engineering, Aisha on design.",
        (("deadline", "The Atlas launch is on 17 Aug 2025"), ("fact", "Tom Becker leads engineering for Atlas")),
    ),
    Turn("Great, thanks!", "You're welcome!"),
    Turn(
        "We decided to use PostgreSQL instead of MongoDB because of reporting.",
        "Good choice for reporting. I'll keep that in mind.",
        (("decision", "Atlas uses PostgreSQL instead of MongoDB because of reporting"),),
    ),
    Turn(
        "I need to send the press kit to marketing by Friday. Remind me.",
        "Noted: press kit to marketing by Friday.",
        (("task", "Send the press kit to marketing by Friday"),),
    ),
    Turn("Can you write a short product blurb?", "Atlas is a dashboard that shows sales and stock in one place."),
    Turn(
        "Nice. Make it shorter please, and I prefer British spelling.",
        "Atlas: sales and stock, in one place. I'll use British spelling.",
        (("preference", "Priya prefers British spelling"),),
    ),
    Turn("Perfect!", "Glad you like it."),
    Turn("How's the weather where you are? Ha.", "I have no weather, but I hope yours is fine."),
    Turn("Rainy as ever. Anyway.", "Back to Atlas, then."),
    Turn("Dana is our lawyer.", "Noted."),
    Turn(
        "We agreed with legal that the beta terms are signed off by Dana on 1 Aug 2025.",
        "Great: Dana signs off the beta terms on 1 Aug 2025.",
        (("decision", "Dana signs off the beta terms on 1 Aug 2025"),),
    ),
    Turn("Thanks, Mel!", "I'm not Mel, but you're welcome."),
    Turn("Oops, wrong window. Sorry.", "No problem."),
    Turn("Please order the banners from PrintWorks.", "I cannot order things, but I note it."),
    Turn("I think the logo is too small, maybe.", "You could try 120 px."),
    Turn("What would you do?", "Make it larger."),
    Turn("Lol my cat just walked over the keyboard", "Ha! Cats love keyboards."),
    Turn("He's called Biscuit by the way", "Lovely name."),
    Turn("Can you explain what SSO is?", "SSO is single sign-on: one login for many systems."),
    Turn("And SAML?", "SAML is a protocol for it."),
    Turn(
        "Actually the launch moved to 24 Aug 2025, Tom needs another week for SSO.",
        "Understood, the launch is now 24 Aug 2025; SSO needs another week.",
        (("deadline", "The Atlas launch moved to 24 Aug 2025 because SSO needs another week"),),
    ),
    Turn("He also wants a code freeze on 15 Aug.", "OK, code freeze on 15 Aug."),
    Turn("I'm so tired today, what a week", "Hang in there."),
    Turn("If we miss the date I'll eat my hat", "Let's hope not."),
    Turn("Maybe we could move to Berlin next year, who knows.", "A fine city."),
    Turn("My manager says I should work from home more.", "Does that suit you?"),
    Turn("Dunno.", "Fair enough."),
    Turn("The press kit is done, sent it to marketing.", "Great, that's off the list."),
    Turn("What do we still have open?", "Open: banners, SSO, beta terms."),
    Turn("I'm allergic to peanuts, so no peanut snacks at the launch party please.", "Noted: no peanuts."),
    Turn("haha yes", "Good."),
    Turn("The launch party is on 29 Aug 2025.", "I'm sure it will be fun."),
    Turn("Do you like parties?", "I like hearing about them."),
    Turn("The budget is now 45,000 EUR.", "Noted: 45,000 EUR.", (("fact", "The Atlas budget is 45,000 EUR"),)),
    Turn("Cool cool cool", "Indeed."),
    Turn("Could you compare Jira and Linear for me?", "Jira is larger, Linear is faster."),
    Turn("ok", "Anything else?"),
    Turn("We haven't decided yet whether to hire Paul or Ines.", "Take your time."),
    Turn("Paul is nice but Ines knows Kafka.", "Then it depends on the work."),
    Turn("We decided to hire Ines.", "Congratulations to Ines!", (("decision", "The team decided to hire Ines"),)),
    Turn("Yay!", "Yay indeed."),
    Turn("Mei needs to update the roadmap.", "Noted."),
    Turn("Good night!", "Good night!"),
    Turn("Good morning! Slept like a baby.", "Good morning!"),
    Turn("Mei has updated the roadmap.", "Great."),
    Turn("Did Dana sign?", "I don't know."),
    Turn("She'll do it on Friday, I guess.", "Fine."),
    Turn("Our customer number at PrintWorks is PW-20931.", "Noted."),
    Turn("Thank you so much, you're a star!", "My pleasure."),
    Turn("Translate to German: I live in Ghent and my name is Ada.", "Ich wohne in Gent und heiße Ada."),
    Turn("Danke!", "Bitte!"),
    Turn("Write a poem in which I am a pirate named Redbeard.", "Redbeard sailed the seven seas."),
    Turn("Beautiful!", "Thank you."),
    Turn("That joke was terrible though", "I'll do better."),
    Turn("Imagine we had 3 million users. What would break first?", "The database."),
    Turn("Makes sense.", "It does."),
    Turn("From now on always answer in one paragraph.", "I will."),
    Turn("So what's the date again?", "24 Aug 2025."),
    Turn("Great, talk tomorrow. Bye!", "Bye, Priya!"),
)
