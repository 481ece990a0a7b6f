"""How well requests that have nothing to do with a catalogue fit it all the same: a tool that fits no better probably
does not fit. In a large catalogue something is near to everything.
"""

PROBES = (
    "what should I give my grandfather for his birthday",
    "how do I get red wine out of a carpet",
    "the tap in the bathroom drips",
    "write a limerick about a lazy cat",
    "which bus goes to the stadium",
    "my back hurts when I sit for long",
    "teach me how to knit a scarf",
    "is it safe to eat mussels in summer",
    "who won the bicycle race yesterday",
    "find me a flat with two rooms near the park",
    "explain photosynthesis to a child",
    "the dog will not stop barking at night",
    "how much tax do I pay on an inheritance",
    "translate the letter from my landlord",
    "which phone has the best camera",
    "plan a week of vegetarian dinners",
    "when does the library open on Saturday",
    "help me prepare for a job interview",
    "the screen of my laptop flickers",
    "what is the capital of Mongolia",
    "compare the fees of these two banks",
    "draw a logo for a bakery",
    "how far is the moon from here",
    "sell my old bicycle",
    "what do I need for a visa to Brazil",
    "turn this recording into text",
    "choose paint for the nursery",
    "play something quiet",
    "count the birds in this photo",
    "is the museum free for students",
    "my plane is late, what am I owed",
    "make a chart of last year's sales",
    "name the rivers of Poland",
    "how long do I boil an egg",
    "get the kids to brush their teeth",
    "summarise the minutes of the meeting",
    "what does this error on my washing machine mean",
    "find a choir that takes beginners",
    "solve x squared plus two x equals eight",
    "what is worth seeing in Ghent",
)
"""Everyday requests of many domains: those that a catalogue does serve do not move the median."""
SCOPES_KEPT = 64
"""Of each the median fit of the probes is kept."""
