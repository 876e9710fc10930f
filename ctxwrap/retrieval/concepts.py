"""Words that a question uses for others: names of kinds of things, and synonyms, of everyday English.

A question about hobbies is answered by messages about pottery and chess, which share no word with it.
"""

from collections import defaultdict
from functools import cache

from ctxwrap.language.words import term_of

_KINDS = """
activity hobby pastime leisure: art baking biking camping chess climbing cooking craft cycling dancing drawing
    exercise fishing game gardening gym hiking jogging knitting music painting photography pottery puzzle reading
    running sailing sewing skating skiing surfing swimming trip video volunteer walk workout writing yoga
sport athletic: baseball basketball boxing climbing coach cricket cycling football golf gym hockey jogging marathon
    martial match race rugby running score skating skiing soccer surfing swimming team tennis tournament training
    volleyball win yoga
exercise workout fitness: aerobics cycling gym hiking jogging marathon pilates run strength stretch swimming
    training walk weights yoga
instrument: bass cello clarinet drums flute guitar harp keyboard piano saxophone trumpet ukulele violin
music musician genre: album artist band blues choir classical concert country guitar hip jazz piano playlist pop rap
    rock sing tune violin
pet animal: bird bunny cat dog fish goat guinea hamster horse kitten kitty parrot pup puppy rabbit snake turtle
food eat meal dish cuisine snack diet: apple bake barbecue beef bread breakfast burger cake candy cheese chicken
    chocolate cook cookies curry dessert dinner egg fish fruit grill ice lunch meat noodles pancake pasta pie pizza
    recipe rice salad salmon sandwich soup soda steak sushi sweet taco tofu vegetable vegetarian vegan yogurt
drink beverage: beer cocktail coffee juice lemonade milk smoothie soda tea water wine
book novel read author: chapter fantasy fiction library page poem poetry series story thriller
movie show series watch: actor anime cinema comedy director documentary drama episode fantasy horror netflix
    romantic sequel thriller
game gamer: board card chess console controller level minecraft nintendo online play playstation puzzle quest rpg
    strategy tournament xbox
art artist artwork create: canvas ceramics clay collage craft draw exhibit gallery mural paint photo portrait
    pottery sculpture sketch watercolor
job work career occupation profession employer living: boss business client company coach degree engineer hire
    interview manager nurse office promotion startup store teacher
business company startup: brand client customer employee investor launch marketing online product sale shop store
    website
study degree major school college university education: class course diploma exam graduate internship lecture
    psychology professor program research scholarship semester student teacher thesis
family relative: aunt brother child cousin dad daughter grandfather grandma husband mom nephew niece parent sibling
    sister son uncle wife
kid: baby boy daughter girl newborn son toddler
partner relationship dating romantic spouse: boyfriend breakup divorce engaged fiance girlfriend husband love
    marriage single wedding wife
friend: buddy colleague neighbor pal roommate teammate
health medical illness condition disease injury sick: ache allergic allergy ankle anxiety asthma blood cancer cold
    depression diabetes diagnosed diet doctor fever flu headache heart hospital hurt injured knee pain prescription
    sprain surgery therapy treatment vaccine weight
emotion feel mood: afraid angry anxious ashamed calm excited glad grateful happy hurt joy lonely nervous proud
    relaxed sad scared stressed thrilled upset worried
stress destress relax unwind cope: bath breathe calm camping journal massage meditate music nature paint peace read
    run therapy walk yoga
travel trip vacation visit place destination: abroad airport beach camping city coast country cruise flight hiking
    hotel island lake mountain museum park passport resort road tour town
outdoor nature: beach camping campfire fishing forest garden hike kayak lake mountain ocean park picnic river stars
    sunset trail waterfall woods
country city state: abroad america canada capital china england europe france germany greece india ireland italy
    japan mexico paris london rome spain town travel york
event celebration festival: anniversary auction birthday ceremony charity competition concert conference convention
    exhibition fair fundraiser gala graduation marathon parade party performance race show tournament wedding
    workshop
charity volunteer community cause help donate: animal awareness food fundraiser fundraising homeless kitchen mentor
    nonprofit shelter sponsor support
car vehicle transport drive: bicycle bus ferrari ford garage jeep motorcycle prius scooter tesla toyota train truck
clothes wear outfit fashion: boots coat dress hoodie jacket jeans jersey necklace pants ring scarf shirt shoes skirt
    sneakers suit sweater
item object possession collect gift present buy purchase: bag book bracelet camera card clothes coin console dress
    figurine flowers jersey jewelry memorabilia necklace painting phone photo plant poster record shoes signed
    souvenir stamp toy vinyl watch
home house apartment live: backyard bedroom city furniture garage garden kitchen landlord lease mortgage move
    neighborhood rent room studio
technology device tech computer: app camera code gadget keyboard laptop phone program robot screen software tablet
    website
language speak: arabic chinese english french german italian japanese korean portuguese russian spanish
religion religious faith spiritual: bible church god meditation mosque pray temple
politics law policy: campaign council election government mayor military politician reform vote
money financial finance afford: bank bill budget cost debt dollar expensive fund income invest loan pay price salary
    save
weather season climate: cold fall hot rain snow storm summer sunny warm winter
goal plan dream ambition aspire future: career hope open pursue someday start win
personality trait character describe attribute: brave calm caring creative dedicated determined driven funny honest
    independent kind loyal passionate patient selfless strong supportive thoughtful
hardship challenge setback problem issue difficulty difficult struggle: accident broke divorce fail failure fired
    hurt injury layoff lost obstacle quit rejection sick stuck tough
achievement accomplish success award recognition: beat certificate champion graduate medal milestone mvp prize
    promotion published record reward title trophy victory win
color: black blue bright brown gold green orange pink purple red silver white yellow
plant garden flower: bloom herb orchid rose seed succulent sunflower tomato tree tulip vegetable
"""
"""Names of a kind, then words for what belongs to it. A line that begins with spaces continues the one before."""

_SYNONYMS = """
buy purchase acquire|car vehicle|begin start|end finish complete|job career work|big large huge|small little tiny
happy glad joy|sad upset|sick ill unwell|doctor physician|trip journey travel vacation|home house|gift present
photo image|fix repair mend|quit stop|help assist support|study learn|teach instruct|speak talk|discuss talk chat
choose pick select|favorite best love|enjoy love|dislike hate|hobby pastime interest|allergic allergy
important significant|difficult hard tough challenging|afraid scared fear|spouse husband wife partner
boyfriend girlfriend partner|shop store|phone call|message text email|win victory|receive given|attend went join
participate join took part|visit went trip|move relocate|create made|decide decision choose|suggest recommend advice
recommend suggest|inspire motivate encourage|company business firm|competition contest tournament|cook bake
sibling brother sister|parent mother father|weekend saturday sunday|movie cinema|cost price pay|injury hurt injured
ocean sea beach|woods forest|error bug failure|delete remove drop|salary pay wage|apartment flat|roommate flatmate
pet dog cat|dish meal food|symbolize represent meaning|remind memory
"""


@cache
def query_terms() -> dict[str, set[str]]:
    """Return the query terms that may stand for each term."""
    found = defaultdict[str, set[str]](set)
    for line in _KINDS.strip().replace("\n    ", " ").splitlines():
        names, members = map(_terms, line.split(":"))
        for member in members:
            found[member] |= names - {member}
    for words in _SYNONYMS.replace("\n", "|").strip("|").split("|"):
        group = _terms(words)
        for each in group:
            found[each] |= group - {each}
    return dict(found)


def _terms(words: str) -> frozenset[str]:
    return frozenset(map(term_of, words.split())) - {""}
