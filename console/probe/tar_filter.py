"""Runs on a node: a tar as a stream without some of its entries; Python 3.8, standard library only."""

from __future__ import annotations

MOST = 1 << 20  # bytes of a pax record; those of an image's archive have some hundred


class Filter:
    """A tar that goes by, without the entries whose path is in `names`; what is no tar goes by as it is."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.held = b""  # a header that has not come whole, or a pax record that belongs to the next entry
        self.left = 0  # bytes of the present entry, its padding too
        self.drop = False
        self.blind = False
        self.left_out = 0

    def take(self, data: bytes) -> bytes:
        if self.blind:
            return data
        out = []
        data = self.held + data
        self.held = b""
        at = 0
        while at < len(data):
            if self.left:
                piece = data[at : at + self.left]
                at += len(piece)
                self.left -= len(piece)
                if not self.drop:
                    out.append(piece)
                continue
            need = self._entry(data, at)
            if need < 0:
                self.blind = True
                out.append(data[at:])
                break
            if need == 0:
                self.held = data[at:]
                break
            if not self.drop:
                out.append(data[at : at + need])
            at += need
        return b"".join(out)

    def _entry(self, data: bytes, at: int) -> int:
        """The length of the headers of the entry that begins here; 0: they have not come whole; -1: this is no tar."""
        size = None
        start = at
        while True:
            head = data[at : at + 512]
            if len(head) < 512:
                return 0
            if not head.strip(b"\0"):
                self.left, self.drop = 0, False
                return at + 512 - start
            if head[257:262] != b"ustar":
                return -1
            own = tar_number(head[124:136])
            if own < 0:
                return -1
            if head[156:157] != b"x":
                name = head[:100].split(b"\0")[0].decode("utf-8", "replace")
                whole = own if size is None else size
                self.left = (whole + 511) // 512 * 512
                self.drop = name in self.names
                self.left_out += self.drop
                return at + 512 - start
            padded = (own + 511) // 512 * 512
            if own > MOST:
                return -1
            record = data[at + 512 : at + 512 + padded]
            if len(record) < padded:
                return 0
            for line in record[:own].split(b"\n"):
                key, _, value = line.partition(b"=")
                if key.endswith(b" size") and value.isdigit():
                    size = int(value)
            at += 512 + padded


def tar_number(field: bytes) -> int:
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    text = field.strip(b"\0 ")
    try:
        return int(text, 8) if text else 0
    except ValueError:
        return -1
