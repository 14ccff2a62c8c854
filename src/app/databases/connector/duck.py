"""DuckDB's files."""

import os
import re

from connector.base import CHUNK, COLUMNS, TABLES, Database, Refused
from connector.columns import nothing


MEMORY = "1GiB"  # what it may take beside a result, less than what the process may


class DuckDB(Database):
    def __init__(self, config):
        super().__init__(config)
        self.path = re.sub(r"^duckdb:(///)?", "", self.url)
        if not os.path.isfile(self.path):
            raise Refused(f"there is no file `{self.path}`")

    def connect(self):
        import duckdb

        # Without this, SQL reads any file of the person's.
        config = {"enable_external_access": "false", "lock_configuration": "true", "memory_limit": MEMORY}
        return duckdb.connect(self.path, read_only=not self.write, config=config)

    def query(self, sql, values, work):
        with self.connect() as connection:
            work.cancel = connection.interrupt
            relation = connection.sql(sql, params=values or None)
            if relation is None:
                yield ["rows"], None
                return
            # The name before DuckDB 1.5.
            reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            reader = reader(CHUNK)
            yield list(relation.columns), None
            yield nothing(reader.schema)
            yield from reader

    def schema(self):
        import duckdb

        with self.connect() as connection:
            tables = connection.execute(
                f"""SELECT schema_name, table_name, false, estimated_size, comment FROM duckdb_tables() WHERE NOT internal
                    UNION ALL
                    SELECT schema_name, view_name, true, NULL, comment FROM duckdb_views() WHERE NOT internal
                    ORDER BY 1, 2 LIMIT {TABLES + 1}"""
            ).fetchall()
            columns, keys, refers = {}, set(), {}
            for space, table, name, kind, comment in connection.execute(
                """SELECT schema_name, table_name, column_name, data_type, comment FROM duckdb_columns()
                   WHERE NOT internal ORDER BY schema_name, table_name, column_index"""
            ).fetchall():
                columns.setdefault((space, table), []).append((name, kind, comment))
            for space, table, kind, names, far, far_names in connection.execute(
                """SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,
                          referenced_column_names FROM duckdb_constraints()"""
            ).fetchall():
                for at, name in enumerate(names or []):
                    if kind == "PRIMARY KEY":
                        keys.add((space, table, name))
                    elif kind == "FOREIGN KEY" and at < len(far_names or []):
                        refers[space, table, name] = f"{far}.{far_names[at]}"
        found = [
            {
                "name": table if space == "main" else f"{space}.{table}",
                "is_view": is_view,
                "rows": rows,
                "exact": True,
                "comment": comment,
                "columns": [
                    {
                        "name": name,
                        "type": kind,
                        "key": (space, table, name) in keys,
                        "refers": refers.get((space, table, name)),
                        "comment": words,
                    }
                    for name, kind, words in columns.get((space, table), [])[:COLUMNS]
                ],
            }
            for space, table, is_view, rows, comment in tables[:TABLES]
        ]
        return f"DuckDB {duckdb.__version__}", found, len(tables) > TABLES
