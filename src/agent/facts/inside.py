# Says what is in a file, with the library that reads it, as one line of JSON. Runs in a process of its own, in the kernel's
# environment and sandbox, so that a file which crashes or hangs its library ends nothing but this.
import json
import math
import resource
import sys
import threading
import time

# What a header says that a file has is no reason to make room for it.
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

PARTS, COLUMNS, SAMPLE, TEXT = 20, 60, 2000, 200
BEGAN = time.monotonic()


def is_time_left():
    return time.monotonic() - BEGAN < 2.5


def short(value):
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float):
        value = f"{value:.6g}"
    return str(value)[:TEXT]


def part(what, name, rows=None, columns=(), more=0, **others):
    columns = list(columns)
    more += max(0, len(columns) - COLUMNS)
    return {"what": what, "name": short(name), "rows": rows, "columns": columns[:COLUMNS], "more": more, **others}


def column_of(name, series, label=None):
    """A column of pandas in words."""
    there = series.dropna()
    told = {"name": short(name), "kind": short(series.dtype), "missing": int(series.isna().sum())}
    if label:
        told["comment"] = short(label)
    if len(there) == 0:
        return told
    try:
        if series.dtype.kind in "iufM" or "datetime" in str(series.dtype):
            told["range"] = [short(there.min()), short(there.max())]
        else:
            told["values"] = [short(value) for value in there.iloc[:SAMPLE].astype(str).unique()[:5]]
    except (TypeError, ValueError):
        pass
    return told


def frame_of(frame, rows, labels=None, is_sample=False):
    labels = labels or {}
    columns = [column_of(name, frame.iloc[:, at], labels.get(name)) for at, name in enumerate(frame.columns[:COLUMNS])]
    return part("table", "", rows, columns, max(0, frame.shape[1] - COLUMNS), is_sample=is_sample)


def duckdb(path):
    import duckdb

    quoted = lambda name: '"' + name.replace('"', '""') + '"'
    # Without this, a view in it reads any file.
    config = {"enable_external_access": "false", "lock_configuration": "true", "threads": "1", "memory_limit": "300MB"}
    plain = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "DATE", "TIME", "VARCHAR", "REAL")
    with duckdb.connect(path, read_only=True, config=config) as connection:
        ask = lambda sql: connection.execute(sql).fetchall()
        tables = ask(
            "SELECT schema_name, table_name, false, estimated_size, comment FROM duckdb_tables() WHERE NOT internal UNION ALL "
            "SELECT schema_name, view_name, true, NULL, comment FROM duckdb_views() WHERE NOT internal ORDER BY 1, 2"
        )
        columns, keys = {}, {}
        for space, table, name, kind, comment in ask(
            "SELECT schema_name, table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal "
            "ORDER BY schema_name, table_name, column_index LIMIT 20000"
        ):
            columns.setdefault((space, table), []).append({"name": name, "kind": short(kind), "comment": comment})
        for space, table, kind, names, far, far_names in ask(
            "SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names "
            "FROM duckdb_constraints()"
        ):
            for at, name in enumerate(names or []):
                if kind == "PRIMARY KEY":
                    keys[space, table, name] = "primary key"
                elif kind == "FOREIGN KEY" and at < len(far_names or []):
                    keys[space, table, name] = short(f"refers to {far}.{far_names[at]}")
        parts = []
        for space, table, is_view, rows, comment in tables[:PARTS]:
            described = columns.get((space, table), [])
            for column in described:
                column["key"] = keys.get((space, table, column["name"]))
            is_plain = lambda kind: any(it in kind for it in plain) and not any(it in kind for it in ("[", "(", "ENUM")) or kind.startswith("DECIMAL(")
            shown = [it for it in described[:COLUMNS] if is_plain(it["kind"])]
            # What a view computes may take for ever.
            if shown and not is_view and (rows or 0) <= 3_000_000 and is_time_left():
                names = [quoted(column["name"]) for column in shown]
                wanted = ", ".join(f"min({it})::VARCHAR, max({it})::VARCHAR, count({it})" for it in names)
                stop = threading.Timer(1.5, connection.interrupt)
                stop.start()
                try:
                    found = ask(f"SELECT count(*), {wanted} FROM {quoted(space)}.{quoted(table)}")[0]
                    rows = found[0]
                    for at, column in enumerate(shown):
                        low, high, count = found[1 + 3 * at : 4 + 3 * at]
                        column["missing"] = rows - count
                        if low is not None:
                            column["range"] = [short(low), short(high)]
                except duckdb.Error:
                    pass
                finally:
                    stop.cancel()
            for column in described[:COLUMNS]:
                column["name"], column["comment"] = short(column["name"]), short(column["comment"] or "")
            name = table if space == "main" else f"{space}.{table}"
            parts.append(part("view" if is_view else "table", name, rows, described, comment=short(comment or "")))
    views = sum(it[2] for it in tables)
    kind = f"{len(tables) - views} tables and {views} views" if views else f"{len(tables)} tables"
    return {"about": kind, "parts": parts, "more": len(tables) - len(parts)}


