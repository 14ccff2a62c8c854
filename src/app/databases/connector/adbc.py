"""Databases by ADBC, whose drivers give Arrow: Snowflake, BigQuery, Flight SQL, and others by name (`adbc+sqlite:FILE`).

Most of these drivers have no read-only connection: the text of a statement decides, and nothing is ever committed.
"""

import importlib
import importlib.util
import re
import urllib.parse

from connector.base import COLUMNS, TABLES, Database
from connector.columns import nothing

# Schemes of URLs, and the driver's name in its package (`adbc-driver-NAME`).
DRIVERS = {"snowflake": "snowflake", "bigquery": "bigquery", "grpc": "flightsql", "grpc+tls": "flightsql", "grpc+tcp": "flightsql"}
# What makes a connection, or its transaction, read-only.
READ_ONLY = {"sqlite": "PRAGMA query_only = ON", "postgresql": "SET TRANSACTION READ ONLY"}


def driver_of(scheme):
    """The driver for URLs of a scheme, if there is one and nothing else speaks with such databases."""
    name = scheme.removeprefix("adbc+") if scheme.startswith("adbc+") else DRIVERS.get(scheme)
    if name is None or scheme.startswith("adbc+") or scheme.startswith("grpc"):
        return name
    return name if importlib.util.find_spec(f"adbc_driver_{name}") else None


def options_of(driver, url):
    """What the driver takes for a URL. Parameters whose names begin with `adbc.` are options of the driver."""
    scheme, rest = url.split(":", 1)
    rest, _, parameters = rest.partition("?")
    parameters = urllib.parse.parse_qsl(parameters, keep_blank_values=True)
    options = {name: value for name, value in parameters if name.startswith("adbc.") or name in ("username", "password")}
    left = urllib.parse.urlencode([(name, value) for name, value in parameters if name not in options])
    bare = rest.removeprefix("//")
    if driver == "bigquery":
        project, _, dataset = bare.partition("/")
        options["adbc.bigquery.sql.project_id"] = project
        if dataset:
            options["adbc.bigquery.sql.dataset_id"] = dataset
        return options
    if driver == "snowflake":
        uri = bare
    elif driver == "sqlite":
        uri = re.sub("^///", "", rest)
    else:
        uri = f"{scheme.removeprefix('adbc+')}:{rest}"
    options["uri"] = f"{uri}?{left}" if left else uri
    return options


class Adbc(Database):
    def __init__(self, config):
        super().__init__(config)
        self.driver = driver_of(scheme_of(self.url))
        self.mark = "`" if self.driver == "bigquery" else '"'
        self.placeholder = "$N" if self.driver == "postgresql" else "?"

    def connect(self):
        from adbc_driver_manager import dbapi

        module = importlib.import_module(f"adbc_driver_{self.driver}")
        connection = dbapi.connect(driver=module._driver_path(), db_kwargs=options_of(self.driver, self.url))
        with connection.cursor() as cursor:
            if self.driver == "postgresql":
                cursor.execute(f"SET statement_timeout = {int(self.seconds * 1000)}")
                connection.commit()
            if not self.write and self.driver in READ_ONLY:
                cursor.execute(READ_ONLY[self.driver])
        return connection

    def query(self, sql, values, work):
        if not self.write:
            self.only_reads(sql)
        with self.connect() as connection, connection.cursor() as cursor:
            work.cancel = cursor.adbc_cancel
            cursor.execute(sql, values or None)
            if not cursor.description:
                connection.commit()
                yield ["rows"], None
                yield [(cursor.rowcount,)]
                return
            reader = cursor.fetch_record_batch()
            yield list(reader.schema.names), None
            yield nothing(reader.schema)
            yield from reader
            if self.write:
                connection.commit()

    def schema(self):
        with self.connect() as connection:
            info = connection.adbc_get_info()
            objects = connection.adbc_get_objects(depth="all", **self.part(connection)).read_all().to_pylist()
        spaces = [space for catalog in objects for space in catalog["catalog_db_schemas"] or []]
        spaces = [it for it in spaces if it["db_schema_name"] not in ("information_schema", "INFORMATION_SCHEMA", "pg_catalog")]
        tables = [(space["db_schema_name"], table) for space in spaces for table in space["db_schema_tables"] or []]
        tables = [(space, table) for space, table in tables if re.search("table|view", table["table_type"], re.IGNORECASE)]
        found = []
        for space, table in tables[:TABLES]:
            keys, refers = set(), {}
            for constraint in table["table_constraints"] or []:
                names = constraint["constraint_column_names"] or []
                if constraint["constraint_type"] == "PRIMARY KEY":
                    keys.update(names)
                for own, far in zip(names, constraint["constraint_column_usage"] or []):
                    refers[own] = f"{far['fk_table']}.{far['fk_column_name']}"
            usual = len(spaces) == 1 or space in ("", "public", "main", None)
            found.append(
                {
                    "name": table["table_name"] if usual else f"{space}.{table['table_name']}",
                    "is_view": "view" in table["table_type"].lower(),
                    "rows": None,
                    "exact": False,
                    "comment": None,
                    "columns": [
                        {
                            "name": column["column_name"],
                            "type": column["xdbc_type_name"] or "",
                            "key": column["column_name"] in keys,
                            "refers": refers.get(column["column_name"]),
                            "comment": column["remarks"],
                        }
                        for column in (table["table_columns"] or [])[:COLUMNS]
                    ],
                }
            )
        version = f"{info.get('vendor_name') or self.driver} {info.get('vendor_version') or ''}".strip()
        return version, found, len(tables) > TABLES

    def part(self, connection):
        """The catalog and the schema that names without one mean: all others may be very many."""
        part = {}
        for argument, name in (("catalog_filter", "adbc_current_catalog"), ("db_schema_filter", "adbc_current_db_schema")):
            try:
                value = getattr(connection, name)
            except Exception:
                continue
            if value:
                part[argument] = value
        return part


def scheme_of(url):
    return url.split(":", 1)[0].lower()
