"""Settings that programs of Open Interpreter make. Those that have no effect here warn."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

#: A setting that has no effect here: the value that asks for nothing, and what to do instead.
Missing = dict[str, tuple[Any, str]]


class SpondeWarning(UserWarning):
    """A setting of Open Interpreter has no effect here."""


class Settings:
    """Attributes that programs set. A subclass assigns its defaults and then calls `_seal`; from then on a name without a
    default warns.
    """

    #: How programs call the object.
    _called: ClassVar[str]
    _missing: ClassVar[Missing] = {}
    _sealed = False

    def _seal(self) -> None:
        for name, (usual, _) in self._missing.items():
            setattr(self, name, usual)
        self._sealed = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._sealed and not name.startswith("_"):
            complaint = self._complaint(name, value)
            if complaint is not None:
                warnings.warn(complaint, SpondeWarning, stacklevel=2)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(self._unknown(name))

    def _complaint(self, name: str, value: Any) -> str | None:
        """Why setting this has no effect, if it has none."""
        if name in self._missing:
            usual, why = self._missing[name]
            asks_for_nothing = value is None or value == usual
            return None if asks_for_nothing else f"`{self._called}.{name} = {value!r}` has no effect: {why}"
        if name in vars(self) or hasattr(type(self), name):
            return None
        return f"{self._unknown(name)}: setting it does nothing"

    def _unknown(self, name: str) -> str:
        return f"`{self._called}.{name}` is not known here; docs/python.md lists what there is of Open Interpreter"
