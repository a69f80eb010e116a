"""The screen of ``weft top``: three tables that stay up to date, and a closer look at one row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from weft.cli.dashboard.asking import Asking
from weft.cli.dashboard.board import Board, GroupRow, NodeRow, TopicRow, arranged
from weft.cli.options import INTERRUPTED
from weft.cli.tables import human_bytes, human_time
from weft.errors import WeftError
from weft.visible import visible

STYLES: Final = {
    "up": "green",
    "draining": "yellow",
    "suspect": "yellow",
    "left": "dim",
    "no answer": "yellow",
    "connecting": "yellow",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One of a table: the field of a row, its heading, and how its values are shown."""

    field: str
    heading: str
    show: Callable[[Any], str] = visible
    is_number: bool = False

    def cell(self, row: Any) -> Text:
        value = getattr(row, self.field)
        text = "" if value is None else self.show(value)
        style = STYLES.get(value, "red") if self.field == "state" else ""
        return Text(text, style=style, justify="right" if self.is_number else "left", no_wrap=True)


def number(field: str, heading: str, show: Callable[[Any], str] = lambda value: f"{value:,}") -> Column:
    return Column(field, heading, show, is_number=True)


def rate(field: str) -> Column:
    return number(field, "events/s", lambda value: f"{value:,.0f}")


def duration(seconds: int) -> str:
    """As long as a person would say it: 42 s, 7 min, 3 h, 12 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


COLUMNS: Final[dict[str, Sequence[Column]]] = {
    "nodes": (
        Column("node", "node"),
        Column("state", "state"),
        rate("events_per_s"),
        Column("flow", "lately"),
        number("events", "events"),
        number("log_bytes", "log", human_bytes),
        number("streams", "streams"),
        number("links", "links"),
        number("rtt_ms", "round trip", lambda value: f"{value:.1f} ms"),
        number("lag_events", "behind"),
        number("uptime_s", "up for", duration),
        Column("version", "version"),
    ),
    "topics": (
        Column("topic", "topic"),
        rate("events_per_s"),
        Column("flow", "lately"),
        number("events", "events"),
        number("bytes", "bytes", human_bytes),
        number("streams", "streams"),
        number("nodes", "nodes"),
        Column("last_timestamp_us", "last event", human_time),
    ),
    "groups": (
        Column("group", "group"),
        rate("handled_per_s"),
        Column("flow", "lately"),
        number("lag_events", "events behind"),
        number("lag_s", "seconds behind", lambda value: f"{value:,.1f}"),
        number("members", "members"),
        number("streams", "streams"),
    ),
}


@dataclass(slots=True)
class Order:
    """How a table is sorted, by the number of a column."""

    column: int
    is_descending: bool = True


class Details(ModalScreen[None]):
    """More about one row."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Back")]

    def __init__(self, title: str, tables: Sequence[tuple[str, Sequence[str], Sequence[Sequence[str]]]]) -> None:
        super().__init__()
        self._title, self._tables = title, tables

    def compose(self) -> ComposeResult:
        with Vertical(id="details"):
            yield Static(Text(visible(self._title), style="bold"))
            for heading, columns, rows in self._tables:
                yield Static(Text(heading, style="dim"), classes="heading")
                table: DataTable[Text] = DataTable(cursor_type="row", zebra_stripes=True)
                table.add_columns(*columns)
                for row in rows:
                    table.add_row(*(Text(visible(cell), no_wrap=True) for cell in row))
                yield table
            yield Footer()


