"""The last epochs of a job, which its members note in the store for inspection."""

import time
from dataclasses import dataclass

from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.elastic.documents import Round
from collalgo.elastic.schema import Fields, encode

#: The prefix of the keys.
HISTORY = "history/"

#: Epochs that are kept.
KEPT = 200


@dataclass(frozen=True)
class PastEpoch:
    """An epoch of a job.

    Attributes
    ----------
    epoch : int
        Its number.
    members : tuple of str
        The names of its members.
    why : str
        The reason of its begin.
    milliseconds : int
        The time of its begin since 1970, by the clock of its rank 0; only shown.
    """

    epoch: int
    members: tuple[str, ...]
    why: str
    milliseconds: int

    @property
    def is_failure(self) -> bool:
        """Whether the epoch before has lost members."""
        return "lost:" in self.why or "left out" in self.why


def note_epoch(store: KeyValueStore, present: Round) -> None:
    """Note an epoch, and drop the oldest; rank 0 calls this."""
    names = [member.name for member in present.members]
    now = int(time.time() * 1e3)
    value = encode(epoch=present.epoch, members=names, why=present.why, at=now)
    store.set(f"{HISTORY}{present.epoch}", value)
    if present.epoch > KEPT:
        store.delete(f"{HISTORY}{present.epoch - KEPT}")


def past_epoch(value: bytes) -> PastEpoch:
    """An epoch in a key.

    Raises
    ------
    RendezvousError
        If the value is malformed.
    """
    fields = Fields(value, "epoch")
    return PastEpoch(
        fields.number("epoch", least=1),
        fields.texts("members"),
        fields.text("why"),
        fields.number("at"),
    )


def history(store: KeyValueStore) -> list[PastEpoch]:
    """The last epochs, in order."""
    found = [past_epoch(entry.value) for entry in store.entries(HISTORY).values()]
    return sorted(found, key=lambda each: each.epoch)