def sas(path, form):
    import pandas as pd

    with pd.read_sas(path, format=form, encoding="infer" if form == "sas7bdat" else "latin-1", chunksize=SAMPLE) as reader:
        if form == "sas7bdat":
            rows, labels = reader.row_count, {short(it.name): it.label for it in reader.columns}
            labels = {name: label.decode("utf-8", "replace") if isinstance(label, bytes) else label for name, label in labels.items()}
        else:
            rows = reader.nobs
            labels = {short(it["name"]).strip(): short(it.get("label", b"")).strip() for it in reader.fields}
        try:
            frame = next(reader)
        except StopIteration:
            frame = pd.DataFrame(columns=[short(name) for name in labels])
    return {"about": f"{rows} rows, {frame.shape[1]} columns", "parts": [frame_of(frame, rows, labels, len(frame) < rows)]}


def hdf5(path, _):
    import h5py

    LARGEST = 100_000
    said = lambda value: short(value.item() if getattr(value, "size", 0) == 1 else value)
    parts, datasets, groups, more = [], [], 0, 0

    def attributes(it, most=6):
        found = []
        for name in list(it.attrs)[:40]:
            # References, and what libraries note for themselves.
            if name.isupper() or name.startswith("_") or name in ("pandas_type", "pandas_version", "encoding", "errors"):
                continue
            try:
                found.append([short(name), said(it.attrs[name])])
            except (OSError, TypeError, ValueError, RuntimeError):
                pass
        return found[:most]

    def column(name, it):
        kind = short(it.dtype)
        if it.dtype.names:
            kind = "table of " + ", ".join(f"{short(name)} {short(it.dtype[name])}" for name in it.dtype.names[:20]) + ","
        kind = " ".join([kind, "x".join(map(str, it.shape))]).strip()
        told = {"name": short(name), "kind": kind, "attributes": attributes(it)}
        # A chunk is unpacked whole, whatever is wanted of it.
        chunk = math.prod(it.chunks) * it.dtype.itemsize if it.chunks else 0
        is_here = not it.external and not it.is_virtual and chunk <= 1 << 24
        if is_here and it.dtype.kind in "iuf" and it.ndim <= 2 and 0 < it.size <= LARGEST and is_time_left():
            values = it[()]
            told["missing"] = int((values != values).sum())
            if told["missing"] < it.size:
                import numpy

                told["range"] = [short(numpy.nanmin(values).item()), short(numpy.nanmax(values).item())]
        return told

    with h5py.File(path, "r", locking=False) as file:
        waiting, seen = [("", file, 0)], {h5py.h5o.get_info(file["/"].id).addr}
        while waiting and len(datasets) < 300 and groups < 300:
            where, group, depth = waiting.pop(0)
            groups += 1
            kind = short(group.attrs.get("pandas_type", "")) if where else ""
            if kind:
                parts.append(part("group", where, rows=None, comment=f"{kind} of pandas; pd.read_hdf with key={where!r} loads it, and needs the package tables"))
                continue
            for name in list(group)[:1000]:
                # Links lead to other files.
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    more += 1
                    continue
                try:
                    it = group[name]
                    path_of = f"{where}/{name}".lstrip("/")
                    if isinstance(it, h5py.Group):
                        place = h5py.h5o.get_info(it.id).addr
                        if depth < 8 and place not in seen:
                            seen.add(place)
                            waiting.append((path_of, it, depth + 1))
                    elif isinstance(it, h5py.Dataset):
                        datasets.append(column(path_of, it))
                except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
                    datasets.append({"name": short(name), "kind": f"not readable: {type(error).__name__}"})
        about = attributes(file)
    if datasets:
        parts.insert(0, part("", "", None, datasets))
    return {"about": f"{len(datasets)} datasets in {groups} groups", "attributes": about, "parts": parts[:PARTS], "more": more + max(0, len(parts) - PARTS)}


