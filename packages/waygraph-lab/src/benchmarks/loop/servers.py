"""`python -m benchmarks.loop.servers NAME FOLDER`: one of eight MCP servers with real state, over standard input.

Each keeps its state in `FOLDER/NAME.json`, which is read and written at each call, so that the folder may be emptied
between two tasks. A service that only tells things keeps whom it told what: that is its state.
"""

import json
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
REMOVES = ToolAnnotations(destructive_hint=True)
ADDS = ToolAnnotations(destructive_hint=False)


@dataclass(frozen=True, slots=True)
class Store:
    """The state of one server as JSON."""

    path: Path

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else {}

    def rows(self, kind: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.read().get(kind, [])
        return rows

    def write(self, kind: str, rows: list[dict[str, Any]]) -> None:
        self.path.write_text(json.dumps(self.read() | {kind: rows}, sort_keys=True), encoding="utf-8")

    def add(self, kind: str, **row: Any) -> dict[str, Any]:
        rows = self.rows(kind)
        row = {"id": f"{kind[:2]}{len(rows) + 1}", **row}
        self.write(kind, [*rows, row])
        return row

    def change(self, kind: str, row_id: str, **changes: Any) -> dict[str, Any]:
        """Raises ValueError for an id that is not there."""
        rows = self.rows(kind)
        row = next((row for row in rows if row["id"] == row_id), None)
        if row is None:
            raise ValueError(f"there is no {kind} {row_id!r}; there are: {', '.join(row['id'] for row in rows)}")
        row |= changes
        self.write(kind, rows)
        return row


def calendar(server: MCPServer, store: Store) -> None:
    @server.tool(annotations=ADDS)
    def create_event(title: str, date: str, time: str = "") -> str:
        """Add an appointment to the calendar on a date (YYYY-MM-DD)."""
        return json.dumps(store.add("events", title=title, date=date, time=time, state="planned"))

    @server.tool(annotations=READS)
    def list_events(date: str) -> str:
        """Show what is in the calendar on a date."""
        return json.dumps([event for event in store.rows("events") if event["date"] == date])

    @server.tool(annotations=REMOVES)
    def cancel_event(event_id: str) -> str:
        """Cancel an appointment that is in the calendar."""
        return json.dumps(store.change("events", event_id, state="cancelled"))

    @server.tool(annotations=ADDS)
    def move_event(event_id: str, date: str) -> str:
        """Reschedule an appointment to another date."""
        return json.dumps(store.change("events", event_id, date=date))


def shop(server: MCPServer, store: Store) -> None:
    prices = {"kettle": 39, "teapot": 25, "lamp": 60, "umbrella": 18}

    @server.tool(annotations=READS)
    def search_products(query: str) -> str:
        """Search the shop's products by words."""
        return json.dumps({name: price for name, price in prices.items() if query.casefold() in name})

    @server.tool(annotations=ADDS)
    def add_to_cart(product: str, quantity: int = 1) -> str:
        """Put a product into the shopping cart."""
        if product not in prices:
            raise ValueError(f"no product {product!r}; there are: {', '.join(prices)}")
        return json.dumps(store.add("cart", product=product, quantity=quantity))

    @server.tool(annotations=REMOVES)
    def empty_cart() -> str:
        """Remove everything from the shopping cart."""
        store.write("cart", [])
        return "the cart is empty"

    @server.tool()
    def place_order(address: str) -> str:
        """Buy what is in the shopping cart and have it delivered to an address."""
        items = [{"product": row["product"], "quantity": row["quantity"]} for row in store.rows("cart")]
        if not items:
            raise ValueError("the cart is empty")
        store.write("cart", [])
        return json.dumps(store.add("orders", items=items, address=address, state="placed"))

    @server.tool(annotations=REMOVES)
    def cancel_order(order_id: str) -> str:
        """Cancel an order that was placed."""
        return json.dumps(store.change("orders", order_id, state="cancelled"))

    @server.tool()
    def return_order(order_id: str, reason: str) -> str:
        """Send an order back and ask for the money."""
        return json.dumps(store.change("orders", order_id, state="returned", reason=reason))


def restaurants(server: MCPServer, store: Store) -> None:
    @server.tool(annotations=READS)
    def find_restaurants(city: str, cuisine: str = "") -> str:
        """Search places to eat in a city."""
        store.add("searches", city=city, cuisine=cuisine)
        return json.dumps(["Trattoria Due", "Golden Wok"])

    @server.tool(annotations=ADDS)
    def book_table(restaurant: str, date: str, people: int) -> str:
        """Reserve a table at a restaurant."""
        return json.dumps(store.add("reservations", restaurant=restaurant, date=date, people=people, state="booked"))

    @server.tool(annotations=REMOVES)
    def cancel_reservation(reservation_id: str) -> str:
        """Cancel a table reservation."""
        return json.dumps(store.change("reservations", reservation_id, state="cancelled"))


def weather(server: MCPServer, store: Store) -> None:
    @server.tool(annotations=READS)
    def get_current(city: str) -> str:
        """Tell the weather in a city now."""
        store.add("current", city=city)
        return f"{city}: 9 degrees, light rain"

    @server.tool(annotations=READS)
    def get_forecast(city: str, days: int = 3) -> str:
        """Forecast the weather in a city for the next days."""
        store.add("forecast", city=city, days=days)
        return f"{city}: rain, then sun"

    @server.tool(annotations=READS)
    def get_history(city: str, date: str) -> str:
        """Tell the weather that a city had on a past date."""
        store.add("history", city=city, date=date)
        return f"{city} on {date}: snow"


def mail(server: MCPServer, store: Store) -> None:
    @server.tool()
    def send_mail(to: str, subject: str, body: str) -> str:
        """Send an e-mail to an address."""
        return json.dumps(store.add("mails", to=to, subject=subject, body=body, state="sent"))

    @server.tool(annotations=ADDS)
    def save_draft(to: str, subject: str, body: str) -> str:
        """Write an e-mail and keep it as a draft without sending it."""
        return json.dumps(store.add("mails", to=to, subject=subject, body=body, state="draft"))

    @server.tool(annotations=READS)
    def search_mail(query: str) -> str:
        """Search the mailbox by words."""
        return json.dumps([mail for mail in store.rows("mails") if query in json.dumps(mail)])

    @server.tool(annotations=REMOVES)
    def delete_mail(mail_id: str) -> str:
        """Delete an e-mail from the mailbox for good."""
        return json.dumps(store.change("mails", mail_id, state="deleted"))


def tickets(server: MCPServer, store: Store) -> None:
    @server.tool(annotations=ADDS)
    def open_ticket(title: str, description: str) -> str:
        """File a new support ticket about a problem."""
        return json.dumps(store.add("tickets", title=title, description=description, state="open", comments=[]))

    @server.tool(annotations=ADDS)
    def comment_ticket(ticket_id: str, text: str) -> str:
        """Add a comment to a support ticket."""
        return json.dumps(store.change("tickets", ticket_id, comments=[text]))

    @server.tool(annotations=REMOVES)
    def close_ticket(ticket_id: str) -> str:
        """Close a support ticket since it is solved."""
        return json.dumps(store.change("tickets", ticket_id, state="closed"))

    @server.tool()
    def assign_ticket(ticket_id: str, person: str) -> str:
        """Give a support ticket to a person who shall work on it."""
        return json.dumps(store.change("tickets", ticket_id, person=person))


def couriers(server: MCPServer, store: Store) -> None:
    """Of two carriers one cannot be reached at all, so that the other must serve; who tracks parcels is busy at first,
    and has no rival.
    """

    @server.tool(annotations=ADDS)
    def book_pickup(address: str, date: str) -> str:
        """Have a parcel collected by the swift courier from an address on a date."""
        raise ConnectionError(f"the swift courier's service cannot be reached ({address}, {date})")

    @server.tool(annotations=ADDS)
    def arrange_collection(address: str, date: str) -> str:
        """Have the post collect a parcel from an address on a date."""
        return json.dumps(store.add("collections", address=address, date=date))

    @server.tool(annotations=READS)
    def track_parcel(number: str) -> str:
        """Tell where a parcel is."""
        if not store.rows("refused"):
            store.add("refused", number=number)
            raise TimeoutError("the tracking service is busy; try again")
        store.add("tracked", number=number)
        return f"{number} is on its way"


def database(server: MCPServer, store: Store) -> None:
    path = store.path.with_suffix(".db")

    @server.tool(annotations=READS)
    def list_tables() -> str:
        """List the tables of the SQLite database."""
        return run(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")

    @server.tool(annotations=READS)
    def read_query(query: str) -> str:
        """Run a SELECT statement on the SQLite database."""
        if not query.lstrip().upper().startswith("SELECT"):
            raise ValueError("only SELECT is allowed here")
        return run(path, query)

    @server.tool()
    def write_query(query: str) -> str:
        """Run an INSERT, UPDATE or DELETE statement on the SQLite database."""
        return run(path, query)

    @server.tool(annotations=ADDS)
    def create_table(query: str) -> str:
        """Create a new table in the SQLite database by a CREATE TABLE statement."""
        if not query.lstrip().upper().startswith("CREATE TABLE"):
            raise ValueError("only CREATE TABLE is allowed here")
        return run(path, query)


def run(path: Path, statement: str) -> str:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(statement).fetchall()
    connection.close()
    return json.dumps(rows)


SERVERS: Mapping[str, Callable[[MCPServer, Store], None]] = {
    function.__name__: function
    for function in (calendar, shop, restaurants, weather, mail, tickets, couriers, database)
}


def main(name: str, folder: str) -> None:
    server = MCPServer(name)
    SERVERS[name](server, Store(Path(folder) / f"{name}.json"))
    server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
