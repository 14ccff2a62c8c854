import duckdb

# Nothing in it reads other files.
con = duckdb.connect(PATH, read_only=True, config={'enable_external_access': 'false'})
found = con.execute('SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1, 2')
tables = found.fetchall()


def count(table):
    return con.execute(f'SELECT count(*) FROM {quoted(table)}').fetchone()[0]


def read(table):
    return con.execute(f'SELECT * FROM {quoted(table)} LIMIT {ROWS}').df()
