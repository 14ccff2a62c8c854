def _sponde_inventory():
    import pandas as _p
    lines = []
    for name, value in list(get_ipython().user_ns.items()):
        if name.startswith('_'):
            continue
        if isinstance(value, _p.DataFrame):
            columns = ', '.join(f'{c} ({value[c].dtype if value.columns.is_unique else "?"})' for c in list(value.columns)[:30])
            index = f', index {value.index.name}' if value.index.name else ''
            lines.append(f'{name}: DataFrame {len(value)} rows, columns {columns}{index}')
        elif isinstance(value, _p.Series):
            first = value.index[0] if len(value) else None
            lines.append(f'{name}: Series {len(value)} values ({value.dtype}), index {value.index.name} like {first!r}')
    return '\n'.join(lines[-6:])
try:
    print(f'\x1e{_sponde_inventory()}\x1f', end='')
except Exception:
    pass
finally:
    del _sponde_inventory
