"""What the pictures show, but for the rooms. The pages that show them say the same in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tools.pictures.svg import Arrow, Box, Picture

EVENT_LIFE: Final = Picture(
    "The life of an event: from a publisher through its origin and a second node to a subscriber, a reader and Spark",
    (170, 92),
    (6.0, 4.4),
    (
        Box("a", ("node a, the origin",), (2.95, 1.95), "group", (2.3, 3.3)),
        Box("b", ("node b",), (5.1, 1.3), "group", (1.4, 2.0)),
        Box("publisher", ("publisher", "gathers a batch"), (0.6, 1.0), "outside"),
        Box("device", ("device", "EMM, EMM-C,", "EXMP, Coaty"), (0.6, 2.2), "outside"),
        Box("door", ("door", "key, rights, bytes,", "schema, quota"), (2.4, 1.0)),
        Box("gateway", ("gateway", "checks, translates"), (2.4, 2.2)),
        Box("core", ("core", "gives the offsets"), (3.55, 1.6), "pure"),
        Box("log", ("log", "writes, then syncs"), (3.4, 3.0), "store"),
        Box("copy", ("log", "appends the copy,", "syncs, then acks"), (5.1, 1.4), "store"),
        Box("subscriber", ("subscriber", "of node b"), (5.1, 2.9), "outside"),
        Box("near", ("subscriber", "of node a"), (5.1, 3.8), "outside"),
        Box("spark", ("Spark, fetch", "ranges of offsets"), (0.6, 3.6), "outside"),
    ),
    (
        Arrow("publisher", "door", "1", shift=-12),
        Arrow("door", "publisher", "4 receipt,\nafter the sync", label_below=True, dashed=True, shift=-12),
        Arrow("device", "gateway", "1"),
        Arrow("door", "core", "2"),
        Arrow("gateway", "core", "2"),
        Arrow("core", "log", "3"),
        Arrow("log", "copy", "5"),
        Arrow("log", "near", "5"),
        Arrow("copy", "subscriber", "6"),
        Arrow("log", "spark", "7 as stored"),
    ),
)

TOPOLOGY: Final = Picture(
    "A mesh of five nodes: an event takes the links that lead to interest, and no others",
    (170, 92),
    (6.1, 3.0),
    (
        Box("publisher", ("publisher", "plant.line1.temp"), (0.5, 0.5), "outside"),
        Box("a", ("node a", "origin"), (0.5, 1.7)),
        Box("b", ("node b", "no subscriber here:", "keeps a copy, passes it on"), (2.1, 1.0)),
        Box("c", ("node c", "one subscriber"), (4.0, 0.5)),
        Box("d", ("node d", "two subscribers"), (4.0, 1.6)),
        Box("e", ("node e", "no interest: gets nothing"), (2.1, 2.5)),
        Box("sub", ("readers of plant.>",), (4.55, 2.55), "outside"),
        Box("sub2", ("reader of plant.line1.*",), (5.35, 1.05), "outside"),
    ),
    (
        Arrow("publisher", "a"),
        Arrow("a", "b", "1st hop"),
        Arrow("b", "c", "2nd hop"),
        Arrow("b", "d", "2nd hop"),
        Arrow("a", "e", "link, unused", dashed=True),
        Arrow("e", "d", "link, unused", dashed=True),
        Arrow("d", "sub"),
        Arrow("c", "sub2"),
    ),
)

GROUPS: Final = Picture(
    "Two members of one group share two streams; a second group reads all of it again",
    (170, 86),
    (5.4, 3.6),
    (
        Box("topic", ("topic shop.orders",), (0.9, 1.6), "group", (1.7, 2.6)),
        Box("one", ("stream of node a", "0 1 2 3 4 5 6 7"), (0.9, 1.3), "store"),
        Box("two", ("stream of node b", "0 1 2 3 4"), (0.9, 2.3), "store"),
        Box("packing", ("group packing", "has positions 5 and 3"), (3.0, 0.9), "pure"),
        Box("audit", ("group audit", "has positions 8 and 1"), (3.0, 2.9), "pure"),
        Box("m1", ("member 1", "has the stream of a"), (4.7, 0.5), "outside"),
        Box("m2", ("member 2", "has the stream of b"), (4.7, 1.5), "outside"),
        Box("m3", ("its only member", "has both"), (4.7, 2.9), "outside"),
    ),
    (
        Arrow("one", "packing"),
        Arrow("two", "packing"),
        Arrow("one", "audit"),
        Arrow("two", "audit"),
        Arrow("packing", "m1"),
        Arrow("packing", "m2"),
        Arrow("audit", "m3"),
    ),
)

EXACTLY_ONCE: Final = Picture(
    "Exactly once: files are staged by tasks, one commit decides, and a repeated batch finds that it was decided",
    (170, 92),
    (5.6, 3.6),
    (
        Box("mesh", ("nodes of the mesh", "hold ranges of offsets"), (0.7, 1.2), "store"),
        Box("driver", ("driver", "plans batch 7:", "from offset 100 to 180"), (2.6, 0.4)),
        Box("task1", ("task", "fetches 100 to 140,", "writes a file"), (2.1, 1.9)),
        Box("task2", ("task, run twice", "fetches 140 to 180,", "writes two files"), (3.6, 1.9)),
        Box("files", ("files that no reader sees yet",), (2.85, 3.1), "outside"),
        Box("table", ("table", "one commit: batch 7", "is these two files"), (4.9, 1.0), "store"),
        Box("reader", ("readers", "see the batch whole,", "or not at all"), (4.9, 2.9), "outside"),
    ),
    (
        Arrow("driver", "task1", "1 plan"),
        Arrow("driver", "task2", "1 plan"),
        Arrow("mesh", "task1", "2 Arrow"),
        Arrow("task1", "files", "3 stage"),
        Arrow("task2", "files", "3 stage"),
        Arrow("driver", "table", "4 commit, once\nfor batch 7"),
        Arrow("table", "reader"),
    ),
)

KEY_ROTATION: Final = Picture(
    "Rotation: the root stays, intermediates and certificates change under it while nodes run",
    (170, 92),
    (5.2, 3.7),
    (
        Box("root", ("root", "ten years; its key is offline"), (2.6, 0.4), "store"),
        Box("old", ("old intermediate", "signs nothing more"), (1.1, 1.6)),
        Box("new", ("new intermediate", "by weft ca rotate"), (4.1, 1.6)),
        Box("c1", ("node a, certificate 1", "good until it ends"), (1.1, 2.7), "outside"),
        Box("c2", ("node a, certificate 2", "at two thirds of the life of 1"), (4.1, 2.7), "outside"),
    ),
    (
        Arrow("root", "old", "signed"),
        Arrow("root", "new", "signs"),
        Arrow("old", "c1", "signed"),
        Arrow("new", "c2", "signs"),
        Arrow("c1", "c2", "renewed, presenting 1"),
    ),
    (
        (
            2.6,
            3.5,
            "Nodes trust the root and get the intermediate with each certificate: no node restarts.",
        ),
    ),
)

EMM_WAY_IN: Final = Picture(
    "The way of an EMM datagram into the mesh: taken, told of neighbours, or put into quarantine",
    (170, 92),
    (6.0, 3.3),
    (
        Box("device", ("device", "one datagram"), (0.5, 0.6), "outside"),
        Box("socket", ("socket", "all that waits, at once"), (1.75, 0.6)),
        Box("judge", ("judge", "well formed? signed? fresh?", "seen before?"), (3.35, 0.6), "pure"),
        Box("accept", ("topic and payload", "emm.<name>"), (5.1, 0.6)),
        Box("journal", ("journal of replay marks", "written first"), (5.1, 1.8), "store"),
        Box("mesh", ("mesh", "publish, as a client does"), (5.1, 2.9), "store"),
        Box("hello", ("weft.emm.hello", "weft.emm.heartbeat"), (1.75, 2.2), "outside"),
        Box("quarantine", ("weft.quarantine.emm", "the packet and the reason"), (3.35, 2.2), "outside"),
    ),
    (
        Arrow("device", "socket"),
        Arrow("socket", "judge"),
        Arrow("judge", "accept", "yes"),
        Arrow("accept", "journal"),
        Arrow("journal", "mesh"),
        Arrow("judge", "hello", "of neighbours"),
        Arrow("judge", "quarantine", "refused"),
    ),
)

SUBJECTS: Final[Mapping[str, Picture]] = {
    "event-life": EVENT_LIFE,
    "topology": TOPOLOGY,
    "groups": GROUPS,
    "exactly-once": EXACTLY_ONCE,
    "key-rotation": KEY_ROTATION,
    "emm-way-in": EMM_WAY_IN,
}
