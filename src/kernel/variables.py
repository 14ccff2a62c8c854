def _sponde_variables():
    import json as _json, sys as _sys, types as _types, reprlib as _reprlib

    shell = get_ipython()
    hidden = shell.user_ns_hidden
    short = _reprlib.Repr()
    short.maxstring = short.maxother = 120
    for name, value in list(shell.user_ns.items()):
        kind = type(value)
        if name.startswith('_') or (name in hidden and value is hidden[name]):
            continue
        if isinstance(value, (_types.ModuleType, _types.FunctionType, _types.BuiltinFunctionType, type)):
            continue
        module = kind.__module__.split('.')[0]
        line = {'name': name, 'type': kind.__name__ if module == 'builtins' else f'{module}.{kind.__name__}'}
        try:
            shape = getattr(value, 'shape', None)
            if isinstance(shape, tuple):
                line['shape'] = ' x '.join(str(n) for n in shape)
            elif hasattr(kind, '__len__'):
                line['shape'] = str(len(value))
            size = getattr(value, 'nbytes', None)
            if module == 'pandas' and hasattr(value, 'memory_usage'):
                size = value.memory_usage(index=True, deep=False)
                size = int(size.sum()) if hasattr(size, 'sum') else int(size)
            elif module == 'polars' and hasattr(value, 'estimated_size'):
                size = int(value.estimated_size())
            elif not isinstance(size, int):
                size = _sys.getsizeof(value)
            line['bytes'] = int(size)
            # Columns say more of a frame than its first rows; big things must not be printed whole.
            if module == 'pyarrow':
                columns = getattr(value, 'column_names', None)
            elif module == 'polars' and kind.__name__ == 'LazyFrame':
                columns = value.collect_schema().names()
                line['shape'] = f'? x {len(columns)}'
            else:
                columns = getattr(value, 'columns', None)
            if module in ('pandas', 'polars', 'pyarrow') and columns is not None:
                line['head'] = ', '.join(map(str, list(columns)[:30]))
            elif module in ('pandas', 'polars', 'numpy') and isinstance(shape, tuple) and shape:
                line['head'] = repr(value[:5])
            else:
                line['head'] = short.repr(value)
        except Exception as error:
            line['head'] = f'<{type(error).__name__}>'
        line['head'] = line.get('head', '')[:500]
        _sys.stdout.write('\x1e' + _json.dumps(line) + '\n\x1f')


try:
    with __import__('warnings').catch_warnings(record=True):
        _sponde_variables()
finally:
    del _sponde_variables
