"""PyTorch and transformers, imported without the parts that captions do not use: half of the CPU time of a start.

Importing the two also imports compilers, distributed checkpoints, sympy and scipy. `deferring` puts such modules into
place without executing them; each is executed when something first looks into it, and from then on is the module that
it would have been from the start.

`from module import name` looks into a module too. Where such names are functions and classes that are called later, if
ever (`_STOOD_IN`), it gives a stand-in: using it executes the module, and then the real object takes its place.

A module that is missing, was imported before or has another name in another version is not deferred.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import FunctionType, ModuleType
from typing import Any, Final

from specdec_cli.amendments import AMENDED

_STOOD_IN: Final = (
    "scipy",
    "sympy",
    "torch._dynamo",
    "torch._export",
    "torch.distributed._composable",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributions",
    "torch.fx.experimental.symbolic_shapes",
)
_DEFERRED: Final = (
    *_STOOD_IN,
    "torch._inductor",
    "torch.ao",
    "torch.export",
    "torch.masked",
    "torch.nn.intrinsic",
    "torch.nn.qat",
    "torch.nn.quantizable",
    "torch.nn.quantized",
    "torch.quantization",
)
_MARKS: Final = frozenset({"allow_in_graph", "assume_constant_result"})  # these decorators return the function itself
_WRAPPERS: Final = frozenset({"disable", "mark_subclass_constructor_exportable_experimental"})
"""Decorators that change something only for a compiler or an exporter, none of which was imported yet."""
_GUARDS: Final = ("expect_true", "guard_bool", "guard_or_false", "guard_or_true", "guard_size_oblivious")
_PLAIN: Final[dict[str, tuple[type, Callable[..., bool]]]] = {
    **dict.fromkeys((*_GUARDS, "statically_known_true"), (bool, lambda known: known)),
    "is_nested_int": (int, lambda _: False),
    "sym_and": (bool, lambda *each: all(each)),
    "sym_eq": (tuple, lambda one, other: one == other),
    "sym_or": (bool, lambda *each: any(each)),
}
"""Functions of torch.fx.experimental.symbolic_shapes, and what they are for numbers that are no symbols.

A model is built without memory for its weights by code that asks them of every size.
"""

_lock = threading.RLock()  # of what follows, and held while a deferred module is executed
_blocks = 0  # of `deferring` that are under way
_pending: dict[str, _Deferred] = {}  # modules that were not executed yet
_executing: set[str] = set()
_stand_ins: dict[tuple[ModuleType, str], _StandIn] = {}  # by module and name
_given_to: list[tuple[dict[str, Any], _StandIn]] = []  # namespaces of modules that import a stand-in
_decorated: list[tuple[ModuleType, Callable[[], object]]] = []  # module, and what to do once it was executed


def import_libraries() -> None:
    """Imports PyTorch, and of transformers what every model uses."""
    with deferring():
        import_module("torch")
        import_module("transformers.modeling_utils")


@contextmanager
def deferring() -> Iterator[None]:
    """Within the block, imports of the modules in `_DEFERRED` are deferred."""
    global _blocks
    with _lock:
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1


def _is_in(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


class _Finder(MetaPathFinder):
    """Finds the modules to defer."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec that defers the module; None for modules that other finders find."""
        if target is None and (known := sys.modules.get(fullname)) is not None:
            # The search for a submodule made its package execute, which imports it.
            return ModuleSpec(fullname, _Known(known), is_package=hasattr(known, "__path__"))
        if not _blocks:
            return None
        if fullname not in AMENDED and (_executing or not _is_in(fullname, _DEFERRED)):
            return None  # what a deferred module imports, it uses
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Amending(spec.loader) if fullname in AMENDED else _Deferring(spec.loader)
            return spec
        if parent := _pending.get(fullname.rpartition(".")[0]):
            _execute(parent)  # as it would have been before
        return None


_FINDER: Final = _Finder()


class _Known(Loader):
    """Finds a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _: ModuleSpec) -> ModuleType:
        """That module."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Leaves it as it was."""
        module.__spec__ = self._spec


class _Wrapping(Loader):
    """A loader that stands in for that of a module's source until the module was made."""

    def __init__(self, real: SourceFileLoader) -> None:
        self.real = real

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module's own loader into place."""
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.real


class _Amending(_Wrapping):
    """Loads a module and amends it."""

    def exec_module(self, module: ModuleType) -> None:
        """Executes it first."""
        super().exec_module(module)
        self.real.exec_module(module)
        AMENDED[module.__name__](module)