class Top(App[None]):
    """Asks again after every interval, and shows the newest answers until the next come."""

    TITLE = "weft top"
    CSS = """
    Screen { overflow: hidden; }
    TabbedContent { height: 1fr; }
    #summary { height: 1; padding: 0 1; background: $panel; }
    #filter { display: none; height: 3; }
    #filter.shown { display: block; }
    DataTable { height: 1fr; }
    Details { align: center middle; }
    #details { width: 90%; height: 90%; padding: 1 2; border: round $primary; background: $surface; }
    #details DataTable { height: auto; max-height: 60%; }
    .heading { padding: 1 0 0 0; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "#nodes-table"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "show('nodes')", "Nodes"),
        Binding("2", "show('topics')", "Topics"),
        Binding("3", "show('groups')", "Groups"),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "By the one before", show=False),
        Binding("r", "reverse", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("escape", "clear", "Clear", show=False),
        Binding("space", "pause", "Pause"),
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),  # as in all commands, whatever has the focus
    ]

    def __init__(self, asking: Asking, interval_s: float) -> None:
        super().__init__()
        self.board = Board()
        self._asking, self._interval_s = asking, interval_s
        self._orders = {"nodes": Order(0, False), "topics": Order(1), "groups": Order(3)}
        self._words = ""
        self._is_paused = False
        self._trouble = ""

    def compose(self) -> ComposeResult:
        yield Static(id="summary")
        with TabbedContent(initial="nodes", id="tabs"):
            for name in COLUMNS:
                with TabPane(name.capitalize(), id=name):
                    yield DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="words in the name", id="filter", disabled=True)
        yield Footer()

    def on_mount(self) -> None:
        self.run_worker(self._ask_again_and_again())

    async def _ask_again_and_again(self) -> None:
        while True:
            try:
                answers = await self._asking.answers()
            except WeftError as error:
                self._trouble = str(error)
            else:
                self._trouble = ""
                if not self._is_paused:
                    self.board.take(answers)
            self.show_newest()
            await asyncio.sleep(self._interval_s)

    # --- the tables ------------------------------------------------------------------------------------------------

    @property
    def _shown(self) -> str:
        return self.query_one("#tabs", TabbedContent).active

    def _table(self, name: str) -> DataTable[Text]:
        return self.query_one(f"#{name}-table", DataTable)

    def show_newest(self) -> None:
        self._show_summary()
        for name in COLUMNS:
            self._fill(name)

    def _fill(self, name: str) -> None:
        """The row that was chosen stays chosen, wherever it is now."""
        table, columns, order = self._table(name), COLUMNS[name], self._orders[name]
        rows = arranged(getattr(self.board, name), self._words, columns[order.column].field, order.is_descending)
        chosen, before = self._chosen_key(table), table.scroll_offset
        table.clear(columns=True)
        for place, column in enumerate(columns):
            arrow = (" ▼" if order.is_descending else " ▲") if place == order.column else ""
            table.add_column(Text(column.heading + arrow, justify="right" if column.is_number else "left"))
        for row in rows:
            table.add_row(*(column.cell(row) for column in columns), key=getattr(row, columns[0].field))
        if chosen is not None and chosen in table.rows:
            table.move_cursor(row=table.get_row_index(chosen), scroll=False)
        table.scroll_to(before.x, before.y, animate=False)

    @staticmethod
    def _chosen_key(table: DataTable[Text]) -> str | None:
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(Coordinate(table.cursor_row, 0)).row_key.value

    def _show_summary(self) -> None:
        board, parts = self.board, []
        if board.answers is not None:
            up = sum(row.state == "up" for row in board.nodes)
            parts = [
                board.answers.node_id,
                f"{up} of {len(board.nodes)} nodes up",
                f"{len(board.topics):,} topics",
                f"{board.events_per_s:,.0f} events/s",
                f"{sum(row.lag_events for row in board.groups):,} events behind in {len(board.groups):,} groups",
            ]
            parts += [f"no right to see {', '.join(board.answers.refused)}"] if board.answers.refused else []
        parts += ["paused"] if self._is_paused else []
        parts += [f"filter: {self._words}"] if self._words else []
        text = Text(visible("  ·  ".join(parts)), no_wrap=True)
        if self._trouble:
            text.append(visible(f"   no answer: {self._trouble}"), style="bold red")
        self.query_one("#summary", Static).update(text)

    # --- keys ------------------------------------------------------------------------------------------------------

    def action_interrupt(self) -> None:
        self.exit(return_code=INTERRUPTED)

    def action_show(self, name: str) -> None:
        self.query_one("#tabs", TabbedContent).active = name
        self._table(name).focus()

    def action_sort(self, step: int) -> None:
        order = self._orders[self._shown]
        order.column = (order.column + step) % len(COLUMNS[self._shown])
        order.is_descending = COLUMNS[self._shown][order.column].is_number
        self.show_newest()

    def action_reverse(self) -> None:
        order = self._orders[self._shown]
        order.is_descending = not order.is_descending
        self.show_newest()

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("shown")
        field.disabled = False
        field.focus()

    def action_clear(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = ""
        self._close_filter()

    def action_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._show_summary()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words = event.value
        self.show_newest()

    def on_input_submitted(self) -> None:
        self._close_filter()

    def _close_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.remove_class("shown")
        field.disabled = True
        self._table(self._shown).focus()

    # --- a closer look ---------------------------------------------------------------------------------------------

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        kind, name = self._shown, event.row_key.value
        row = next((each for each in getattr(self.board, kind) if getattr(each, COLUMNS[kind][0].field) == name), None)
        if row is not None and not isinstance(self.screen, Details):
            self.run_worker(self._look(row))

    async def _look(self, row: NodeRow | TopicRow | GroupRow) -> None:
        looks: dict[type, Callable[[Any], Awaitable[Details]]] = {
            NodeRow: self._look_at_node,
            TopicRow: self._look_at_topic,
            GroupRow: self._look_at_group,
        }
        try:
            await self.push_screen(await looks[type(row)](row))
        except WeftError as error:
            self.notify(visible(str(error)), severity="error", markup=False)

    async def _look_at_node(self, row: NodeRow) -> Details:
        answers = self.board.answers
        assert answers is not None, "a row is of answers"
        status = answers.statuses.get(row.node)
        peer = next((each for each in answers.peers if row.node in (each.node_id, *each.addresses)), None)
        facts = [(column.heading, column.cell(row).plain) for column in COLUMNS["nodes"][1:]]
        if status is not None:
            facts += [("epoch", str(status.epoch)), ("listens on", ", ".join(status.listeners))]
        if peer is not None:
            facts += [("addresses", ", ".join(peer.addresses)), ("neighbours", ", ".join(peer.neighbours))]
            facts += [("wants", ", ".join(peer.interest)), ("incarnation", str(peer.incarnation))]
            facts += [("no link because", peer.trouble)] if peer.trouble else []
        return Details(row.node, [("node", ("what", "value"), facts)])

    async def _look_at_topic(self, row: TopicRow) -> Details:
        streams = [
            (
                str(each.stream),
                str(each.epoch),
                f"{each.earliest_offset:,}",
                f"{each.latest_offset:,}",
                human_bytes(each.size_bytes),
                human_time(each.last_timestamp_us),
            )
            for each in await self._asking.streams(row.topic)
        ]
        headings = ("stream", "epoch", "from", "to", "bytes", "last event")
        recipients = [
            (each.node_id, each.pattern, " > ".join(each.path), each.reason)
            for each in await self._asking.recipients(row.topic)
        ]
        tables = [("streams, at the asked node", headings, streams)]
        return Details(row.topic, [*tables, ("who gets it", ("node", "because of", "path", "why"), recipients)])

    async def _look_at_group(self, row: GroupRow) -> Details:
        assert self.board.answers is not None, "a row is of answers"
        group = next(each for each in self.board.answers.groups if each.group == row.group)
        streams = [
            (
                str(each.position.stream),
                each.member,
                f"{each.position.offset:,}",
                f"{each.latest_offset:,}",
                f"{each.lag_events:,}",
                f"{each.lag_us / 1e6:,.1f}",
            )
            for each in group.streams
        ]
        headings = ("stream", "member", "position", "end", "events behind", "seconds behind")
        return Details(row.group, [(f"members: {', '.join(group.members) or 'none'}", headings, streams)])
