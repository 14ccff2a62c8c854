"""The process that holds a session's connections to databases (docs/sql.md, docs/adr/0025).

It reads one line of JSON from stdin (databases with their URLs, the path of its socket), prints one line of JSON for each
database with its schema, and answers requests at the socket until stdin ends. Code in a kernel reaches only the socket: it
sees neither URLs nor passwords, and what is read-only is read-only whatever it asks for.

A request is a line of JSON, `{"database", "sql"}` or `{"database", "table", "schema", "columns", "where", "limit"}`; the answer
is a line of JSON, and if that has no `error`, an Arrow stream.
"""

import datetime
import decimal
import json
import os
import re
import select
import socket
import sys
import threading
import time

TABLES = 200  # tables of a database that are described
COLUMNS = 100  # columns of a table
CHUNK = 10_000  # rows that are converted at a time
COUNTED = 64 << 20  # bytes of a file whose rows are counted


class Refused(Exception):
    pass


def quoted(name, mark='"'):
    return mark + name.replace(mark, mark + mark) + mark


class Database:
    """One configured database; a connection is made for each request."""

    mark, placeholder = '"', "?"
    only_read = "it is read-only; `write = true` in its part of config.toml changes that"

    def __init__(self, config):
        self.name, self.url = config["name"], config["url"]
        self.write = config["write"]
        self.seconds, self.rows, self.cost = config["seconds"], config["rows"], config.get("cost")

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
            tests.append(f"{quoted(column, mark)} {operator} {self.placeholder}")
            values.append(value)
        sql = f"SELECT {shown} FROM {'.'.join(place)}"
        if tests:
            sql += " WHERE " + " AND ".join(tests)
        if request.get("limit") is not None:
            sql += f" LIMIT {int(request['limit'])}"
        return sql, values

    def query(self, sql, values, work):
        """Yields first the names and types of the columns, then lists of rows. `work.cancel` is set to what stops it."""
        raise NotImplementedError


def pages(cursor, limit):
    """Lists of rows, at most one row more than `limit` together."""
    left = limit + 1
    while left > 0:
        rows = cursor.fetchmany(min(CHUNK, left))
        if not rows:
            return
        left -= len(rows)
        yield rows


class Postgres(Database):
    placeholder = "%s"
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
        with self.connect() as connection:
            work.cancel = connection.cancel_safe if hasattr(connection, "cancel_safe") else connection.cancel
            self.begin(connection)
            word = first_word(sql)
            reads = word in ("select", "with", "values", "table")
            if not (self.write or reads or word in ("explain", "show")):
                raise Refused(f"`{word}`: {self.only_read}")
            if self.cost and reads:
                # Preparing refuses more than one statement.
                plan = connection.execute("EXPLAIN (FORMAT JSON) " + sql, values or None, prepare=True).fetchone()[0]
                cost = plan[0]["Plan"]["Total Cost"]
                if cost > self.cost:
                    raise Refused(
                        f"the planner expects a cost of {cost:.0f}, and {self.cost:.0f} is allowed; ask for less"
                        " (fewer rows, an indexed column), or raise `max-cost` of the database in config.toml"
                    )
            if self.write or not reads:
                # Prepared: of several statements a later one could end the transaction that is read-only.
                cursor = connection.execute(sql, values or None, prepare=True)
                if cursor.description is None:
                    yield ["rows"], None
                    yield [(cursor.rowcount,)]
                    return
            else:
                # A cursor takes nothing that writes, and rows come as they are wanted.
                cursor = connection.cursor(name="sponde")
                cursor.itersize = CHUNK
                cursor.execute(sql, values or None)
            yield [column.name for column in cursor.description], [self.types.get(it.type_code) for it in cursor.description]
            yield from pages(cursor, self.rows)

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


class DuckDB(Database):
    def __init__(self, config):
        super().__init__(config)
        self.path = re.sub(r"^duckdb:(///)?", "", self.url)
        if not os.path.isfile(self.path):
            raise Refused(f"there is no file `{self.path}`")

    def connect(self):
        import duckdb

        # Without this, SQL reads any file of the person's.
        config = {"enable_external_access": "false", "lock_configuration": "true"}
        return duckdb.connect(self.path, read_only=not self.write, config=config)

    def query(self, sql, values, work):
        with self.connect() as connection:
            work.cancel = connection.interrupt
            cursor = connection.execute(sql, values or None)
            if cursor.description is None:
                yield ["rows"], None
                return
            yield [column[0] for column in cursor.description], None
            yield from pages(cursor, self.rows)

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


