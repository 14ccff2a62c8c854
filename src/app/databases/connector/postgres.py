"""PostgreSQL by psycopg."""

import re

from connector.base import CHUNK, COLUMNS, LOOKS, READS, TABLES, Database, Refused, first_word, pages


class Postgres(Database):
    placeholder = "%s"
    cost_of_a_second = 200_000
    # By pg_type.oid; those of others follow from their values.
    types = {
        **dict.fromkeys((20, 21, 23), "int64"),
        **dict.fromkeys((700, 701, 1700), "float64"),
        **dict.fromkeys((25, 114, 1042, 1043, 2950, 3802), "string"),
        16: "bool",
        1082: "date32",
        1114: "timestamp",
        1184: "timestamp of UTC",
    }

    def connect(self):
        import psycopg

        url = re.sub(r"^postgres(ql)?(\+\w+)?:", "postgresql:", self.url)
        return psycopg.connect(url, connect_timeout=10, autocommit=self.write, application_name="sponde")

    def begin(self, connection):
        if not self.write:
            connection.execute("SET TRANSACTION READ ONLY")
        connection.execute("SELECT set_config('statement_timeout', %s, false)", [str(int(self.seconds * 1000))])

    def query(self, sql, values, work):
        import psycopg

        with self.connect() as connection:
            work.cancel = connection.cancel_safe if hasattr(connection, "cancel_safe") else connection.cancel
            self.begin(connection)
            word = first_word(sql)
            reads = word in READS
            if not (self.write or reads or word in LOOKS):
                raise Refused(f"`{word}`: {self.only_read}")
            if reads:
                if self.cost:
                    self.too_dear(self.cost_of(connection, sql, values))
                try:
                    yield from self.streamed(connection, sql, values)
                    return
                except (psycopg.errors.FeatureNotSupported, psycopg.errors.InvalidCursorDefinition, psycopg.errors.SyntaxError):
                    # What changes something and gives rows too.
                    if not self.write:
                        raise
            # Prepared: of several statements a later one could end the transaction that is read-only.
            cursor = connection.execute(sql, values or None, prepare=True)
            if cursor.description is None:
                yield ["rows"], None
                yield [(cursor.rowcount,)]
                return
            yield from self.results(cursor)

    def streamed(self, connection, sql, values):
        """By a cursor of the server: it takes one `SELECT` and nothing that writes, and rows come as they are wanted."""
        with connection.transaction():
            cursor = connection.cursor(name="sponde")
            cursor.itersize = CHUNK
            cursor.execute(sql, values or None)
            yield from self.results(cursor)

    def results(self, cursor):
        yield [column.name for column in cursor.description], [self.types.get(it.type_code) for it in cursor.description]
        yield from pages(cursor, self.rows)

    def cost_of(self, connection, sql, values):
        """What the planner expects of the rows that are fetched; 0 for what it cannot plan, which is then refused by itself."""
        import psycopg

        wanted = f"SELECT * FROM ({sql}\n) AS sponde LIMIT {self.rows + 1}"
        try:
            with connection.transaction():
                # Preparing refuses more than one statement.
                plan = connection.execute("EXPLAIN (FORMAT JSON) " + wanted, values or None, prepare=True).fetchone()[0]
        except (psycopg.ProgrammingError, psycopg.NotSupportedError):
            return 0
        return plan[0]["Plan"]["Total Cost"]

    def schema(self):
        with self.connect() as connection:
            self.begin(connection)
            version = connection.info.server_version // 10000
            tables = connection.execute(
                """SELECT c.oid, n.nspname, c.relname, c.relkind IN ('v', 'm'), c.reltuples::bigint,
                          obj_description(c.oid, 'pg_class'), pg_table_is_visible(c.oid)
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
                     AND n.nspname NOT LIKE 'pg\\_%%' AND n.nspname <> 'information_schema'
                     AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
                   ORDER BY n.nspname, c.relname LIMIT %s""",
                [TABLES + 1],
            ).fetchall()
            oids = [table[0] for table in tables]
            columns, keys, refers = {}, set(), {}
            for oid, name, kind, comment in connection.execute(
                """SELECT attrelid, attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum)
                   FROM pg_attribute WHERE attrelid = ANY(%s) AND attnum > 0 AND NOT attisdropped
                   ORDER BY attrelid, attnum""",
                [oids],
            ):
                columns.setdefault(oid, []).append((name, kind, comment))
            for oid, kind, name, table, column in connection.execute(
                """SELECT k.conrelid, k.contype::text, a.attname, k.confrelid::regclass::text, b.attname
                   FROM pg_constraint k
                   CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS own(num, at)
                   JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = own.num
                   LEFT JOIN LATERAL unnest(k.confkey) WITH ORDINALITY AS far(num, at) ON far.at = own.at
                   LEFT JOIN pg_attribute b ON b.attrelid = k.confrelid AND b.attnum = far.num
                   WHERE k.conrelid = ANY(%s) AND k.contype IN ('p', 'f')""",
                [oids],
            ):
                if kind == "p":
                    keys.add((oid, name))
                else:
                    refers[oid, name] = f"{table}.{column}"
        found = [
            {
                "name": name if visible else f"{space}.{name}",
                "is_view": is_view,
                # Before the first ANALYZE nobody knows.
                "rows": rows if rows >= 0 and not is_view else None,
                "exact": False,
                "comment": comment,
                "columns": [
                    {
                        "name": column,
                        "type": kind,
                        "key": (oid, column) in keys,
                        "refers": refers.get((oid, column)),
                        "comment": words,
                    }
                    for column, kind, words in columns.get(oid, [])[:COLUMNS]
                ],
            }
            for oid, space, name, is_view, rows, comment, visible in tables[:TABLES]
        ]
        return f"PostgreSQL {version}", found, len(tables) > TABLES
