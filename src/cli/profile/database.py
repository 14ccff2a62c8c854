# %%
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import Markdown, display

TABLES, ROWS, PLOTS = 30, 1_000_000, 6


def quoted(table):
    return '.'.join('"' + name.replace('"', '""') + '"' for name in table)


LOAD


def name_of(table):
    return table[1] if table[0] == 'main' else '.'.join(table)


print(f'{len(tables)} tables')
if len(tables) > TABLES:
    print(f'here are the first {TABLES}; not described:', ', '.join(map(name_of, tables[TABLES:TABLES + 200])))
tables = tables[:TABLES]
# %%
def distinct(column):
    try:
        return column.nunique()
    except TypeError:
        return None


def columns_of(df):
    return pd.DataFrame({
        'type': df.dtypes.astype(str),
        'missing': df.isna().sum(),
        'distinct': [distinct(df.iloc[:, at]) for at in range(df.shape[1])],
        'example': [next(iter(df.iloc[:, at].dropna()), None) for at in range(df.shape[1])],
    })


def plots_of(df, title):
    drawn = []
    for name in df.columns:
        column = df[name].dropna()
        if column.empty:
            continue
        if pd.api.types.is_bool_dtype(column):
            drawn.append((name, column.astype(str).value_counts(), True))
        elif pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
            drawn.append((name, column, False))
        elif 0 < (distinct(column) or 0) <= max(50, len(df) // 20):
            drawn.append((name, column.astype(str).value_counts().head(10)[::-1], True))
    drawn = drawn[:PLOTS]
    if not drawn:
        return
    rows = -(-len(drawn) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(12, 2.8 * rows), squeeze=False)
    for axis in axes.flat[len(drawn):]:
        axis.remove()
    for (name, values, is_counted), axis in zip(drawn, axes.flat):
        if is_counted:
            axis.barh([value[:24] for value in values.index], values)
            axis.set_xlabel('rows')
        else:
            axis.hist(values, bins=30)
            axis.set_ylabel('rows')
        axis.set_title(str(name))
    figure.suptitle(title)
    figure.tight_layout()
    plt.show()


for table in tables:
    name = name_of(table)
    display(Markdown('## `' + ' '.join(name.replace('`', ' ').split()) + '`'))
    try:
        rows, df = count(table), read(table)
        among = f', here the first {len(df)}' if len(df) < rows else ''
        print(f'{name}: {rows} rows{among}, {df.shape[1]} columns')
        print(columns_of(df).head(60).to_string())
        plots_of(df, name)
    except Exception as error:
        print(f'{name} could not be described: {type(error).__name__}: {error}')
