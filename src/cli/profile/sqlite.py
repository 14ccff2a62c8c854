import sqlite3
from pathlib import Path

con = sqlite3.connect(Path(PATH).absolute().as_uri() + '?mode=ro', uri=True)
con.text_factory = lambda text: text.decode('utf-8', 'replace')
# No view and no trigger of it runs.
con.execute('PRAGMA trusted_schema = OFF')
found = con.execute(
    "SELECT 'main', name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
)
tables = found.fetchall()


def count(table):
    return con.execute(f'SELECT count(*) FROM {quoted(table)}').fetchone()[0]


def read(table):
    df = pd.read_sql(f'SELECT * FROM {quoted(table)} LIMIT {ROWS}', con)
    for _, name, kind, *_ in con.execute(f'PRAGMA table_info("{table[1].replace(chr(34), 2 * chr(34))}")').fetchall():
        # SQLite has no type for dates.
        if kind.upper().startswith(('DATE', 'TIMESTAMP')):
            df[name] = pd.to_datetime(df[name], errors='coerce')
    return df
