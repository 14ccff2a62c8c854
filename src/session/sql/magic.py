# %%sql as Sponde gives it to its Python kernels (docs/sql.md): DuckDB over files, data frames by name and the databases of the
# session, which are behind a socket (src/app/databases/connector.py). `_define_sql` is called with the settings.
def _define_sql(settings):
    import json, os, re, shutil, socket, tempfile, threading

    from IPython import get_ipython
    from IPython.core.error import UsageError

    class SqlError(Exception):
        """What a database says; how it came here helps nobody."""

        def _render_traceback_(self):
            return [f"SqlError: {self}"]

    shell = get_ipython()
    there = shell.magics_manager.magics["cell"].get("sql")
    # One that the person has loaded stays; that of a notebook makes room.
    if there is not None and not hasattr(there, "of_sponde"):
        return
    if getattr(there, "of_sponde", None) == settings:
        return
    most, seconds = settings["rows"], settings["seconds"]

    def ask(request):
        """What a database answers, as an Arrow table, and whether there was more."""
        import pyarrow

        name = request["database"]
        if name not in settings["databases"]:
            known = ", ".join(settings["databases"]) or "none"
            raise UsageError(f"there is no database `{name}` in this session, only {known} (start it with --database {name})")
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(settings["socket"])
            except OSError as error:
                raise SqlError(f"the databases of this session cannot be reached ({error.strerror})") from None
            stream = connection.makefile("rwb")
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            head = json.loads(stream.readline() or b'{"error": "the connection was cut"}')
            if "error" in head:
                raise SqlError(f"{name}: {head['error']}")
            return pyarrow.ipc.open_stream(stream).read_all(), head["more"]

    def frames(connection, words):
        """Makes the data frames that are named known to DuckDB."""
        for word in words:
            value = shell.user_ns.get(word)
            kind = type(value)
            library = kind.__module__.split(".")[0]
            if library == "polars" and kind.__name__ == "LazyFrame":
                value = value.collect()
            if library == "pandas" and kind.__name__ == "DataFrame" or library == "pyarrow" and kind.__name__ == "Table":
                connection.register(word, value)
            elif library == "polars" and kind.__name__ in ("DataFrame", "LazyFrame"):
                connection.register(word, value.to_arrow())

    def scans(node, found):
        """What a plan reads of each table: columns, and the tests that databases can do."""
        told = node.get("extra_info")
        if isinstance(told, dict) and "Table" in told:
            lists = [told.get(key, []) for key in ("Projections", "Filters")]
            columns, tests = [[it] if isinstance(it, str) else it for it in lists]
            found.setdefault(str(told["Table"]).split(".")[-1].strip('"'), []).append((columns, tests))
        for child in node.get("children", []):
            scans(child, found)
        return found

    def tests_of(filters):
        test = r"\((\w+) (=|<|>|<=|>=) ('(?:[^']|'')*'(?:::[\w ]+)?|-?[\d.]+(?:[eE][-+]?\d+)?)\)"
        for text in filters:
            if re.sub(r"[()\s]|AND", "", re.sub(test, "", text)):
                continue
            for column, operator, value in re.findall(test, text):
                is_text = value.startswith("'")
                # Databases sort text in other orders.
                if is_text and operator != "=" and "::" not in value:
                    continue
                yield column, operator, value[1:].rsplit("'", 1)[0].replace("''", "'") if is_text else float(value)

    def attach(connection, code, bare):
        """Brings what the code needs of tables in databases: its columns, and the rows that simple tests leave. What cannot
        be had is told only if DuckDB does not know the name either."""
        tables, refused = {}, []
        name = r'([A-Za-z_]\w*|"[^"]+")'
        for database, one, two in re.findall(rf"\b([A-Za-z_]\w*)\.{name}(?:\.{name})?", bare):
            table, space = (two or one).strip('"'), one.strip('"') if two else None
            if database not in settings["databases"] or (database, space, table) in tables:
                continue
            request = {"database": database, "table": table, "schema": space}
            try:
                sample, _ = ask({**request, "limit": 100})
            except SqlError as error:
                refused.append(error)
                continue
            tables[database, space, table] = (request, sample)
            connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS \"{database}\"")
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{database}"."{space or "main"}"')
            connection.register("_part", sample)
            connection.execute(f"CREATE TABLE {place(request)} AS SELECT * FROM _part LIMIT 0")
        if not tables:
            return refused
        found = {}
        try:
            # Of an empty table it would not read anything.
            connection.execute("SET disabled_optimizers = 'statistics_propagation'")
            for node in json.loads(connection.execute("EXPLAIN (FORMAT json) " + code).fetchall()[0][1]):
                scans(node, found)
        except Exception:
            found = {}
        finally:
            connection.execute("SET disabled_optimizers = ''")
        for request, sample in tables.values():
            columns, tests = sample.column_names, []
            if reads := found.get(request["table"]):
                needed = {word for read in reads for part in read for text in part for word in re.findall(r"\w+", text)}
                columns = [name for name in columns if set(re.findall(r"\w+", name)) <= needed] or columns[:1]
                tests = list(tests_of(reads[0][1])) if len(reads) == 1 else []
            part, more = ask({**request, "columns": columns, "where": tests})
            if more:
                raise SqlError(
                    f"{request['database']}.{request['table']}: this needs more than {part.num_rows} rows of it; run that part in"
                    f" the database first: %%sql NAME --in {request['database']}"
                )
            connection.register("_part", part)
            connection.register("_sample", sample)
            kinds = dict(connection.execute("SELECT column_name, column_type FROM (DESCRIBE _sample)").fetchall())
            shown = ", ".join(quoted(it) if it in columns else f"NULL::{kinds[it]} AS {quoted(it)}" for it in sample.column_names)
            connection.execute(f"CREATE OR REPLACE TABLE {place(request)} AS SELECT {shown} FROM _part")
            connection.unregister("_part")
        return refused

    def quoted(name):
        return '"' + name.replace('"', '""') + '"'

    def place(request):
        return ".".join(quoted(it) for it in (request["database"], request["schema"] or "main", request["table"]))

    def locally(code):
        import duckdb
        import pyarrow

        bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", " ", code, flags=re.DOTALL)
        spill, timer, refused = None, None, []
        with duckdb.connect() as connection:
            try:
                if os.access(".", os.W_OK):
                    # Not in /tmp, which may be memory.
                    spill = tempfile.mkdtemp(prefix=".sql-", dir=".")
                    connection.execute(f"SET temp_directory = '{spill}'")
                connection.execute("SET enable_progress_bar = false")
                if "memory" in settings:
                    connection.execute(f"SET memory_limit = '{settings['memory']}MiB'")
                frames(connection, set(re.findall(r"[A-Za-z_]\w*", bare)))
                # What is no SQL costs no rows.
                duckdb.extract_statements(code)
                refused = attach(connection, code, bare)
                timer = threading.Timer(seconds, connection.interrupt)
                timer.daemon = True
                timer.start()
                relation = connection.sql(code)
                if relation is None:
                    return pyarrow.table({}), False
                # The name before DuckDB 1.5.
                reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
                reader, batches, total = reader(100_000), [], 0
                for batch in reader:
                    batches.append(batch.slice(0, most - total))
                    total += batch.num_rows
                    if total > most:
                        break
                return pyarrow.Table.from_batches(batches, reader.schema), total > most
            except (duckdb.Error, pyarrow.ArrowException) as error:
                if timer and timer.finished.is_set():
                    raise SqlError(f"it took longer than {seconds} s (`sql-timeout` in config.toml)") from None
                is_unknown = isinstance(error, duckdb.CatalogException) and refused
                raise (refused[0] if is_unknown else SqlError(f"{error}")) from None
            finally:
                if timer:
                    timer.cancel()
                if spill:
                    shutil.rmtree(spill, ignore_errors=True)

    def plain(table):
        """Without the types that pandas calculates with as objects."""
        import pyarrow

        for at, field in enumerate(table.schema):
            if pyarrow.types.is_decimal(field.type):
                column = table.column(at)
                try:
                    column = column.cast(pyarrow.int64() if field.type.scale == 0 else pyarrow.float64())
                except pyarrow.ArrowInvalid:
                    column = column.cast(pyarrow.float64())
                table = table.set_column(at, field.name, column)
        return table.to_pandas(date_as_object=False)

    def sql(line, cell):
        words = line.split()
        database = None
        if "--in" in words:
            at = words.index("--in")
            database = words[at + 1] if at + 1 < len(words) else ""
            del words[at : at + 2]
        name = words.pop(0) if words else "result"
        if words or not name.isidentifier() or database == "":
            raise UsageError("a SQL cell begins with `%%sql [NAME] [--in DATABASE]`")
        table, more = ask({"database": database, "sql": cell}) if database else locally(cell)
        frame = plain(table)
        shell.user_ns[name] = frame
        if more:
            print(f"{name}: the first {len(frame)} rows, there are more")
        else:
            print(f"{name}: {len(frame)} rows, {frame.shape[1]} columns")
        return frame

    sql.of_sponde = settings
    shell.register_magic_function(sql, "cell", "sql")
