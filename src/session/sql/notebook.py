# %%sql for this notebook, written by Sponde so that its SQL cells run anywhere: DuckDB over files ('rain.csv') and data frames.
# `%%sql NAME` keeps the result as data frame NAME; `%%sql NAME --in shop` runs in the database whose URL is in SHOP_URL.
def _define_sql():
    import os, re
    from IPython import get_ipython

    def sql(line, cell):
        import duckdb, pandas

        words, shell = line.split(), get_ipython()
        database = words[words.index("--in") + 1] if "--in" in words else None
        name = words[0] if words and words[0] != "--in" else "result"

        def read(database, query):
            import sqlalchemy

            with sqlalchemy.create_engine(os.environ[f"{database.upper()}_URL"]).connect() as connection:
                return pandas.read_sql(sqlalchemy.text(query), connection)

        if database:
            frame = read(database, cell)
        else:
            with duckdb.connect() as connection:
                for word in set(re.findall(r"\w+", cell)):
                    if isinstance(shell.user_ns.get(word), pandas.DataFrame):
                        connection.register(word, shell.user_ns[word])
                for there, space, table in set(re.findall(r"\b([A-Za-z_]\w*)\.(?:(\w+)\.)?(\w+)\b", cell)):
                    if f"{there.upper()}_URL" in os.environ:
                        part, space = read(there, f"SELECT * FROM {space + '.' if space else ''}{table}"), space or "main"
                        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {there}; CREATE SCHEMA IF NOT EXISTS {there}.{space}")
                        connection.execute(f"CREATE TABLE {there}.{space}.{table} AS SELECT * FROM part")
                try:
                    frame = connection.execute(cell).df()
                except duckdb.CatalogException as error:
                    raise NameError(f"{error}\n(tables of a database shop are found if its URL is in SHOP_URL)") from None
        shell.user_ns[name] = frame
        print(f"{name}: {len(frame)} rows, {frame.shape[1]} columns")
        return frame

    sql.of_sponde = None
    if "sql" not in get_ipython().magics_manager.magics["cell"]:
        get_ipython().register_magic_function(sql, "cell", "sql")


_define_sql()
