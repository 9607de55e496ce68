# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages in the order of their arrival under each tag."""

from libc.stdint cimport int64_t

cdef enum:
    BUCKETS = 64


cdef class Tagged:
    """An item with a tag: a call that waits for a message, or a message."""


cdef class ByTag:
    """Items by tag, in buckets of several tags; a tag without items takes no memory."""

    def __cinit__(self):
        self.first_items = [None] * BUCKETS
        self.last_items = [None] * BUCKETS

    cdef void add(self, Tagged item):
        """Append an item, which is in no other table."""
        cdef int64_t bucket = item.tag % BUCKETS
        cdef Tagged last = <Tagged>self.last_items[bucket]
        if last is None:
            self.first_items[bucket] = item
        else:
            last.next = item
        self.last_items[bucket] = item
        self.count += 1

    cdef Tagged first(self, int64_t tag):
        """The oldest item under a tag, or None."""
        if self.count == 0:
            return None
        cdef Tagged item = <Tagged>self.first_items[tag % BUCKETS]
        while item is not None and item.tag != tag:
            item = item.next
        return item

    cdef bint remove(self, Tagged item):
        """Remove an item; return whether it existed."""
        cdef int64_t bucket = item.tag % BUCKETS
        cdef Tagged before = None, found = <Tagged>self.first_items[bucket]
        while found is not None and found is not item:
            before, found = found, found.next
        if found is None:
            return False
        if before is None:
            self.first_items[bucket] = item.next
        else:
            before.next = item.next
        if item.next is None:
            self.last_items[bucket] = before
        item.next = None
        self.count -= 1
        return True

    cdef list items(self):
        """All items; the order of the tags is undefined."""
        cdef list found = []
        cdef Tagged item
        for item in self.first_items:
            while item is not None:
                found.append(item)
                item = item.next
        return found

    cdef list clear(self):
        """Remove all items; return them."""
        cdef list found = self.items()
        cdef Tagged item
        for item in found:
            item.next = None
        self.first_items = [None] * BUCKETS
        self.last_items = [None] * BUCKETS
        self.count = 0
        return found
