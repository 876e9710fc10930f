"""Sixty sentences on two topics, and questions with the sentences that answer them."""

GARDEN = """\
The tomatoes go into the bed along the south wall, because they want sun all day.
I sowed the carrots on the third of April, two weeks later than last year.
Slugs ate most of the lettuce during the wet nights of May.
Beer traps caught about forty slugs in the first week.
Marta gave me six raspberry canes from her allotment.
The raspberries need a wire to lean on, one metre above the ground.
We water in the evening, never at noon, so that less of it dries up.
The rain barrel holds 300 litres and was empty by the middle of July.
Coffee grounds go on the compost, orange peel does not.
The compost heap reached 60 degrees after I mixed in grass clippings.
Ladybirds cleared the aphids from the broad beans without any spraying.
Beans and peas bring nitrogen back into the soil.
The pumpkin grew to eleven kilograms and won second prize at the fair.
I cut the apple tree in February, before the buds opened.
The apple tree carries a variety called Boskoop, which keeps until March.
Powdery mildew covered the courgette leaves in August.
Milk and water, one to nine, helped against the mildew.
The hedgehog lives under the pile of branches behind the shed.
Garlic is planted in October and pulled up in July.
Basil died in the first frost because I forgot to bring the pots inside.
The soil is heavy clay, so I dug in two barrows of sand.
A test kit said the ground is slightly acid, with a pH of 6.1.
Strawberries moved to a new bed, since they tire the old one after three years.
Straw under the strawberries keeps the fruit clean and dry.
The greenhouse lost two panes in the storm of 12 November.
Radishes are ready four weeks after sowing.
Nasturtiums draw the caterpillars away from the cabbage.
My neighbour Olek lends me his shredder every autumn.
The seed order cost 48 euros this year, mostly because of the potatoes.
Potatoes of the variety Linda stay firm when they are boiled.""".splitlines()

BOAT = """\
The boat is called Kittiwake and was built in Gdansk in 1983.
We bought her from a retired dentist for 14 000 euros.
The hull is fibreglass, seven metres and eighty long.
Osmosis blisters on the keel had to be ground out and filled.
The new mainsail came from a loft in Brest and cost more than the engine repair.
Reef early: above 20 knots she heels too far with the full sail.
The diesel has twelve horsepower and starts badly when it is cold.
A clogged fuel filter stopped the motor right at the harbour entrance.
Jonas threw the anchor and kept us off the rocks.
The anchor is a ten kilogram plough with thirty metres of chain.
Our mooring lies in the inner basin, berth 27, beside the fish hall.
The harbour fee is 310 euros for the season.
High water was at 14:20, so we left the bay with the ebb.
The tidal stream off the cape runs at four knots.
Lena was seasick for the first two days and then never again.
Ginger biscuits helped her more than the tablets.
The radio call sign is DKLM2, and channel 16 is always on.
Without the wind vane one of us has to steer all night.
We take watches of three hours, changing at midnight, three and six.
The chart plotter failed in the fog, so we went by compass and lead line.
Fog came down in ten minutes, and we heard the ferry before we saw it.
Dolphins followed us for an hour west of the lighthouse.
The life raft was last inspected in 2022 and is due again in 2025.
Every crew member wears a harness after dark.
The toilet pump leaks and needs a new joker valve.
Drinking water is in two tanks of eighty litres each.
The gas locker drains overboard, so that nothing collects in the bilge.
In winter she stands ashore under a tarpaulin at Svensson's yard.
Antifouling paint goes on in March, two coats of the copper-free kind.
The insurance wants a survey of the rig every ten years.""".splitlines()

SENTENCES = [*GARDEN, *BOAT]

QUESTIONS: list[tuple[str, list[str]]] = [
    ("Where do the tomatoes grow?", ["The tomatoes go"]),
    ("When did I sow the carrots?", ["I sowed the carrots"]),
    ("What happened to the lettuce?", ["Slugs ate"]),
    ("How many slugs did the traps catch?", ["Beer traps"]),
    ("Who gave us raspberries, and what do they need?", ["Marta gave", "The raspberries need"]),
    ("At what time of day should I water the plants?", ["We water"]),
    ("How much rain water can we store?", ["The rain barrel"]),
    ("What must not go on the compost?", ["Coffee grounds"]),
    ("Which insects got rid of the aphids?", ["Ladybirds"]),
    ("How heavy was the pumpkin?", ["The pumpkin"]),
    ("What do I do against mildew?", ["Milk and water", "Powdery mildew"]),
    ("Which apples do we have and how long do they keep?", ["The apple tree carries"]),
    ("When is garlic planted?", ["Garlic"]),
    ("Is our ground acid?", ["A test kit"]),
    ("What broke in the November storm?", ["The greenhouse"]),
    ("Which potatoes are good for boiling?", ["Potatoes of"]),
    ("How do I keep strawberries clean?", ["Straw under"]),
    ("What did the seeds cost?", ["The seed order"]),
    ("Who built the boat, and when?", ["The boat is called"]),
    ("What did we pay for the boat?", ["We bought her"]),
    ("How long is the hull?", ["The hull"]),
    ("When should we reef?", ["Reef early"]),
    ("Why did the motor stop at the harbour?", ["A clogged fuel filter"]),
    ("Who saved us from the rocks?", ["Jonas threw"]),
    ("How much chain does the anchor have?", ["The anchor is"]),
    ("Which berth is ours?", ["Our mooring"]),
    ("What does the harbour cost for a season?", ["The harbour fee"]),
    ("What helps against being seasick?", ["Ginger biscuits", "Lena was seasick"]),
    ("How did we find our way in the fog?", ["The chart plotter", "Fog came"]),
    ("When is the life raft due for inspection?", ["The life raft"]),
    ("How long is a watch?", ["We take watches"]),
    ("Where is the boat in winter?", ["In winter she"]),
    ("How much drinking water do we carry?", ["Drinking water"]),
    ("What paint do we use and when?", ["Antifouling"]),
    ("What is broken in the toilet?", ["The toilet pump"]),
    ("What does the insurance ask for?", ["The insurance"]),
]
"""Each question with the beginnings of the sentences that answer it."""
