"""All others, by SQLAlchemy."""

import json
import re

from connector.base import CHUNK, COLUMNS, READS, TABLES, Database, first_word, pages


class Alchemy(Database):
    """All others. Only for MySQL and MariaDB the server itself refuses to write; for the rest the first word decides, and
    nothing is ever committed."""

    def __init__(self, config):
        import sqlalchemy

        url = re.sub(r"^(mysql|mariadb):", r"\1+pymysql:", config["url"])
        self.engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.pool.NullPool)
        self.family = self.engine.dialect.name
        if self.family in ("mysql", "mariadb"):
            self.mark, self.cost_of_a_second = "`", 4_000_000
        super().__init__(config)

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
        if not self.write:
            self.only_reads(sql)
        # Rows come as they are wanted, where the driver can.
        with self.engine.connect().execution_options(stream_results=True, max_row_buffer=CHUNK) as connection:
            work.cancel = connection.invalidate
            self.begin(connection)
            if self.cost and word in READS:
                self.too_dear(self.cost_of(connection, sql, values))
            result = self.execute(connection, sql, values)
            if not result.returns_rows:
                connection.commit()
                yield ["rows"], None
                yield [(result.rowcount,)]
                return
            yield list(result.keys()), None
            yield from pages(result, self.rows)
            if self.write:
                connection.commit()

    def execute(self, connection, sql, values):
        import sqlalchemy

        if values:
            names = iter(range(len(values)))
            text = sqlalchemy.text(re.sub(r"\?", lambda _: f":v{next(names)}", sql))
            return connection.execute(text, {f"v{at}": value for at, value in enumerate(values)})
        # Such drivers put values into the text, even if it has no placeholders.
        if self.engine.dialect.paramstyle in ("format", "pyformat"):
            sql = sql.replace("%", "%%")
        return connection.exec_driver_sql(sql)

    def cost_of(self, connection, sql, values):
        """What the planner of MySQL and MariaDB expects: as it says, or a fifth of the rows that it compares."""
        if self.family not in ("mysql", "mariadb"):
            return 0
        plan = json.loads(self.execute(connection, "EXPLAIN FORMAT=JSON " + sql, values).scalar())
        told = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Last_query_cost'").fetchone()
        return max(float(told[1]) if told else 0.0, rows_of(plan) / 5)

    def schema(self):
        import sqlalchemy

        look = sqlalchemy.inspect(self.engine)
        views = look.get_view_names()
        names = look.get_table_names()
        rows = self.estimates()
        found = []
        for name in (names + views)[:TABLES]:
            keys = told(look.get_pk_constraint, name, {}).get("constrained_columns") or []
            refers = {
                own: f"{key['referred_table']}.{far}"
                for key in told(look.get_foreign_keys, name, [])
                for own, far in zip(key["constrained_columns"], key["referred_columns"])
            }
            comment = told(look.get_table_comment, name, {}).get("text")
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
            found.append(
                {
                    "name": name,
                    "is_view": name in views,
                    "rows": rows.get(name),
                    "exact": False,
                    "comment": comment,
                    "columns": columns,
                }
            )
        return self.engine.dialect.name, found, len(names) + len(views) > TABLES

    def estimates(self):
        """About how many rows the tables have, where the server knows."""
        if self.family not in ("mysql", "mariadb"):
            return {}
        with self.engine.connect() as connection:
            return dict(
                connection.exec_driver_sql(
                    "SELECT table_name, table_rows FROM information_schema.tables"
                    " WHERE table_schema = database() AND table_type = 'BASE TABLE'"
                ).fetchall()
            )


def told(what, name, otherwise):
    """What a dialect knows of a table; not every one knows everything."""
    try:
        return what(name)
    except NotImplementedError:
        return otherwise


def rows_of(plan):
    """Rows that a plan (`EXPLAIN FORMAT=JSON`) compares: tables in one loop multiply, the rest adds up."""
    if isinstance(plan, list):
        return sum(map(rows_of, plan))
    if not isinstance(plan, dict):
        return 0
    total = 0
    for key, part in plan.items():
        if key == "nested_loop":
            product, below = 1, 0
            for step in part:
                table = next((it["table"] for it in (step, *step.values()) if isinstance(it, dict) and "table" in it), {})
                product *= table.get("rows") or table.get("rows_examined_per_scan") or 1
                below += rows_of(table)
            total += product + below
        else:
            total += rows_of(part)
    return total