class Alchemy(Database):
    """All others. Only for MySQL and MariaDB the server itself refuses to write; for the rest the first word decides, and
    nothing is ever committed."""

    def __init__(self, config):
        super().__init__(config)
        import sqlalchemy

        url = re.sub(r"^(mysql|mariadb):", r"\1+pymysql:", self.url)
        self.engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
        self.family = self.engine.dialect.name
        self.mark = "`" if self.family in ("mysql", "mariadb") else '"'

    def begin(self, connection):
        if self.family in ("mysql", "mariadb"):
            server = connection.exec_driver_sql("SELECT version()").scalar() or ""
            if "mariadb" in server.lower():
                connection.exec_driver_sql(f"SET SESSION max_statement_time = {float(self.seconds)}")
            else:
                connection.exec_driver_sql(f"SET SESSION max_execution_time = {int(self.seconds * 1000)}")
            if not self.write:
                connection.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
            # From the next transaction on.
            connection.rollback()

    def query(self, sql, values, work):
        import sqlalchemy

        word = first_word(sql)
        if not self.write and word not in ("select", "with", "values", "show", "explain", "describe", "table"):
            raise Refused(f"`{word}`: {self.only_read}")
        with self.engine.connect() as connection:
            work.cancel = connection.invalidate
            self.begin(connection)
            text = sql
            if values:
                names = iter(range(len(values)))
                text = sqlalchemy.text(re.sub(r"\?", lambda _: f":v{next(names)}", sql))
                result = connection.execute(text, {f"v{at}": value for at, value in enumerate(values)})
            else:
                # Such drivers put values into the text, even if it has no placeholders.
                if self.engine.dialect.paramstyle in ("format", "pyformat"):
                    sql = sql.replace("%", "%%")
                result = connection.exec_driver_sql(sql)
            if not result.returns_rows:
                connection.commit()
                yield ["rows"], None
                yield [(result.rowcount,)]
                return
            yield list(result.keys()), None
            yield from pages(result, self.rows)
            if self.write:
                connection.commit()

    def schema(self):
        import sqlalchemy

        look = sqlalchemy.inspect(self.engine)
        views = look.get_view_names()
        names = look.get_table_names()
        found = []
        for name in (names + views)[:TABLES]:
            keys = refers = {}
            comment = None
            try:
                keys = look.get_pk_constraint(name).get("constrained_columns") or []
                refers = {
                    own: f"{key['referred_table']}.{far}"
                    for key in look.get_foreign_keys(name)
                    for own, far in zip(key["constrained_columns"], key["referred_columns"])
                }
                comment = look.get_table_comment(name).get("text")
            except NotImplementedError:
                pass
            columns = [
                {
                    "name": column["name"],
                    "type": str(column["type"]),
                    "key": column["name"] in keys,
                    "refers": refers.get(column["name"]),
                    "comment": column.get("comment"),
                }
                for column in look.get_columns(name)[:COLUMNS]
            ]
            rows = None
            found.append(
                {"name": name, "is_view": name in views, "rows": rows, "exact": False, "comment": comment, "columns": columns}
            )
        return self.engine.dialect.name, found, len(names) + len(views) > TABLES


def first_word(sql):
    """The first word of a statement, behind comments and brackets."""
    bare = re.sub(r"^(\s|\(|--[^\n]*\n|/\*.*?\*/)+", "", sql, flags=re.DOTALL)
    word = re.match(r"\w+", bare)
    return word.group().lower() if word else ""


def opened(config):
    scheme = config["url"].split(":", 1)[0].lower().split("+")[0]
    kinds = {"postgres": Postgres, "postgresql": Postgres, "sqlite": Sqlite, "duckdb": DuckDB}
    return kinds.get(scheme, Alchemy)(config)


