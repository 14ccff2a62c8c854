def _sponde_frame(request):
    import base64, json, sys

    nonce = request['nonce']

    def tell(**fields):
        sys.stdout.write('\x1e' + nonce + json.dumps(fields) + '\n\x1f')

    class Refused(Exception):
        def __init__(self, kind, message, hint=None):
            super().__init__(message)
            self.kind, self.message, self.hint = kind, message, hint

    def plain(value):
        if value is None or isinstance(value, (bool, str)):
            return value[:2000] if isinstance(value, str) else value
        try:
            if value != value:
                return None
        except Exception:
            pass
        item = getattr(value, 'item', None)
        if item is not None and not hasattr(value, '__len__'):
            try:
                value = item()
            except Exception:
                pass
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            # JavaScript's numbers are exact up to here.
            return value if abs(value) <= 2 ** 53 else str(value)
        if isinstance(value, float):
            return value if abs(value) != float('inf') else str(value)
        text = str(value)
        return None if text in ('NaT', '<NA>') else text[:2000]

    def number(text):
        try:
            return float(text)
        except ValueError:
            return None

    class Pandas:
        def __init__(self, frame):
            import pandas
            self.pandas = pandas
            if isinstance(frame, pandas.Series):
                frame = frame.to_frame(name=frame.name if frame.name is not None else 'value')
            index = frame.index
            self.plain_index = isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1
            if not self.plain_index:
                names = [name if name is not None else ('index' if index.nlevels == 1 else f'level_{level}')
                         for level, name in enumerate(index.names)]
                # A view: the person's frame is not changed.
                levels = [pandas.Series(index.get_level_values(level)) for level in range(index.nlevels)]
                body = frame.set_axis(pandas.RangeIndex(len(frame)), axis=0)
                frame = pandas.concat([level.rename(name) for level, name in zip(levels, names)] + [body], axis=1)
            self.frame = frame
            self.names = [str(name) for name in frame.columns]

        def types(self):
            return [str(kind) for kind in self.frame.dtypes]

        def column(self, name):
            return self.frame.iloc[:, self.place(name)]

        def place(self, name):
            if name not in self.names:
                raise Refused('no_column', f'there is no column `{name}`')
            return self.names.index(name)

        def keep(self, text):
            frame, wanted, mask = self.frame, number(text), None
            for at in range(frame.shape[1]):
                column = frame.iloc[:, at]
                kind = getattr(column.dtype, 'kind', 'O')
                if kind in 'iuf' and len(frame) > 200_000:
                    if wanted is None:
                        continue
                    hit = column == wanted
                else:
                    if kind in 'iufb' and wanted is None and kind != 'b':
                        continue
                    hit = column.astype(str).str.contains(text, case=False, regex=False)
                hit = hit.fillna(False).astype(bool).to_numpy()
                mask = hit if mask is None else mask | hit
            self.frame = frame.iloc[:0] if mask is None else frame.loc[mask]

        def sort(self, name, descending):
            column = self.column(name).reset_index(drop=True)
            try:
                order = column.sort_values(ascending=not descending, kind='stable', na_position='last')
            except TypeError:
                order = column.astype(str).sort_values(ascending=not descending, kind='stable')
            self.frame = self.frame.iloc[order.index.to_numpy()]

        def total(self):
            return len(self.frame)

        def rows(self, offset, limit):
            part = self.frame.iloc[offset:offset + limit]
            columns = [[plain(value) for value in part.iloc[:, at].tolist()] for at in range(part.shape[1])]
            return [list(row) for row in zip(*columns)] if columns else [[] for _ in range(len(part))]

        def profile(self, name):
            column = self.column(name)
            there = column.dropna()
            told = {'count': len(column), 'missing': int(len(column) - len(there))}
            try:
                counts = there.value_counts()
            except TypeError:
                counts = there.astype(str).value_counts()
            told['distinct'] = int(len(counts))
            told['top'] = [{'value': plain(value), 'count': int(count)} for value, count in counts.head(10).items()]
            kind = getattr(column.dtype, 'kind', 'O')
            if len(there) and (kind in 'iufmM' or 'datetime' in str(column.dtype)):
                told['min'], told['max'] = plain(there.min()), plain(there.max())
            if len(there) and self.pandas.api.types.is_numeric_dtype(column.dtype) and kind != 'b':
                numbers = there.astype(float)
                numbers = numbers[numbers.abs() != float('inf')]
                told['mean'] = plain(float(numbers.mean())) if len(numbers) else None
                if len(numbers):
                    import numpy
                    counts, edges = numpy.histogram(numbers.to_numpy(), bins=min(20, max(1, told['distinct'])))
                    told['histogram'] = [{'from': float(edges[at]), 'to': float(edges[at + 1]), 'count': int(count)}
                                         for at, count in enumerate(counts)]
            return told

        def write(self, format, to):
            if format == 'csv':
                to.write(self.frame.to_csv(index=False).encode())
            elif format == 'parquet':
                self.frame.set_axis(self.names, axis=1).to_parquet(to, index=False)
            else:
                self.frame.to_excel(to, index=False)

    class Polars:
        def __init__(self, frame):
            import polars
            self.polars = polars
            if isinstance(frame, polars.Series):
                frame = frame.to_frame(frame.name or 'value')
            self.frame = frame
            schema = frame.collect_schema()
            self.names, self.kinds = schema.names(), schema.dtypes()

        def types(self):
            return [str(kind) for kind in self.kinds]

        def place(self, name):
            if name not in self.names:
                raise Refused('no_column', f'there is no column `{name}`')
            return name

        def keep(self, text):
            polars = self.polars
            column = lambda name: polars.col(name).cast(polars.String, strict=False).str.to_lowercase()
            hits = [column(name).str.contains(text.lower(), literal=True).fill_null(False)
                    for name, kind in zip(self.names, self.kinds)
                    if not isinstance(kind, (polars.List, polars.Struct, polars.Array)) and kind != polars.Binary]
            self.frame = self.frame.filter(polars.any_horizontal(hits)) if hits else self.frame.clear()

        def sort(self, name, descending):
            self.frame = self.frame.sort(self.place(name), descending=descending, nulls_last=True, maintain_order=True)

        def total(self):
            return self.frame.height

        def rows(self, offset, limit):
            return [[plain(value) for value in row] for row in self.frame.slice(offset, limit).rows()]

        def profile(self, name):
            column = self.frame.get_column(self.place(name))
            there = column.drop_nulls()
            told = {'count': len(column), 'missing': len(column) - len(there)}
            try:
                counts = there.value_counts(sort=True)
                told['distinct'] = counts.height
                told['top'] = [{'value': plain(value), 'count': int(count)} for value, count in counts.head(10).rows()]
            except Exception:
                told['distinct'], told['top'] = None, []
            if len(there) and (column.dtype.is_numeric() or column.dtype.is_temporal()):
                told['min'], told['max'] = plain(there.min()), plain(there.max())
            if len(there) and column.dtype.is_numeric():
                numbers = there.cast(self.polars.Float64)
                numbers = numbers.filter(numbers.is_finite())
                if len(numbers):
                    told['mean'] = numbers.mean()
                    least, most = numbers.min(), numbers.max()
                    bins = min(20, max(1, told['distinct'] or 1))
                    width = (most - least) / bins or 1.0
                    places = ((numbers - least) / width).floor().clip(0, bins - 1).cast(self.polars.Int64)
                    counts = dict(places.value_counts().rows())
                    told['histogram'] = [{'from': least + at * width, 'to': least + (at + 1) * width, 'count': counts.get(at, 0)}
                                         for at in range(bins)]
            return told

        def write(self, format, to):
            if format == 'csv':
                self.frame.write_csv(to)
            elif format == 'parquet':
                self.frame.write_parquet(to)
            else:
                self.frame.write_excel(to)

    class Lazy(Polars):
        # Only what is shown is computed: the whole may be larger than memory.
        def total(self):
            return self.frame.select(self.polars.len()).collect().item()

        def rows(self, offset, limit):
            return [[plain(value) for value in row] for row in self.frame.slice(offset, limit).collect().rows()]

        def profile(self, name):
            return Polars(self.frame.select(self.polars.col(self.place(name))).collect()).profile(name)

        def write(self, format, to):
            Polars(self.frame.collect()).write(format, to)

    class Arrow:
        def __init__(self, table):
            self.table, self.frame = table, None
            self.names = [str(name) for name in table.column_names]

        def types(self):
            return [str(kind) for kind in self.table.schema.types]

        def pandas(self, table):
            try:
                import pandas
            except ImportError:
                raise Refused('no_frame', "Arrow's tables are filtered, sorted and saved where pandas is installed") from None
            return Pandas(table.to_pandas())

        def whole(self):
            self.frame = self.frame or self.pandas(self.table)
            return self.frame

        def keep(self, text):
            self.whole().keep(text)

        def sort(self, name, descending):
            self.whole().sort(name, descending)

        def total(self):
            return self.table.num_rows if self.frame is None else self.frame.total()

        def rows(self, offset, limit):
            if self.frame is not None:
                return self.frame.rows(offset, limit)
            part = self.table.slice(offset, limit)
            columns = [[plain(value) for value in column.to_pylist()] for column in part.columns]
            return [list(row) for row in zip(*columns)] if columns else [[] for _ in range(part.num_rows)]

        def profile(self, name):
            if name not in self.names:
                raise Refused('no_column', f'there is no column `{name}`')
            return self.pandas(self.table.select([self.names.index(name)])).profile(name)

        def write(self, format, to):
            self.whole().write(format, to)

    def find():
        scope = get_ipython().user_ns
        if request['name'] not in scope:
            raise Refused('no_variable', f"there is no variable `{request['name']}`")
        value = scope[request['name']]
        module, kind = type(value).__module__.split('.')[0], type(value).__name__
        if module in ('pandas', 'geopandas') and kind in ('DataFrame', 'Series', 'GeoDataFrame', 'GeoSeries'):
            return Pandas(value)
        if module == 'polars' and kind in ('DataFrame', 'Series'):
            return Polars(value)
        if module == 'polars' and kind == 'LazyFrame':
            return Lazy(value)
        if module == 'pyarrow' and kind == 'Table':
            return Arrow(value)
        if module == 'numpy' and getattr(value, 'ndim', 0) in (1, 2):
            try:
                import pandas
            except ImportError:
                raise Refused('no_frame', 'arrays are shown where pandas is installed') from None
            return Pandas(pandas.DataFrame(value))
        raise Refused('no_frame', f"`{request['name']}` is not a table but {module}.{kind}")

    try:
        frame = find()
        what = request['what']
        if what == 'profile':
            tell(profile=frame.profile(request['column']))
            return
        types = frame.types()
        if request.get('filter'):
            frame.keep(request['filter'])
        if request.get('sort'):
            frame.sort(request['sort'], bool(request.get('descending')))
        if what == 'window':
            offset = min(request['offset'], frame.total())
            columns = [{'name': name, 'type': kind} for name, kind in zip(frame.names, types)]
            tell(columns=columns, rows=frame.rows(offset, request['limit']), total=frame.total(), offset=offset)
            return
        import tempfile
        with tempfile.TemporaryFile() as file:
            try:
                frame.write(request['format'], file)
            except ImportError as error:
                library = {'parquet': 'pyarrow', 'xlsx': 'openpyxl'}.get(request['format'], '')
                if isinstance(frame, Polars) and request['format'] == 'xlsx':
                    library = 'xlsxwriter'
                raise Refused('missing_library', f'the kernel has no library for this format: {error}',
                              f'install it there with `%pip install {library}`, or export as CSV') from None
            size = file.tell()
            file.seek(0)
            tell(size=size)
            while True:
                part = file.read(3 << 18)
                if not part:
                    break
                sys.stdout.write('\x1e' + nonce + base64.b64encode(part).decode() + '\n\x1f')
                # A message of the kernel must not grow beyond what is read.
                sys.stdout.flush()
        tell(end=True)
    except Refused as error:
        tell(refused=error.kind, message=error.message, hint=error.hint)
    except Exception as error:
        tell(refused='failed', message=f'{type(error).__name__}: {error}'[:500])


try:
    import base64 as _sponde_base64, json as _sponde_json
    with __import__('warnings').catch_warnings(record=True):
        _sponde_frame(_sponde_json.loads(_sponde_base64.b64decode('@REQUEST@')))
finally:
    del _sponde_frame, _sponde_base64, _sponde_json
