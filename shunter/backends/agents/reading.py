"""How far the journal of an attempt on one machine was read, and how far that is durable."""

from dataclasses import dataclass

from shunter.backends.agents.attempt_records import Known, Note
from shunter.backends.node.messages import FACTS


@dataclass(slots=True)
class Reading:
    """Numbers of notes: the last that was read, the last that is in the log.

    `facts` is how many facts came before the first note that was ever read here: what an earlier
    term has read, and its supervisor has dropped since. `told` is how many facts of it an earlier
    term has told.
    """

    read: int = 0
    durable: int = 0
    facts: int | None = None
    told: int = 0

    def take(self, known: Known) -> list[Note]:
        """Return the notes of a record that were not read before, and note that they are.

        One that was read from further on than we are (for somebody before us, say) tells none.
        """
        if known.after > self.read:
            return []
        if self.facts is None:
            self.facts = known.facts
        fresh = [note for note in known.notes if note.n > self.read]
        if fresh:
            self.read = fresh[-1].n
        return fresh

    def was_told(self, note: Note) -> bool:
        """Say whether an earlier term has told a note; ask once, in their order."""
        if note.what not in FACTS or self.told <= (self.facts or 0):
            return False
        self.told -= 1
        return True

    def note_durable(self, upto: int) -> None:
        """Note that the facts of all notes up to a number are in the log."""
        self.durable = max(self.durable, upto)
