def _sponde_changes():
    shell = get_ipython()
    before = getattr(shell, '_sponde_tables', {})
    now = {}
    for name, value in list(shell.user_ns.items()):
        kind = type(value)
        module = kind.__module__.split('.')[0]
        if name.startswith('_') or module not in ('pandas', 'polars', 'geopandas', 'pyarrow', 'numpy'):
            continue
        try:
            shape = value.shape
            if kind.__name__ in ('DataFrame', 'GeoDataFrame', 'Table'):
                types = value.schema.types if module == 'pyarrow' else value.dtypes
                names = value.schema.names if module == 'pyarrow' else value.columns
                columns = {repr(column)[:40]: str(kind)[:20] for column, kind in zip(names, types)}
            elif kind.__name__ in ('Series', 'ndarray') and shape:
                columns = {None: str(value.dtype)[:20]}
            else:
                continue
            now[name] = (kind.__name__, tuple(shape), columns)
        except Exception:
            continue

    def listed(names, most=12):
        names = list(names)
        return ', '.join(names[:most]) + (f' and {len(names) - most} more' if len(names) > most else '')

    def size(kind, shape, columns):
        return f'{shape[0]} rows' if None not in columns else f'{" x ".join(map(str, shape))} {columns[None]}'

    said = []
    for name, table in now.items():
        kind, shape, columns = table
        was = before.get(name)
        if was == table:
            continue
        if was is None or was[0] != kind:
            text = f'`{name}` is {"a new" if was is None else "now a"} {kind}, {size(*table)}'
            said.append(text if None in columns else f'{text}, columns {listed(columns)}')
            continue
        parts = [size(*table) + (f' (before: {was[1][0]})' if shape[0] != was[1][0] else '')]
        added = [it for it in columns if it not in was[2]]
        gone = [it for it in was[2] if it not in columns]
        typed = [f'{it} {columns[it]}' for it in columns if it in was[2] and it is not None and was[2][it] != columns[it]]
        parts += [f'new columns {listed(added)}'] if added else []
        parts += [f'without {listed(gone)}'] if gone else []
        parts += [f'now {listed(typed, 6)}'] if typed else []
        said.append(f'`{name}` has ' + ', '.join(parts))
    gone = [f'`{name}`' for name in before if name not in now]
    if gone:
        said.append(f'{listed(gone)} {"is" if len(gone) == 1 else "are"} gone')
    shell._sponde_tables = now
    return '; '.join(said)


try:
    print(_sponde_changes())
except Exception:
    pass
finally:
    del _sponde_changes
