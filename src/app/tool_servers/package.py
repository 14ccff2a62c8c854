# Beside another package of this name: its modules are found, and what it has is here too.
import os as _os
import pkgutil as _pkgutil

_own = list(__path__)
__path__ = _pkgutil.extend_path(__path__, __name__)
for _place in __path__:
    _other = _os.path.join(_place, "__init__.py")
    if _place not in _own and _os.path.isfile(_other):
        with open(_other, encoding="utf-8") as _file:
            exec(compile(_file.read(), _other, "exec"))
        break
