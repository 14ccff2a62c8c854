"""What all drivers of the connector have in common: the limits of a database, the SQL for a table, pages of rows."""

import re
import sys

TABLES = 200  # tables of a database that are described
COLUMNS = 100  # columns of a table
FIRST = 100  # rows that are fetched at first
CHUNK = 10_000  # rows that are fetched at a time, if they are small
CHUNK_BYTES = 8 << 20  # bytes that are fetched at a time, about
COUNTED = 64 << 20  # bytes of a file whose rows are counted
READS = ("select", "with", "values", "table", "from")  # words that a statement that reads begins with
LOOKS = ("show", "explain", "describe", "desc")  # and those about a database


class Refused(Exception):
    pass


def quoted(name, mark='"'):
    return mark + name.replace(mark, mark + mark) + mark


class Database:
    """One configured database; a connection is made for each request."""

    mark, placeholder = '"', "?"
    cost_of_a_second = 0  # about, as the database's planner counts
    only_read = "it is read-only; `write = true` in its part of config.toml changes that"

    def __init__(self, config):
        self.name, self.url = config["name"], config["url"]
        self.write = config["write"]
        self.seconds, self.rows = config["seconds"], config["rows"]
        # What it costs to read for as long as is allowed; 0 is no limit.
        cost = config.get("cost")
        self.cost = self.cost_of_a_second * self.seconds if cost is None else cost

    def table_query(self, request):
        """SQL that reads (a part of) one table, and its parameters."""
        mark = self.mark
        place = [quoted(part, mark) for part in (request.get("schema"), request["table"]) if part]
        columns = request.get("columns")
        shown = ", ".join(quoted(column, mark) for column in columns) if columns else "*"
        tests, values = [], []
        for column, operator, value in request.get("where") or []:
            if operator not in ("=", "<", ">", "<=", ">="):
                raise Refused(f"`{operator}` is not an operator")
            values.append(value)
            tests.append(f"{quoted(column, mark)} {operator} {self.placeholder.replace('N', str(len(values)))}")
        sql = f"SELECT {shown} FROM {'.'.join(place)}"
        if tests:
            sql += " WHERE " + " AND ".join(tests)
        if request.get("limit") is not None:
            sql += f" LIMIT {int(request['limit'])}"
        return sql, values

    def query(self, sql, values, work):
        """Yields first the names and types of the columns, then lists of rows, or batches of Arrow. `work.cancel` is set to what
        stops it."""
        raise NotImplementedError

    def only_reads(self, sql):
        """Refuses what is not one statement that reads, as far as its text tells."""
        word = first_word(sql)
        if word not in READS + LOOKS:
            raise Refused(f"`{word}`: {self.only_read}")
        if ";" in re.sub(r"'[^'\\]*'", "", sql):
            raise Refused(f"several statements: {self.only_read}")

    def too_dear(self, cost):
        """Refuses a query of which the planner expects that."""
        if self.cost and cost > self.cost:
            raise Refused(
                f"the planner expects a cost of {cost:.0f}, and {self.cost:.0f} is allowed; ask for less"
                " (fewer rows, an indexed column), or raise `max-cost` of the database in config.toml"
            )


def pages(cursor, limit):
    """Lists of rows, at most one row more than `limit` together; fewer at a time where rows are large."""
    left, wanted = limit + 1, FIRST
    while left > 0:
        rows = cursor.fetchmany(min(wanted, left))
        if not rows:
            return
        left -= len(rows)
        size = max(sum(map(sys.getsizeof, row)) for row in (rows[0], rows[-1]))
        wanted = max(1, min(CHUNK, CHUNK_BYTES // max(size, 1)))
        yield rows


def first_word(sql):
    """The first word of a statement, behind comments and brackets."""
    bare = re.sub(r"^(\s|\(|--[^\n]*\n|/\*.*?\*/)+", "", sql, flags=re.DOTALL)
    word = re.match(r"\w+", bare)
    return word.group().lower() if word else ""
