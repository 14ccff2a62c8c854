"""Rows as columns of Arrow."""

import datetime
import decimal
import json


def plain(value):
    """A value that Arrow has a type for."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, datetime.datetime, datetime.date)):
        return value
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, default=str)
    if isinstance(value, memoryview):
        return bytes(value)
    return str(value)


def arrow_type(name):
    import pyarrow

    stamps = {"timestamp": pyarrow.timestamp("us"), "timestamp of UTC": pyarrow.timestamp("us", "UTC")}
    return stamps.get(name) or (pyarrow.type_for_alias(name) if name else None)


def column_of(values, kind):
    """One type for a column; what fits no other is text."""
    import pyarrow

    values = [plain(value) for value in values]
    wrong = (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError)
    if kind is not None:
        try:
            return pyarrow.array(values, kind)
        except wrong:
            pass
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        values = [None if value is None else str(value) for value in values]
    try:
        return pyarrow.array(values)
    except wrong:
        return pyarrow.array([None if value is None else str(value) for value in values])


def settled(column):
    """A column of a driver's own, without types that nobody else knows."""
    import pyarrow

    kind = column.type
    if not isinstance(kind, pyarrow.BaseExtensionType):
        return column
    # PostgreSQL's numbers of any size, as ADBC brings them.
    if getattr(kind, "type_name", None) == "numeric":
        return column.storage.cast(pyarrow.float64())
    return pyarrow.array([None if value is None else str(value) for value in column.to_pylist()], pyarrow.string())


def nothing(schema):
    """No rows: what types there would be."""
    import pyarrow

    return pyarrow.RecordBatch.from_arrays([pyarrow.nulls(0, field.type) for field in schema], schema=schema)


def joined(chunks, kind):
    """Pieces of a column, with the widest of their types."""
    import pyarrow

    kinds = {chunk.type for chunk in chunks} - {pyarrow.null()}
    if len(kinds) == 1:
        kind = kinds.pop()
    elif kinds == {pyarrow.int64(), pyarrow.float64()}:
        kind = pyarrow.float64()
    elif kinds or kind is None:
        kind = pyarrow.string()
    return pyarrow.chunked_array([chunk.cast(kind) for chunk in chunks], kind)


def unique(names):
    seen, result = {}, []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return result
