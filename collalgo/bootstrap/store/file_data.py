"""The keys and leases of a store in a folder, from the records of its log; no file."""

from collections.abc import Iterator

from collalgo.bootstrap.store.file_record import Kind, Record
from collalgo.bootstrap.store.protocol import ABSENT, Change, Entry


class FileData:
    """The keys and leases after the records that were read.

    Attributes
    ----------
    version : int
        The version of the last change.
    entries : dict
        The value of each key.
    leases : dict
        The seconds of each lease that has not ended, by its identifier.
    """

    def __init__(self, version: int = ABSENT):
        self.version = version
        self.entries: dict[str, Entry] = {}
        self.leases: dict[int, float] = {}
        self._lease_of: dict[str, int] = {}

    def apply(self, record: Record) -> Change | None:
        """Take a record in: the change of a key, if it is one."""
        match record.kind:
            case Kind.GRANT:
                self.leases[record.lease] = float(record.value)
                return None
            case Kind.END:
                self.leases.pop(record.lease, None)
                return None
        self.version = max(self.version, record.version)
        self._lease_of.pop(record.key, None)
        if record.kind is Kind.DELETE:
            self.entries.pop(record.key, None)
            return Change(record.key, None, record.version)
        self.entries[record.key] = Entry(record.value, record.version)
        if record.lease:
            self._lease_of[record.key] = record.lease
        return Change(record.key, record.value, record.version)

    def version_of(self, key: str) -> int:
        """The version of a key, or ABSENT."""
        entry = self.entries.get(key)
        return ABSENT if entry is None else entry.version

    def end(self, lease: int) -> list[Record]:
        """The records that end a lease and delete its keys."""
        keys = sorted(key for key, held in self._lease_of.items() if held == lease)
        records = [
            Record(Kind.DELETE, self.version + number, key=key)
            for number, key in enumerate(keys, 1)
        ]
        return [*records, Record(Kind.END, self.version, lease)]

    def records(self) -> Iterator[Record]:
        """The records of the whole state, for a new log."""
        for lease, seconds in self.leases.items():
            yield Record(Kind.GRANT, 0, lease, value=repr(seconds).encode())
        for key, (value, version) in self.entries.items():
            yield Record(Kind.PUT, version, self._lease_of.get(key, 0), key, value)

    def changes_from(self, before: "FileData") -> list[Change]:
        """The differences from an earlier state, in the order of versions."""
        gone = before.entries.keys() - self.entries.keys()
        found = [
            Change(key, *entry)
            for key, entry in self.entries.items()
            if entry.version > before.version_of(key)
        ]
        found.sort(key=lambda change: change.version)
        return [Change(key, None, self.version) for key in sorted(gone)] + found
