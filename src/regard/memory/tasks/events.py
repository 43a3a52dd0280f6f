"""What happens in a story: who goes where, takes what and drops it, and which events answer a question."""

from __future__ import annotations

from typing import NamedTuple

from regard.errors import RegardError

PEOPLE = ("anna", "ben", "carla", "dev", "ema", "finn")
PLACES = ("attic", "cellar", "garden", "hall", "kitchen", "office", "porch", "shed")
THINGS = ("apple", "book", "lamp", "rope")


class Event(NamedTuple):
    """One sentence: ``who`` went to the place ``what``, or took or dropped the thing ``what``."""

    verb: str
    who: str
    what: str

    @property
    def words(self) -> list[str]:
        """As it is told."""
        return [self.who, self.verb, *(["to"] if self.verb == "went" else []), "the", self.what]


def heard(words: list[str]) -> Event:
    """The event that is told in these words."""
    return Event(words[1], words[0], words[-1])


def happening(drawn: list[list[float]], people: int, places: int, things: int) -> list[Event]:
    """What happens. ``drawn`` are three numbers in [0, 1) an event: who, what he does, to what."""
    at: dict[str, str] = {}  # where a person stands, or a thing lies
    holder: dict[str, str] = {}
    events = []
    for who_drawn, verb_drawn, what_drawn in drawn:
        who = PEOPLE[int(who_drawn * people)]
        here = at.get(who)
        held = [thing for thing, one in holder.items() if one == who]
        known = THINGS[:things] if here is not None else ()
        free = [thing for thing in known if thing not in holder and at.get(thing, here) == here]
        choices = {"went": [place for place in PLACES[:places] if place != here], "took": free, "dropped": held}
        verbs = [verb for verb in ("went", "went", "took", "dropped") if choices[verb]]
        verb = verbs[int(verb_drawn * len(verbs))]
        what = choices[verb][int(what_drawn * len(choices[verb]))]
        if verb == "went":
            at[who] = what
        elif verb == "took":
            holder[what] = who
        else:
            at[what] = at[holder.pop(what)]
        events.append(Event(verb, who, what))
    return events


def supported(events: list[Event], asked: tuple[str, ...]) -> tuple[tuple[int, ...], str] | None:
    """Which sentences answer a question, found by looking back from the end, and the answer; None where none do."""

    def last(verbs: tuple[str, ...], before: int, who: str | None = None, what: str | None = None) -> int | None:
        for i in range(before - 1, -1, -1):
            event = events[i]
            if event.verb in verbs and who in (None, event.who) and what in (None, event.what):
                return i
        return None

    end = len(events)
    if asked[0] in PEOPLE:
        went = last(("went",), end, who=asked[0])
        return None if went is None else ((went,), events[went].what)
    thing = asked[0]
    if len(asked) == 1:
        touched = last(("took", "dropped"), end, what=thing)
        if touched is None:
            return None
        until = end if events[touched].verb == "took" else touched
        went = last(("went",), until, who=events[touched].who)
        assert went is not None  # nobody takes anything before he has gone somewhere
        return (touched, went), events[went].what
    for arrived in range(end - 1, -1, -1):
        event = events[arrived]
        if event.verb == "went" and event.what == asked[1]:
            touched = last(("took", "dropped"), arrived, what=thing)
            if touched is not None and events[touched].verb == "took" and events[touched].who == event.who:
                came = last(("went",), arrived, who=event.who)
                assert came is not None
                return (touched, arrived, came), events[came].what
    return None


def simulated(words: list[str]) -> str:
    """The answer to a stream of words that ends with its question, by living through it."""
    *told, question = " ".join(words).split(" . ")
    at: dict[str, str] = {}
    carried: dict[str, set[str]] = {}
    been: dict[str, list[str]] = {}  # the places of a person or a thing, one after the other
    for sentence in told:
        who, verb, *_, what = sentence.split()
        carries = carried.setdefault(who, set())
        if verb == "went":
            at[who] = what
            for one in (who, *carries):
                been.setdefault(one, []).append(what)
        elif verb == "took":
            carries.add(what)
            if been.setdefault(what, [at[who]])[-1] != at[who]:
                raise RegardError(f"inputs: {who} takes the {what} where it is not, wanted a story of this task")
        else:
            carries.remove(what)
    asked = question.split()
    if "before" not in asked:
        return been[asked[-1]][-1]
    places = been[asked[asked.index("before") - 1]]
    return places[max(i for i, place in enumerate(places) if i and place == asked[-1]) - 1]
