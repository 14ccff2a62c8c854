"""Clusters by Spark Connect (`sc://HOST:PORT`), in Spark's own SQL.

Spark has no read-only session: the text of a statement decides, and a user who may only read is what to give.
"""

import importlib.util
import os
import uuid

from connector.base import COLUMNS, READS, TABLES, Database, first_word


class Spark(Database):
    mark = "`"

    def connect(self):
        # The client alone (`pyspark-client`) has no Spark, but looks for one while it is imported, and ends the program without.
        package = importlib.util.find_spec("pyspark")
        if package and package.origin:
            os.environ.setdefault("SPARK_HOME", os.path.dirname(package.origin))
        from pyspark.sql.connect.session import SparkSession

        return SparkSession.builder.remote(self.url).create()

    def query(self, sql, values, work):
        if not self.write:
            self.only_reads(sql)
        session = self.connect()
        try:
            tag = f"sponde-{uuid.uuid4().hex}"
            session.addTag(tag)
            work.cancel = lambda: session.interruptTag(tag)
            frame = session.sql(sql, args=values or None)
            if first_word(sql) in READS:
                frame = frame.limit(self.rows + 1)
            yield frame.columns, None
            # A table comes in batches, as the cluster has them.
            plan = frame._plan.to_proto(session.client)
            for batch in session.client.to_table_as_iterator(plan, frame._plan.observations):
                if hasattr(batch, "to_batches"):
                    yield from batch.to_batches()
        finally:
            work.cancel = None
            session.stop()

    def schema(self):
        session = self.connect()
        try:
            tables = session.catalog.listTables()
            found = []
            for table in tables[:TABLES]:
                columns = session.catalog.listColumns(table.name)
                found.append(
                    {
                        "name": table.name,
                        "is_view": table.tableType in ("VIEW", "TEMPORARY"),
                        "rows": None,
                        "exact": False,
                        "comment": table.description,
                        "columns": [
                            {
                                "name": column.name,
                                "type": column.dataType,
                                "key": False,
                                "refers": None,
                                "comment": column.description,
                            }
                            for column in columns[:COLUMNS]
                        ],
                    }
                )
            return f"Spark {session.version}", found, len(tables) > TABLES
        finally:
            session.stop()