def orc(path, _):
    from pyarrow import orc as reader

    file = reader.ORCFile(path)
    columns = [{"name": short(it.name), "kind": short(it.type)} for it in list(file.schema)[: COLUMNS + 1]]
    return {"about": f"{file.nrows} rows in {file.nstripes} stripes", "parts": [part("table", "", file.nrows, columns, max(0, len(file.schema) - COLUMNS - 1))]}


def avro(path, _):
    import polars

    frame = polars.read_avro(path, n_rows=SAMPLE)
    rows = frame.height if frame.height < SAMPLE else None
    columns = []
    for it in frame.get_columns()[:COLUMNS]:
        told = {"name": short(it.name), "kind": short(it.dtype), "missing": it.null_count()}
        if it.dtype.is_numeric() or it.dtype.is_temporal():
            if it.min() is not None:
                told["range"] = [short(it.min()), short(it.max())]
        elif it.dtype == polars.String:
            told["values"] = [short(value) for value in it.drop_nulls().unique(maintain_order=True).head(5)]
        columns.append(told)
    about = f"{rows} rows" if rows is not None else f"at least {SAMPLE} rows"
    return {"about": about, "parts": [part("table", "", rows, columns, max(0, frame.width - COLUMNS), is_sample=rows is None)]}


def packed(path, _):
    import pandas as pd

    frame = pd.read_csv(path, nrows=SAMPLE)
    rows = len(frame) if len(frame) < SAMPLE else None
    about = f"{rows} rows" if rows is not None else f"at least {SAMPLE} rows"
    return {"about": about, "parts": [frame_of(frame, rows, None, rows is None)]}


def pdf(path, _):
    import pypdf

    pages = pypdf.PdfReader(path).pages
    texts = []
    for page in list(pages)[:10]:
        if not is_time_left():
            break
        texts.append(" ".join(page.extract_text().split()))
    with_text = sum(bool(text) for text in texts)
    about = f"{with_text} of the first {len(texts)} pages have text"
    if texts and not with_text:
        about += ": they are pictures, perhaps scanned"
    return {"about": about, "text": next((text for text in texts if text), "")[:600]}


def address(path, _):
    import base64
    import urllib.parse
    import urllib.request

    HEAD = 4 << 20
    if not path.startswith(("http://", "https://")):
        raise ValueError("not an address")
    quoted = urllib.parse.quote(path, safe="/:?#[]@!$&'()*+,;=%~")
    request = urllib.request.Request(quoted, headers={"User-Agent": "Mozilla/5.0 (sponde)", "Range": f"bytes=0-{HEAD - 1}"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        head = answer.read(HEAD)
        total = answer.headers.get("Content-Range", "").rpartition("/")[2] or (answer.headers.get("Content-Length") if answer.status == 200 else "")
    return {"head": base64.b64encode(head).decode(), "bytes": int(total) if str(total).isdigit() else None}


def main(kind, path):
    readers = {"address": address, "duckdb": duckdb, "hdf5": hdf5, "orc": orc, "avro": avro, "packed": packed, "pdf": pdf}
    try:
        if kind in ("sas7bdat", "xport"):
            found = sas(path, kind)
        elif kind == "duckdb":
            found = duckdb(path)
        else:
            found = readers[kind](path, kind)
    except ModuleNotFoundError as error:
        found = {"lacks": short(error.name)}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {short(error)}"}
    return json.dumps(found, default=str)


print("\n" + main(*sys.argv[1:3]), flush=True)
