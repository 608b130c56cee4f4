"""Says what of a program's syntax tree plainly breaks where workers import the program again (the start methods spawn and
forkserver), as events `start` of docs/recording-format.md: the first is of the kind "read", or the only one "hook-failed".
Nothing of the program is run or imported, and no other file is looked at. For CPython 3.6 and later.

usage: python -I -S -B -c THIS (script PATH | module NAME | code TEXT)
"""

import ast
import json
import os
import sys

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CONSTANTS = [getattr(ast, name) for name in ("Constant", "NameConstant", "Num", "Str") if name in ast.__dict__]
DEFINITIONS = FUNCTIONS + (ast.ClassDef,)
LOADERS = {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"}
PROCESSES = {"multiprocessing.Process", "multiprocessing.context.SpawnProcess"}
EXECUTORS = {"concurrent.futures.ProcessPoolExecutor", "concurrent.futures.process.ProcessPoolExecutor"}
POOLS = {"multiprocessing.Pool", "multiprocessing.pool.Pool", "multiprocessing.Manager", "multiprocessing.spawn"} | EXECUTORS
# What of their arguments is pickled, and which argument it is where it has no keyword.
SENT_BY = ((LOADERS, {"dataset": 0, "collate_fn": 6, "worker_init_fn": 10}),
           (PROCESSES, {"target": 1, "args": 3, "kwargs": 4}), (POOLS, {"initializer": 1, "initargs": 2}),
           ({"multiprocessing.spawn"}, {"fn": 0}))
TASKS = {"apply", "apply_async", "map", "map_async", "imap", "imap_unordered", "starmap", "starmap_async", "submit"}
GUARDS = {"__name__", "platform", "version_info"}  # a test of another system or Python is none that a worker passes
MOST_STEPS = 4  # from a name to what it is bound to


def constant(node):
    return getattr(node, "value", getattr(node, "s", getattr(node, "n", None))) if type(node) in CONSTANTS else None


def argument(call, name, position):
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if len(call.args) > position else None


class Scope:
    """A module, class or function: what its names are bound to, with the scope that the value stands in."""

    def __init__(self, node, parent):
        self.node, self.parent, self.bound = node, parent, {}

    def values(self, node):
        name = getattr(node, "id", None)
        return self.bound[name] if name in self.bound else self.parent.values(node) if self.parent else ()


class Program:
    def __init__(self, tree):
        self.names, self.methods, self.calls, self.scopes, self.events = {}, {}, [], {}, []
        self.module = self.survey(tree, None)
        chosen = {constant(argument(call, "method", 0)) for call, _ in self.calls if self.sets_method(call)}
        self.default_method = chosen.pop() or "" if len(chosen) == 1 else ""

    def sets_method(self, node):
        return isinstance(node, ast.Call) and self.dotted(node.func) == "multiprocessing.set_start_method"

    def survey(self, node, parent):
        scope = self.scopes[node] = Scope(node, parent)
        waiting = list(ast.iter_child_nodes(node))
        for child in waiting:
            if isinstance(child, DEFINITIONS):
                scope.bound.setdefault(child.name, []).append((child, scope))
                self.survey(child, scope)
                if any(self.dotted(base) in PROCESSES for base in getattr(child, "bases", ())):
                    self.names[child.name] = "multiprocessing.Process"
                continue
            if isinstance(child, ast.Call):
                self.calls.append((child, scope))
            self.bind(child, scope)
            waiting.extend(ast.iter_child_nodes(child))
        return scope

    def bind(self, node, scope):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0):
            module = getattr(node, "module", None)
            for alias in node.names:
                name = alias.name if alias.asname or module else alias.name.split(".")[0]
                self.names[alias.asname or name] = module + "." + name if module else name
        pairs = ([(target, node.value) for target in node.targets] if isinstance(node, ast.Assign) else
                 [(node.optional_vars, node.context_expr)] if isinstance(node, ast.withitem) else
                 [(node.target, node.iter)] if isinstance(node, (ast.For, ast.comprehension)) else ())
        for target, value in pairs:
            if isinstance(target, ast.Name):
                scope.bound.setdefault(target.id, []).append((value, scope))
                if isinstance(value, ast.Call) and self.dotted(value) == "multiprocessing":
                    self.names[target.id] = "multiprocessing"
                    self.methods[target.id] = constant(argument(value, "method", 0)) or ""

    def dotted(self, node):
        """"multiprocessing.Pool", by whatever name it was imported; None: of the program's own."""
        name = self.names.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(node, ast.Call) and self.dotted(node.func) == "multiprocessing.get_context":
            return "multiprocessing"
        if isinstance(node, ast.Attribute) and self.dotted(node.value):
            name = self.dotted(node.value) + "." + node.attr
        return name[6:] if name and name.startswith("torch.multiprocessing") else name

    def made(self, node, kinds, scope, steps=MOST_STEPS):
        """The call of one of `kinds` that made the value of an expression, or an element of it."""
        if isinstance(node, ast.Call) and self.dotted(node.func) in kinds:
            return node if kinds is not LOADERS or self.has_workers(node, scope) else None
        parts = [(part, scope) for part in getattr(node, "elts", [getattr(node, "elt", None)]) if part] or scope.values(node)
        return next(filter(None, (self.made(part, kinds, at, steps - 1) for part, at in parts if steps)), None)

    def has_workers(self, call, scope):
        workers = argument(call, "num_workers", 5)
        return workers and any(constant(value) != 0 for value, _ in scope.values(workers) or [(workers, scope)])

    def method_of(self, call):
        """The start method that the program chooses for what that call starts; "": none."""
        context = argument(call, "multiprocessing_context", 14) or getattr(call.func, "value", call.func)
        if isinstance(context, ast.Call):
            return constant(argument(context, "method", 0)) or ""
        return constant(context) or self.methods.get(getattr(context, "id", None)) or self.default_method

    def is_guard(self, node):
        """Whether it is a test of __name__, or of a variable that holds one."""
        test = node if isinstance(node, ast.BoolOp) else getattr(node, "test", None)
        names = [part for part in ast.walk(test) if isinstance(part, ast.Name)] if test else []
        values = [test] * bool(test) + [value for name in names for value, _ in self.module.values(name)]
        return any(getattr(part, "id", getattr(part, "attr", "")) in GUARDS for value in values for part in ast.walk(value))

    def executed(self, node):
        """The nodes that run when `node` does: no bodies of functions, and nothing that a guard keeps workers from."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS + (ast.Lambda,)):
                continue
            guard = child.value if isinstance(child, ast.Expr) else child
            if not self.is_guard(guard):
                yield child
                yield from self.executed(child)
            elif any(isinstance(part, (ast.Raise, ast.Return, ast.Assert)) or "exit" in (
                    getattr(part, "attr", ""), getattr(part, "id", "")) for part in ast.walk(guard)):
                return

    def starts(self, scope, seen):
        """(node, the call that made what it starts) for what a function or the module starts when it runs."""
        for node in self.executed(scope.node):
            made = self.loader_in(node.iter, scope) if hasattr(node, "iter") else None
            if isinstance(node, ast.Call):
                functions = [one for one, _ in scope.values(node.func) if isinstance(one, FUNCTIONS) and one not in seen]
                if self.dotted(node.func) in POOLS - EXECUTORS:
                    made = node
                elif getattr(node.func, "attr", None) in TASKS | {"start"}:
                    made = self.made(node.func.value, PROCESSES | EXECUTORS, scope)
                elif getattr(node.func, "id", None) == "iter" or any(map(self.iterates_argument, functions)):
                    made = self.loader_in(node, scope)
                inner = (call for one in functions for _, call in self.starts(self.scopes[one], seen | {one}))
                made = made or next((call for call in inner if self.method_of(call) != "fork"), None)
            if made:
                yield (node if hasattr(node, "lineno") else node.iter), made

    def iterates_argument(self, function):
        names = {argument.arg for argument in function.args.args}
        return any(getattr(part, "id", None) in names for node in self.executed(function)
                   for part in ast.walk(getattr(node, "iter", ast.Pass())))

    def loader_in(self, node, scope):
        """The loader with workers in what is iterated: also in enumerate(loader), but not in range(len(loader))."""
        parts = node.args if isinstance(node, ast.Call) and getattr(node.func, "id", None) != "len" else ()
        found = [self.made(node, LOADERS, scope)] + [self.loader_in(part, scope) for part in parts]
        return next(filter(None, found), None)

    def refused(self, node, path, scope, steps=MOST_STEPS):
        """(path, type, node) of each lambda, local function and local class in what is sent to a worker."""
        if isinstance(node, ast.Lambda):
            yield path, "lambda", node
        elif isinstance(node, ast.Name) and steps:
            for value, where in scope.values(node):
                if not isinstance(value, DEFINITIONS):
                    yield from self.refused(value, path, where, steps - 1)
                elif isinstance(where.node, FUNCTIONS):
                    yield path, "local class" if isinstance(value, ast.ClassDef) else "local function", value
        elif isinstance(node, (ast.List, ast.Tuple, ast.Dict)):
            for i, part in enumerate(getattr(node, "elts", None) or getattr(node, "values", ())):
                yield from self.refused(part, "%s[%d]" % (path, i), scope, steps)
        elif isinstance(node, ast.Call):
            # A class mostly keeps what it is handed; what another function does with it is not known.
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", "")
            classes = [value for value, _ in scope.values(node.func) if isinstance(value, ast.ClassDef)]
            own = {getattr(one, "name", "") for value in classes for one in value.body}
            if (name[:1].isupper() or name == "partial") and not own & {"__getstate__", "__reduce__"}:
                parts = [(part, path) for part in [node.func] * bool(classes) + node.args]
                parts += [(one.value, "%s.%s" % (path, one.arg)) for one in node.keywords]
                for part, where in parts:
                    yield from self.refused(part, where, scope, steps)

    def foresee(self, cause, node, what, **others):
        event = dict(others, kind="foreseen", cause=cause, line=node.lineno, message=what)
        if event not in self.events:
            self.events.append(event)

    def look(self, is_imported):
        started = [call for call, scope in self.calls if self.look_at_call(call, scope)]
        loaders = [call for call in started if self.dotted(call.func) in LOADERS]
        for call, scope in self.calls if loaders else ():
            is_dataset = scope.parent and "__getitem__" in scope.parent.bound
            if is_dataset and scope.node.name != "__init__" and self.dotted(call.func) in POOLS | PROCESSES:
                self.foresee("daemonic", call, self.dotted(call.func), path="line %d" % loaders[0].lineno)
        if is_imported and any(self.method_of(call) != "fork" for call in started):
            self.look_at_import()
        self.events.insert(0, {"kind": "read", "count": len(started), "type": sys.version.split()[0]})
        return self.events

    def look_at_call(self, call, scope):
        """Whether it makes what starts processes."""
        what, method, sent = self.dotted(call.func), self.method_of(call), []
        starts = what in POOLS | PROCESSES or self.made(call, LOADERS, scope) is not None
        pool = self.made(call.func.value, POOLS, scope) if getattr(call.func, "attr", None) in TASKS else None
        if pool:
            what, method = self.dotted(pool.func) + "." + call.func.attr, "every"
            sent = [("arguments[%d]" % i, value) for i, value in enumerate(call.args)]
        elif starts and method != "fork":
            sent = [(name, argument(call, name, at)) for kinds, names in SENT_BY if what in kinds
                    for name, at in names.items()]
        for path, type_, node in (one for name, value in sent for one in self.refused(value, name, scope)):
            self.foresee("unpicklable", call, what, method=method, path=path, type="%s at line %d" % (type_, node.lineno))
        return starts

    def look_at_import(self):
        for node, made in self.starts(self.module, set()):
            method, what = self.method_of(made), "%s at line %d" % (self.dotted(made.func), made.lineno)
            if method != "fork":
                self.foresee("bootstrapping", node, what, method=method)
        caught = {part for node in ast.walk(self.module.node) if isinstance(node, ast.Try)
                  for statement in node.body for part in ast.walk(statement)}
        for node in self.executed(self.module.node):
            if self.sets_method(node) and node not in caught and not constant(argument(node, "force", 1)):
                method = constant(argument(node, "method", 0)) or ""
                if method != "fork":
                    self.foresee("context-set", node, "multiprocessing.set_start_method", method=method)


def print_events(kind, name):
    file = {"script": name, "code": "<string>"}.get(kind, name.replace(".", os.sep) + ".py")
    try:
        text = name.encode("utf-8", "surrogateescape") if kind == "code" else open(file, "rb").read()
        # Workers do not import what -c runs.
        events = Program(ast.parse(text, file)).look(kind != "code")
    except (SyntaxError, OSError, ValueError, MemoryError, RecursionError) as error:
        where = ":%d: syntax error: " % (error.lineno or 0) if isinstance(error, SyntaxError) else ": "
        why = getattr(error, "msg", None) or getattr(error, "strerror", None) or str(error) or type(error).__name__
        events = [{"kind": "hook-failed", "message": where + why}]
    for event in events:
        print(json.dumps(dict(event, file=os.fsencode(file).decode("utf-8", "replace"), at=0, pid=0, start_ticks=0)))


if __name__ == "__main__":
    sys.setrecursionlimit(4000)
    print_events(*sys.argv[1:])