class _Deferring(_Wrapping):
    """Loads a module without executing it."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one."""
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leaves that for later."""
        super().exec_module(module)
        assert isinstance(module, _Deferred)
        vars(module).pop("__path__", None)  # asking for it is the first step to a submodule
        _pending[module.__name__] = module


class _Deferred(ModuleType):
    """A module that is executed when something looks into it."""

    def __getattr__(self, name: str) -> Any:
        own, spec = self.__name__, self.__spec__
        with _lock:
            if type(self) is ModuleType:  # another thread executed it meanwhile
                return getattr(self, name)
            known = vars(self)
            if own in _executing and "__getattr__" in known:
                return known["__getattr__"](name)
            submodules = spec.submodule_search_locations if spec is not None else None
            if _pending.get(own) is not self or own in _executing or (name == "__path__" and submodules is None):
                raise AttributeError(f"module {own!r} has no attribute {name!r}", name=name, obj=self)
            if _blocks and not _executing:
                if name == "__path__":
                    return submodules
                if _is_in(own, _STOOD_IN) and not name.startswith("__"):
                    return _stand_in(self, name, sys._getframe(1).f_globals)
            _execute(self)
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        # Submodules, and what the import system says of a module, are set on one that was not executed.
        if not name.startswith("__") and not isinstance(value, ModuleType):
            _execute(self)
        ModuleType.__setattr__(self, name, value)  # its class may be another one now


def _execute(module: ModuleType) -> None:
    """Executes a deferred module, its parents first."""
    name = module.__name__
    with _lock:
        if (parent := _pending.get(name.rpartition(".")[0])) is not None:
            _execute(parent)
        if _pending.get(name) is not module or name in _executing:  # its parent imports it, or is being imported by it
            return
        spec = module.__spec__
        assert spec is not None
        assert spec.loader is not None
        if spec.submodule_search_locations is not None:
            module.__path__ = spec.submodule_search_locations
        submodules = {key: value for key, value in vars(module).items() if isinstance(value, ModuleType)}
        _executing.add(name)
        try:
            spec.loader.exec_module(module)
        finally:
            _executing.remove(name)
        vars(module).update(submodules)  # they would have been imported afterwards
        del _pending[name]
        module.__class__ = ModuleType  # type: ignore[assignment]
        _replace_stand_ins(module)


def _stand_in(module: ModuleType, name: str, namespace: dict[str, Any]) -> _StandIn:
    found = _stand_ins.setdefault((module, name), _StandIn(module, name))
    _given_to.append((namespace, found))
    return found


def _replace_stand_ins(module: ModuleType) -> None:
    """Puts the names of a module that was executed into the modules that import them."""
    for namespace, stand_in in [each for each in _given_to if each[1].module is module]:
        _given_to.remove((namespace, stand_in))
        for key in [key for key, value in namespace.items() if value is stand_in]:
            namespace[key] = stand_in.real
    for due in [each for each in _decorated if each[0] is module]:
        _decorated.remove(due)
        due[1]()


class _StandIn:
    """A function or class of a module that was not executed yet."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module, self.name = module, name

    @property
    def waits(self) -> bool:
        """Whether its module was not executed yet."""
        return self.module.__name__ in _pending

    @property
    def real(self) -> Any:
        """The function or class."""
        _execute(self.module)
        if not hasattr(self.module, self.name):
            return import_module(f"{self.module.__name__}.{self.name}")
        return getattr(self.module, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and self.name in _MARKS | _WRAPPERS and self.waits:
            function, *others = args
            if function is None:
                return lambda function: self(function, *others, **kwargs)
            if isinstance(function, FunctionType):
                return self._decorate_later(function, lambda: self.real(*args, **kwargs))
        kind, plain = _PLAIN.get(self.name, (None, None))
        if plain is not None and self.waits and all(_is_plain(value, kind) for value in args):
            return plain(*args)
        return self.real(*args, **kwargs)

    def _decorate_later(self, function: Any, decorate: Callable[[], Any]) -> Any:
        """`function`, which is decorated when the module of the decorator is executed."""
        if self.name in _MARKS:
            _decorated.append((self.module, decorate))
            return function
        called = function

        @wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            return called(*args, **kwargs)

        def settle() -> None:
            nonlocal called
            called = decorate()
            vars(decorated).update(vars(called))

        _decorated.append((self.module, settle))
        return decorated

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __getitem__(self, item: Any) -> Any:
        return self.real[item]

    def __instancecheck__(self, instance: Any) -> bool:
        whole_package = self.module.__name__.partition(".")[0]
        return whole_package not in _pending and isinstance(instance, self.real)

    def __subclasscheck__(self, subclass: Any) -> bool:
        return issubclass(subclass.real if type(subclass) is _StandIn else subclass, self.real)

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[Any]:
        return (self.real,)

    def __or__(self, other: Any) -> Any:
        return self.real | other

    def __ror__(self, other: Any) -> Any:
        return other | self.real


def _is_plain(value: object, kind: type | None) -> bool:
    """Whether a value is of a type, and of integers alone if that is a tuple."""
    if isinstance(value, tuple):
        return kind is tuple and all(type(item) is int for item in value)
    return type(value) is kind
