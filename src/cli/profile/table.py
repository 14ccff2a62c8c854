# %%
import matplotlib.pyplot as plt
import pandas as pd

LOAD
size = df.memory_usage(deep=True).sum() / 1e6
print(f'{len(df)} rows, {df.shape[1]} columns, {size:.1f} MB in memory')
try:
    print(f'{df.duplicated().sum()} rows are repetitions of others')
except TypeError:
    pass
df.head(10)
# %%
def distinct(column):
    try:
        return column.nunique()
    except TypeError:
        return None


columns = pd.DataFrame({
    'type': df.dtypes.astype(str),
    'missing': df.isna().sum(),
    'missing %': (100 * df.isna().mean()).round(1),
    'distinct': [distinct(df.iloc[:, at]) for at in range(df.shape[1])],
    'example': [next(iter(df.iloc[:, at].dropna()), None) for at in range(df.shape[1])],
})
print(columns.head(60).to_string())
# %%
numbers = df.select_dtypes('number')
if numbers.shape[1]:
    print(numbers.describe().T.head(60).round(3).to_string())
# %%
shown = list(numbers.columns[:12])
if shown:
    rows = -(-len(shown) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(12, 2.6 * rows), squeeze=False)
    for axis in axes.flat[len(shown):]:
        axis.remove()
    for name, axis in zip(shown, axes.flat):
        axis.hist(numbers[name].dropna(), bins=30)
        axis.set_title(str(name))
        axis.set_ylabel('rows')
    figure.suptitle('Numbers')
    figure.tight_layout()
    plt.show()
# %%
texts = [name for name in df.columns if name not in numbers.columns and not str(df[name].dtype).startswith('datetime')]
shown = [name for name in texts if (distinct(df[name]) or 0) and distinct(df[name]) <= max(50, len(df) // 20)][:9]
if shown:
    rows = -(-len(shown) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(12, 3 * rows), squeeze=False)
    for axis in axes.flat[len(shown):]:
        axis.remove()
    for name, axis in zip(shown, axes.flat):
        counts = df[name].astype(str).value_counts().head(10)[::-1]
        axis.barh([value[:24] for value in counts.index], counts)
        axis.set_title(str(name))
        axis.set_xlabel('rows')
    figure.suptitle('Most frequent values')
    figure.tight_layout()
    plt.show()
# %%
dates = [name for name in df.columns if str(df[name].dtype).startswith('datetime')][:3]
for name in dates:
    there = df[name].dropna()
    print(f'{name}: {there.min()} to {there.max()}')
    if len(there):
        plt.figure(figsize=(12, 2.6))
        plt.hist(there, bins=60)
        plt.title(f'Rows over {name}')
        plt.ylabel('rows')
        plt.show()
# %%
if 2 <= numbers.shape[1] <= 30:
    matrix = numbers.corr()
    plt.figure(figsize=(7, 6))
    plt.imshow(matrix, vmin=-1, vmax=1, cmap='RdBu')
    plt.colorbar(label='correlation')
    plt.xticks(range(len(matrix)), matrix.columns, rotation=90)
    plt.yticks(range(len(matrix)), matrix.columns)
    plt.title('Correlations')
    plt.tight_layout()
    plt.show()
