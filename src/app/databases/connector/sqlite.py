"""SQLite by Python's own module."""

import os
import re

from connector.base import COLUMNS, COUNTED, TABLES, Database, Refused, pages, quoted


class Sqlite(Database):
    def __init__(self, config):
        super().__init__(config)
        self.path = re.sub(r"^sqlite(\+\w+)?:(///)?", "", self.url)
        if not os.path.isfile(self.path):
            raise Refused(f"there is no file `{self.path}`")

    def connect(self):
        import sqlite3
        from urllib.parse import quote

        mode = "rw" if self.write else "ro"
        place = quote(os.path.abspath(self.path))
        connection = sqlite3.connect(f"file:{place}?mode={mode}", uri=True, check_same_thread=False)
        if not self.write:
            connection.execute("PRAGMA query_only = ON")

        def allowed(action, one, _two, _database, _source):
            # Other files, and the setting that keeps it read-only.
            if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
                return sqlite3.SQLITE_DENY
            if action == sqlite3.SQLITE_PRAGMA and one not in ("table_info", "table_list", "foreign_key_list", "index_list"):
                return sqlite3.SQLITE_DENY
            return sqlite3.SQLITE_OK

        connection.set_authorizer(allowed)
        return connection

    def query(self, sql, values, work):
        connection = self.connect()
        try:
            work.cancel = connection.interrupt
            cursor = connection.execute(sql, values)
            if cursor.description is None:
                connection.commit()
                yield ["rows"], None
                yield [(cursor.rowcount,)]
                return
            yield [column[0] for column in cursor.description], None
            yield from pages(cursor, self.rows)
            connection.commit()
        finally:
            connection.close()

    def schema(self):
        import sqlite3

        connection = self.connect()
        try:
            tables = connection.execute(
                "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
                f" ORDER BY name LIMIT {TABLES + 1}"
            ).fetchall()
            counts = os.path.getsize(self.path) <= COUNTED
            found = []
            for name, kind in tables[:TABLES]:
                place = quoted(name)
                refers = {row[3]: f"{row[2]}.{row[4] or 'rowid'}" for row in connection.execute(f"PRAGMA foreign_key_list({place})")}
                columns = [
                    {"name": row[1], "type": row[2], "key": row[5] > 0, "refers": refers.get(row[1]), "comment": None}
                    for row in connection.execute(f"PRAGMA table_info({place})")
                ]
                rows = None
                if kind == "table":
                    try:
                        what = "count(*)" if counts else "max(rowid)"
                        rows = connection.execute(f"SELECT {what} FROM {place}").fetchone()[0]
                    except sqlite3.Error:
                        pass
                found.append(
                    {
                        "name": name,
                        "is_view": kind == "view",
                        "rows": rows,
                        "exact": counts,
                        "comment": None,
                        "columns": columns[:COLUMNS],
                    }
                )
            return f"SQLite {sqlite3.sqlite_version}", found, len(tables) > TABLES
        finally:
            connection.close()
