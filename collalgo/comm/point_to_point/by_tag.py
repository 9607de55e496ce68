"""Queues of messages, one for each tag that is in use."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")


class ByTag(Generic[Item]):
    """Items in the order of their arrival under each tag.

    A tag without items takes no memory.
    """

    def __init__(self) -> None:
        self._queues: dict[int, deque[Item]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[Item]:
        for queue in list(self._queues.values()):
            yield from list(queue)

    def add(self, tag: int, item: Item) -> None:
        self._queues.setdefault(tag, deque()).append(item)

    def first(self, tag: int) -> Item | None:
        """The oldest item under a tag; None if there is none."""
        queue = self._queues.get(tag)
        return queue[0] if queue else None

    def remove(self, tag: int, item: Any) -> bool:
        """Remove an item: whether it was there."""
        queue = self._queues.get(tag, ())
        for place, each in enumerate(queue):
            if each is item:
                del self._queues[tag][place]
                if not self._queues[tag]:
                    del self._queues[tag]
                return True
        return False

    def clear(self) -> None:
        self._queues.clear()
