"""The process that holds a session's connections to databases (docs/sql.md, docs/adr/0025).

It reads one line of JSON from stdin (databases with their URLs, the path of its socket), prints one line of JSON for each
database with its schema, and answers requests at the socket until stdin ends. Code in a kernel reaches only the socket: it
sees neither URLs nor passwords, and what is read-only is read-only whatever it asks for.

A request is a line of JSON, `{"database", "sql"}` or `{"database", "table", "schema", "columns", "where", "limit"}`; the answer
is a line of JSON, and if that has no `error`, an Arrow stream.
"""

import json
import os
import re
import resource
import select
import socket
import sys
import threading

from connector.adbc import Adbc, driver_of, scheme_of
from connector.alchemy import Alchemy
from connector.base import Database, Refused
from connector.columns import arrow_type, column_of, joined, settled, unique
from connector.duck import DuckDB
from connector.postgres import Postgres
from connector.spark import Spark
from connector.sqlite import Sqlite


BYTES = 512 << 20  # bytes of a result
MEMORY = 4 << 30  # bytes of the process; of data and not of addresses, of which threads and DuckDB reserve more


def opened(config):
    scheme = scheme_of(config["url"])
    if driver_of(scheme):
        return Adbc(config)
    kinds = {"postgres": Postgres, "postgresql": Postgres, "sqlite": Sqlite, "duckdb": DuckDB, "sc": Spark}
    return kinds.get(scheme.split("+")[0], Alchemy)(config)


class Work:
    """A query that runs, until it is done, too slow, or nobody waits for it any more."""

    def __init__(self):
        self.cancel = None
        self.why = None
        self.table = None
        self.more = False
        self.error = None
        # The second can be read when the first is closed: the query is over.
        self.ends, self.over = socket.socketpair()

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
            self.table = self.collected(database, database.query(sql, values, self))
        except BaseException as error:
            self.error = error
        finally:
            self.ends.close()

    def collected(self, database, results):
        """The rows of a result as one table, up to the limits of rows and of bytes."""
        import pyarrow

        names, kinds = next(results)
        names, kinds = unique(names), [arrow_type(kind) for kind in kinds or [None] * len(names)]
        chunks = [[] for _ in names]
        total = size = 0
        for page in results:
            room = database.rows - total
            self.more |= len(page) > room
            page = page[:room]
            total += len(page)
            if self.why:
                raise Refused(self.why)
            if isinstance(page, pyarrow.RecordBatch):
                page = [settled(column) for column in page.columns]
            elif page:
                page = [column_of(values_of, kind) for values_of, kind in zip(zip(*page), kinds)]
            for chunk, column in zip(chunks, page):
                chunk.append(column)
                size += column.nbytes
            if size > BYTES or self.more:
                self.more = True
                break
        results.close()
        columns = [joined(chunk, kind) for chunk, kind in zip(chunks, kinds)]
        return pyarrow.table(columns, names=names)


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
            # Who waits sends nothing more: what can be read is the end. Half a second for what the server itself stops.
            ready = select.select([client, work.over], [], [], database.seconds + 0.5)[0]
            if work.over not in ready:
                if client in ready:
                    work.stop("nobody waits for it any more")
                else:
                    work.stop(f"it took longer than {database.seconds:g} s (`seconds` of the database in config.toml)")
                # As long as a driver needs to stop.
                select.select([work.over], [], [], 10)
                if client in ready:
                    return
            if work.table is None:
                raise Refused(work.why or (words(work.error) if work.error else "it does not end"))
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
    if isinstance(error, MemoryError):
        text = "it needs more memory than the connections to databases may take: ask for less"
    elif isinstance(error, ModuleNotFoundError):
        text = f"the module `{error.name}` that speaks with this database is not installed"
    elif isinstance(error, Refused):
        text = str(error)
    elif type(error).__name__ == "QueryCanceled" or "due to statement timeout" in str(error):
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
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    order = json.loads(sys.stdin.readline())
    databases, threads, told = {}, [], threading.Lock()

    def look(config):
        line = {"database": config["name"]}
        try:
            database = opened(config)
            databases[config["name"]] = database
            line["kind"], line["tables"], line["more"] = database.schema()
        # Libraries may want to end the program.
        except BaseException as error:
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
