"""The tools of MCP servers as functions: `from sponde.tools import NAME`, then `print(NAME)` (docs/mcp.md of Sponde).

A call goes to Sponde by a unix socket, and Sponde asks the server: no network and no key is needed here.
"""

import inspect as _inspect
import json as _json
import keyword as _keyword
import os as _os
import socket as _socket

_PLACE = _os.path.dirname(_os.path.abspath(__file__))
with open(_os.path.join(_PLACE, "servers.json"), encoding="utf-8") as _file:
    __all__ = _json.load(_file)

_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class ToolError(RuntimeError):
    """A tool that failed, or could not be called; the message is the server's."""


def _plain(value):
    """Numbers and arrays of NumPy, frames, dates: as JSON has them."""
    for method in ("to_dict", "tolist", "isoformat"):
        if hasattr(value, method):
            return value.to_dict("records") if method == "to_dict" and hasattr(value, "columns") else getattr(value, method)()
    return str(value)


def _ask(request):
    with _socket.socket(_socket.AF_UNIX) as connection:
        connection.connect(_os.path.join(_os.path.dirname(_PLACE), "s"))
        connection.sendall(_json.dumps(request, default=_plain).encode() + b"\n")
        with connection.makefile("rb") as answers:
            line = answers.readline()
    if not line:
        raise ToolError("Sponde gave no answer: the request may be too large, or the session has ended")
    answer = _json.loads(line)
    if "error" in answer:
        raise ToolError(answer["error"])
    return answer["result"]


def _value(result):
    """What a tool returned: its structured content, else its text (read as JSON if it is), else its blocks."""
    content = result.get("content") or []
    texts = [block.get("text", "") for block in content if block.get("type") == "text"]
    if result.get("isError"):
        raise ToolError("\n".join(texts) or "the tool failed and did not say why")
    structured = result.get("structuredContent")
    if structured is not None:
        return structured["result"] if list(structured) == ["result"] else structured
    if not content or len(texts) < len(content):
        return content
    text = "\n".join(texts)
    if text[:1] in ("[", "{"):
        try:
            return _json.loads(text)
        except ValueError:
            pass
    return text


def _function(server, tool):
    name = tool["name"]
    schema = tool.get("inputSchema") or {}
    properties = schema.get("properties") or {}
    needed = [field for field in schema.get("required") or [] if field in properties]
    fields = needed + [field for field in properties if field not in needed]
    usable = [field for field in fields if field.isidentifier() and not _keyword.iskeyword(field)]
    signature = _inspect.Signature(
        [
            _inspect.Parameter(
                field,
                _inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=_inspect.Parameter.empty if field in needed else properties[field].get("default"),
                annotation=_TYPES.get(properties[field].get("type"), _inspect.Parameter.empty),
            )
            for field in usable
        ]
    )

    def call(*args, **kwargs):
        others = {field: kwargs.pop(field) for field in list(kwargs) if field in properties and field not in usable}
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{server}.{call.__name__}{signature}: {error}") from None
        return _value(_ask({"server": server, "tool": name, "arguments": {**given, **others}}))

    call.__name__ = call.__qualname__ = "".join(c if c.isalnum() else "_" for c in name)
    call.__signature__ = signature
    call.__doc__ = _documentation(tool, properties, fields)
    return call


def _documentation(tool, properties, fields):
    lines = [str(tool.get("description") or tool.get("title") or tool["name"]).strip()]
    for field in fields:
        about = properties[field].get("description")
        if about:
            lines.append(f"    {field}: {about}")
    return "\n".join(lines)


class Server:
    """The tools of one MCP server."""

    def __init__(self, name):
        self.__dict__.update(_name=name, _functions=None)

    def _load(self):
        if self._functions is None:
            functions = {}
            for tool in _ask({"server": self._name}):
                made = _function(self._name, tool)
                functions[made.__name__] = made
            self.__dict__["_functions"] = functions
        return self._functions

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        functions = self._load()
        if name in functions:
            return functions[name]
        raise AttributeError(f"the MCP server `{self._name}` has no tool `{name}`: it has {', '.join(functions)}")

    def __dir__(self):
        return list(self._load())

    def __repr__(self):
        lines = [f"tools of the MCP server `{self._name}`:"]
        for name, function in self._load().items():
            about = function.__doc__.splitlines()[0] if function.__doc__ else ""
            lines.append(f"  {name}{function.__signature__}  {about}"[:200])
        return "\n".join(lines)


_servers = {}


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"there is no MCP server `{name}`; there are: {', '.join(__all__)}")
    return _servers.setdefault(name, Server(name))