def plain(value):
    """A value that Arrow has a type for."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, datetime.datetime, datetime.date)):
        return value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=str)
    if isinstance(value, memoryview):
        return bytes(value)
    return str(value)


def arrow_type(name):
    import pyarrow

    stamps = {"timestamp": pyarrow.timestamp("us"), "timestamp of UTC": pyarrow.timestamp("us", "UTC")}
    return stamps.get(name) or (pyarrow.type_for_alias(name) if name else None)


def column_of(values, kind):
    """One type for a column; what fits no other is text."""
    import pyarrow

    values = [plain(value) for value in values]
    wrong = (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError)
    if kind is not None:
        try:
            return pyarrow.array(values, kind)
        except wrong:
            pass
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [None if value is None else str(value) for value in values]
    try:
        return pyarrow.array(values)
    except wrong:
        return pyarrow.array([None if value is None else str(value) for value in values])


def joined(chunks, kind):
    """Pieces of a column, with the widest of their types."""
    import pyarrow

    kinds = {chunk.type for chunk in chunks} - {pyarrow.null()}
    if len(kinds) == 1:
        kind = kinds.pop()
    elif kinds == {pyarrow.int64(), pyarrow.float64()}:
        kind = pyarrow.float64()
    elif kinds or kind is None:
        kind = pyarrow.string()
    return pyarrow.chunked_array([chunk.cast(kind) for chunk in chunks], kind)


class Work:
    """A query that runs, until it is done, too slow, or nobody waits for it any more."""

    def __init__(self):
        self.cancel = None
        self.why = None
        self.table = None
        self.more = False
        self.error = None

    def stop(self, why):
        if self.why is None:
            self.why = why
        try:
            if self.cancel:
                self.cancel()
        except Exception:
            pass

    def run(self, database, sql, values):
        try:
            import pyarrow

            results = database.query(sql, values, self)
            names, kinds = next(results)
            names, kinds = unique(names), [arrow_type(kind) for kind in kinds or [None] * len(names)]
            chunks = [[] for _ in names]
            total = 0
            for rows in results:
                room = database.rows - total
                self.more |= len(rows) > room
                rows = rows[:room]
                total += len(rows)
                if self.why:
                    raise Refused(self.why)
                if rows:
                    for at, values_of in enumerate(zip(*rows)):
                        chunks[at].append(column_of(values_of, kinds[at]))
            columns = [joined(chunk, kind) for chunk, kind in zip(chunks, kinds)]
            self.table = pyarrow.table(columns, names=names)
        except Exception as error:
            self.error = error


def unique(names):
    seen, result = {}, []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result


def answer(client, databases):
    with client:
        stream = client.makefile("rwb")
        try:
            request = json.loads(stream.readline(1 << 20))
            database = databases.get(request.get("database"))
            if database is None:
                known = ", ".join(databases) or "none"
                raise Refused(f"there is no database `{request.get('database')}` in this session, only {known}")
            if isinstance(database, Exception):
                raise database
            if "table" in request:
                sql, values = database.table_query(request)
            else:
                sql, values = str(request["sql"]).strip().rstrip(";").rstrip(), []
            work = Work()
            thread = threading.Thread(target=work.run, args=(database, sql, values), daemon=True)
            thread.start()
            ends = time.monotonic() + database.seconds
            while thread.is_alive():
                thread.join(0.05)
                # Who waits sends nothing more: what can be read is the end.
                if select.select([client], [], [], 0)[0]:
                    work.stop("nobody waits for it any more")
                    thread.join(10)
                    return
                if time.monotonic() > ends + 0.5 or work.why:
                    work.stop(f"it took longer than {database.seconds:g} s (`seconds` of the database in config.toml)")
                    thread.join(10)
                    break
            if work.table is None:
                raise Refused(work.why) if work.why else work.error or Refused("it does not end")
            head = {"rows": work.table.num_rows, "more": work.more, "limit": database.rows}
            stream.write(json.dumps(head).encode() + b"\n")
            import pyarrow

            with pyarrow.ipc.new_stream(stream, work.table.schema) as writer:
                writer.write_table(work.table)
        except OSError:
            pass
        except Exception as error:
            told = {"error": words(error)}
            if re.search(r"read[- ]?only (transaction|database|mode)|data-modifying", told["error"], re.IGNORECASE):
                told["error"] += f" ({Database.only_read})"
            stream.write(json.dumps(told).encode() + b"\n")
        finally:
            try:
                stream.close()
            except OSError:
                pass


def words(error):
    """What a driver says, without an address that could have a password in it."""
    if isinstance(error, ModuleNotFoundError):
        text = f"the module `{error.name}` that speaks with this database is not installed"
    elif type(error).__name__ == "QueryCanceled":
        text = f"it took longer than the limit of the database allows (`seconds` in config.toml): {error}"
    elif getattr(error, "diag", None) and error.diag.message_primary:
        # Without the line of the statement, which is not quite what was written.
        text = ": ".join(filter(None, (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)))
    elif getattr(error, "orig", None) is not None:
        # What the driver says, without the statement and a link that SQLAlchemy adds.
        said = error.orig.args
        text = str(said[-1] if said else error.orig)
        # MariaDB's and MySQL's number for it.
        if said and said[0] in (1969, 3024):
            text = f"it took longer than the limit of the database allows (`seconds` in config.toml): {text}"
    else:
        text = f"{error}"
    return re.sub(r"://[^@\s]*@", "://…@", text)[:2000].strip() or type(error).__name__


def main():
    order = json.loads(sys.stdin.readline())
    databases, threads, told = {}, [], threading.Lock()

    def look(config):
        line = {"database": config["name"]}
        try:
            database = opened(config)
            databases[config["name"]] = database
            line["kind"], line["tables"], line["more"] = database.schema()
        except Exception as error:
            line["error"] = words(error)
            # A server that cannot be reached now may be there later.
            if isinstance(databases[config["name"]], Exception):
                databases[config["name"]] = Refused(line["error"])
        with told:
            sys.stdout.write(json.dumps(line, default=str) + "\n")
            sys.stdout.flush()

    listener = socket.socket(socket.AF_UNIX)
    listener.bind(order["socket"])
    os.chmod(order["socket"], 0o600)
    listener.listen(16)
    for config in order["databases"]:
        databases[config["name"]] = Refused("it is not connected yet")
        threads.append(threading.Thread(target=look, args=(config,), daemon=True))
        threads[-1].start()

    def serve():
        while True:
            client, _ = listener.accept()
            threading.Thread(target=answer, args=(client, databases), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    # The program that started this is gone when nothing more can come.
    while sys.stdin.readline():
        pass
    try:
        os.unlink(order["socket"])
        os.rmdir(os.path.dirname(order["socket"]))
    except OSError:
        pass
    os._exit(0)


main()
