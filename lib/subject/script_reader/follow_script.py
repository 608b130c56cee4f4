"""Follows a program through its syntax tree. The names of script_values.py are there: the two are one module.

It walks through the main module as an interpreter does, with values that are known by their kind alone: a
loader, a process, a lambda, an object of this class. Both branches of an "if" are taken, a loop is run once, a
function of the program is run where it is called, with what it is called with. Modules of the program's own folder
are read where they are imported. What it cannot know it takes for harmless.
"""

import _ast
import builtins
import os

MOST_STEPS = 150000  # statements and expressions that are walked through
MOST_DEPTH = 24  # calls within calls
MOST_RUNS = 6  # of one function
MOST_FACTS = 200
SMALL_FILE = 1000000  # whose loading costs nothing to speak of


def generates(node):
    """Whether a function has a yield of its own."""
    waiting = list(node.body)
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if kind is _ast.Yield or kind is _ast.YieldFrom:
            return True
        if kind in DEFINITIONS:
            continue
        for field in one._fields:
            part = getattr(one, field, None)
            if type(part) is list:
                waiting.extend(item for item in part if isinstance(item, _ast.AST))
            elif isinstance(part, _ast.AST) and part._fields:
                waiting.append(part)
    return False


class Reader:
    def __init__(self, own, main_is_imported, default_method):
        self.own = own
        self.folder = own.folder
        self.main_is_imported = main_is_imported
        self.default_method = default_method  # of the interpreter
        self.modules = {}
        self.steps = 0
        self.frames = []
        self.runs = {}
        self.ran = set()
        self.generators = {}
        self.facts = []
        self.seen = set()
        # Where the walk is:
        self.guarded = False  # an import by a worker does not come here
        self.gone = False  # nothing comes here: something that was called does not return
        self.at_import = True  # reached from the main module's statements
        self.in_worker = None  # or (daemonic, where it was started)
        self.handles_runtime_error = 0
        # What the walk has met:
        self.chosen_method = None  # by set_start_method
        self.methods = []  # all that were chosen so
        self.context_line = None  # what took the default context: (file, line, what)
        self.cuda_line = None  # first use of CUDA in the parent: (file, line, what)
        self.forked_after_cuda = None  # in a worker: cuda_line as it was at the fork
        self.later = []  # functions and classes that may never be called

    # ---- facts

    def here(self, node=None):
        frame = self.frames[-1]
        return frame.module.file, getattr(node, "lineno", frame.line), frame.function

    def module_statement(self):
        """The innermost statement of a module's own level that leads here."""
        for frame in reversed(self.frames):
            if frame.function == "<module>":
                return frame.module.file, frame.top_line, "<module>"
        return self.here()

    def fact(self, kind, place, **more):
        entry = {"kind": kind, "file": place[0], "line": place[1], "function": place[2]}
        entry.update((key, value) for key, value in more.items() if value)
        key = tuple(sorted(entry.items()))
        if key in self.seen or len(self.facts) >= MOST_FACTS:
            return
        self.seen.add(key)
        self.facts.append(entry)

    def imported_again(self):
        return self.main_is_imported and not self.guarded and self.at_import and self.in_worker is None

    # ---- processes are started

    def method_of(self, explicit):
        method = explicit or self.chosen_method or ""
        return "" if method == UNKNOWN_METHOD else method

    def starts(self, what, explicit, node):
        """A process is started here. Whether it is: a daemonic process may not."""
        method = self.method_of(explicit)
        place = self.here(node)
        if self.in_worker is not None:
            daemonic, where = self.in_worker
            if daemonic:
                self.fact("daemonic-child", place, what=what, other_file=where[0], other_line=where[1], name=where[2])
            return not daemonic
        self.take_context(what, node, explicit)
        self.fact("starts", place, what=what, method=method)
        if self.imported_again():
            self.fact("starts-at-import", self.module_statement(), what=what, method=method, other_file=place[0],
                      other_line=place[1], name=place[2])
        return True

    def may_start(self, loader, node):
        """A loader is iterated over of which nobody knows whether it has workers."""
        if self.in_worker is None and self.imported_again():
            place = self.here(node)
            self.fact("may-start-at-import", self.module_statement(), what=loader.name,
                      method=self.method_of(loader.context), other_file=place[0], other_line=place[1], name=place[2])

    def take_context(self, what, node, explicit=None):
        if not explicit and self.context_line is None:
            place = self.here(node)
            self.context_line = (place[0], place[1], what)

    def run_in_worker(self, functions, daemonic, what, method, node):
        """Walks through what a worker runs: pairs of a function and its arguments."""
        if self.in_worker is not None and len(self.frames) > MOST_DEPTH // 2:
            return
        method = self.method_of(method) or self.default_method
        place = self.here(node)
        kept = self.in_worker, self.forked_after_cuda, self.chosen_method, self.context_line, self.guarded
        self.in_worker = (daemonic, (place[0], place[1], what))
        self.forked_after_cuda = self.cuda_line if method == "fork" else None
        for function, arguments in functions:
            if function is not None:
                self.call(function, arguments, {}, node)
        self.in_worker, self.forked_after_cuda, self.chosen_method, self.context_line, self.guarded = kept
        self.gone = False

    def iterate(self, value, node):
        """What `iter(value)` does."""
        for one in alternatives(value):
            if isinstance(one, Instance) and isinstance(one.library, Loader):
                one = one.library
            if isinstance(one, Loader):
                self.iterate_loader(one, node)
            elif isinstance(one, Generator):
                run, one.run = one.run, None
                if run:
                    run()
            elif isinstance(one, Instance):
                self.call(self.member(one, "__iter__"), [], {}, node)
            elif isinstance(one, Made):
                # Something that wraps a loader: tqdm(loader).
                self.iterate_loaders(one.arguments, node)

    def iterate_loaders(self, values, node):
        for value in values:
            for one in alternatives(value):
                if isinstance(getattr(one, "library", one), Loader):
                    self.iterate(one, node)

    def iterate_loader(self, loader, node):
        if loader.is_hidden:
            self.may_start(loader, node)
        if not loader.workers:
            return
        if not self.starts(loader.name, loader.context, node):
            return
        work = []
        dataset = loader.parts.get("dataset")
        for one in alternatives(dataset):
            for name in ("__getitem__", "__getitems__", "__iter__"):
                work.append((self.member(one, name), [None]))
        work.append((loader.parts.get("worker_init_fn"), [None]))
        work.append((loader.parts.get("collate_fn"), [None]))
        self.run_in_worker(work, True, loader.name, loader.context, node)

    def start_process(self, process, owner, node):
        if not self.starts(process.name, process.method, node):
            return
        for path, value in process.arguments:
            self.check_sent(value, path, process.name, process.method, node)
        if owner is not None:
            self.check_sent(owner, owner.cls.name, process.name, process.method, node)
            work = [(self.member(owner, "run"), [])]
        else:
            self.check_sent(process.target, "target", process.name, process.method, node)
            work = [(process.target, [value for _, value in process.arguments])]
        self.run_in_worker(work, process.daemonic, process.name, process.method, node)

    def send_task(self, workers, name, arguments, node):
        """submit, map and their like: a function is sent to a worker."""
        if not workers.started:
            workers.started = True
            if not self.starts(workers.name, workers.method, node):
                return
        if not arguments:
            return
        self.check_sent(arguments[0], "function", workers.name + "." + name, workers.method, node)
        given = arguments[1:] if name == "submit" else [None]
        if name == "submit":
            for i, value in enumerate(given):
                self.check_sent(value, "args[%d]" % i, workers.name + "." + name, workers.method, node)
        self.run_in_worker([(arguments[0], given)], workers.daemonic, workers.name, workers.method, node)

    # ---- what pickle refuses

    def check_sent(self, value, path, what, method, node):
        place = self.here(node)
        method = self.method_of(method)
        for found_path, type_name, name, defined, kind in self.refused(value, path, set(), 0):
            self.fact(kind, place, what=what, method=method, path=found_path, type=type_name, name=name,
                      other_file=defined[0] if defined else "", other_line=defined[1] if defined else 0)

    def refused(self, value, path, seen, depth):
        if depth > 8 or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, Either):
            for one in value.values:
                yield from self.refused(one, path, seen, depth + 1)
        elif isinstance(value, Function):
            yield from self.refused_function(value, path)
        elif isinstance(value, Class):
            yield from self.refused_name(value, path, "class")
        elif isinstance(value, Method):
            yield from self.refused(value.owner, path + ".__self__", seen, depth + 1)
        elif isinstance(value, Instance):
            yield from self.refused_instance(value, path, seen, depth)
        elif isinstance(value, Partial):
            yield from self.refused(value.function, path + ".func", seen, depth + 1)
            for i, item in enumerate(value.arguments):
                yield from self.refused(item, path + ".args[%d]" % i, seen, depth + 1)
            for key, item in sorted(value.keywords.items()):
                yield from self.refused(item, path + ".keywords['%s']" % key, seen, depth + 1)
        elif isinstance(value, Unpicklable):
            yield path, value.type_name, "", None, "unpicklable"
        elif isinstance(value, Generator):
            yield path, "generator", "", None, "unpicklable"
        elif isinstance(value, Workers):
            yield path, value.name, "", None, "unpicklable"
        elif isinstance(value, (External, Module)) and getattr(value, "is_module", True):
            yield path, "module", value.name, None, "unpicklable"
        elif isinstance(value, Box):
            yield from self.refused(value.function, path, seen, depth + 1)
            for label, item in value.items:
                yield from self.refused(item, path + label, seen, depth + 1)

    def refused_function(self, value, path):
        place = (value.module.file, value.node.lineno)
        if value.is_lambda:
            yield path, "lambda", "", place, "unpicklable"
        elif value.is_nested and not value.decorated:
            yield path, "nested function", value.name, place, "unpicklable"
        else:
            yield from self.refused_name(value, path, "function")

    def refused_name(self, value, path, kind):
        """Functions and classes are sent by their name."""
        place = (value.module.file, value.node.lineno)
        if value.is_nested:
            if kind == "class":
                yield path, "local class", value.name, place, "unpicklable"
        elif value.module.is_main and not self.main_is_imported:
            yield path, kind, value.name, place, "not-found-there"
        elif value.module.is_main and value.under_guard:
            yield path, kind, value.name, place, "defined-under-guard"

    def refused_instance(self, value, path, seen, depth):
        if any(self.find_member(value.cls, hook) is not None for hook in HOOKS) or self.may_have_hooks(value.cls):
            return
        yield from self.refused_name(value.cls, path, "class")
        for name, attribute in sorted(value.attributes.items()):
            for entry in self.refused(attribute, path + "." + name, seen, depth + 1):
                # Of an open file it helps to know where it was put there.
                yield entry[:3] + (entry[3] or value.lines.get(name),) + entry[4:]

    def may_have_hooks(self, cls):
        """A class that is not read may say itself how its objects are pickled: multiprocessing.queues.Queue does."""
        bases = [base for one in self.order_of(cls) for base in one.bases]
        return any(not isinstance(base, Class) and not (
            isinstance(base, External) and (base.name.startswith(PICKLED_AS_A_WHOLE) or
                                            normalized(base.name) in SUBCLASSED)) for base in bases)

    # ---- CUDA

    def touches_cuda(self, what, node):
        place = self.here(node)
        if self.in_worker is not None:
            if self.forked_after_cuda:
                where = self.forked_after_cuda
                self.fact("cuda-after-fork", place, what=what, name=where[2], other_file=where[0], other_line=where[1],
                          method="fork")
        elif self.cuda_line is None:
            self.cuda_line = (place[0], place[1], what)

    # ---- modules and statements

    def run_module(self, module, tree):
        frame = Frame(module, "<module>")
        self.frames.append(frame)
        self.run_block(tree.body, module.scope, top=frame)
        self.frames.pop()

    def run_block(self, body, scope, top=None):
        """Whether what stands behind it is not reached."""
        frame = self.frames[-1]
        for statement in body:
            frame.line = statement.lineno
            if top is not None:
                top.top_line = statement.lineno
            self.steps += 1
            handler = STATEMENTS.get(type(statement))
            if handler is not None and (handler(self, statement, scope) or self.gone):
                self.gone = False
                return True
        return False

    def run_expression(self, node, scope):
        if type(node.value) not in CONSTANTS:
            self.value(node.value, scope)

    def run_ending(self, node, scope):
        return True  # break, continue

    def run_function(self, node, scope):
        decorators = [self.value(decorator, scope) for decorator in node.decorator_list]
        function = self.new_function(node, scope, node.name)
        for decorator, part in zip(decorators, node.decorator_list):
            name = getattr(part, "id", getattr(part, "attr", ""))
            if isinstance(decorator, External) and normalized(decorator.name) in DECORATORS:
                function.binding = DECORATORS[decorator.name]
            elif name in ("setter", "getter", "deleter") and scope.kind == "class":
                return
            for one in alternatives(decorator):
                self.decorate(one, function, node)
        self.assign_name(node.name, function, scope)
        self.later.append(function)

    def decorate(self, decorator, function, node):
        if isinstance(decorator, Made):
            decorator = decorator.owner
        if isinstance(decorator, Part):
            decorator = decorator.owner
        if isinstance(decorator, (Made, Function)) and decorator is not function:
            if isinstance(decorator, Function) and not decorator.decorated:
                self.call(decorator, [function], {}, node)
            elif len(decorator.commands) < MOST_ITEMS:
                decorator.commands.append(function)

    def new_function(self, node, scope, name):
        function = Function(node, self.frames[-1].module, scope, name)
        function.under_guard = self.guarded and scope.kind == "module"
        return function

    def generates(self, function):
        node = function.node
        result = self.generators.get(node)
        if result is None:
            # Few functions have the word in their lines: the others need not be walked through for it.
            lines = self.own.yields.get(function.module.file, ())
            last = getattr(node, "end_lineno", None)  # Python 3.8 and newer
            result = any(node.lineno <= line <= (last or line) for line in lines) and generates(node)
            self.generators[node] = result
        return result

    def run_class(self, node, scope):
        bases = [self.value(base, scope) for base in node.bases]
        cls = Class(node, self.frames[-1].module, scope, bases)
        cls.under_guard = self.guarded and scope.kind == "module"
        inner = Scope("class", scope)
        inner.owner = cls
        self.run_block(node.body, inner)
        cls.members = inner.names
        self.assign_name(node.name, cls, scope)

    def run_return(self, node, scope):
        value = self.value(node.value, scope) if node.value is not None else Constant(None)
        if not self.gone:
            names = scope.names
            names["return"] = either([names["return"], value]) if "return" in names else value
            self.frames[-1].exits.append(self.guarded)
        return True

    def run_raise(self, node, scope):
        value = self.value(node.exc, scope) if node.exc is not None else None
        if node.cause is not None:
            self.value(node.cause, scope)
        name = getattr(value, "name", "")
        if not self.gone and name in ("builtins.NotImplementedError", "builtins.NotImplementedError()"):
            # A subclass of somebody else's may go on.
            self.frames[-1].exits.append(self.guarded)
        return True

    def run_assert(self, node, scope):
        own, worker = self.decided(node.test, scope)
        self.guarded = self.guarded or (worker is False and own is not False)

    def run_delete(self, node, scope):
        for target in node.targets:
            if type(target) is Subscript:
                self.remove(self.value(target.value, scope), self.label(target, scope))
            elif type(target) is Attribute:
                for one in alternatives(self.value(target.value, scope)):
                    if isinstance(one, Instance):
                        one.attributes.pop(target.attr, None)

    def run_assign(self, node, scope):
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def run_annotated(self, node, scope):
        if scope.kind == "class" and type(node.target) is Name and scope.owner is not None:
            scope.owner.fields.append(node.target.id)
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def run_augmented(self, node, scope):
        value = self.value(node.value, scope)
        if type(node.target) is not Name:
            return
        owner = scope.find(node.target.id)
        if isinstance(owner, Box):
            self.merge(owner, value)
        elif isinstance(owner, (Constant, Told, Either)):
            self.assign_name(node.target.id, None, scope)

    def merge(self, box, value):
        """All items of the value come into the box."""
        for one in alternatives(value):
            if isinstance(one, Box):
                box.kind = "some" if box.kind == "list" else box.kind
                for label, item in one.items:
                    box.set(label if box.kind == "dict" else "[%d]" % len(box.items), item)
                box.is_open = box.is_open or one.is_open
            else:
                box.is_open = True

    def remove(self, owner, label):
        for one in alternatives(owner):
            if isinstance(one, Box) and one.kind == "dict":
                one.items = [item for item in one.items if item[0] != label or label == "[...]"]

    def assign_name(self, name, value, scope):
        if scope.elsewhere:
            scope = scope.elsewhere.get(name, scope)
        scope.names[name] = value

    def assign(self, target, value, scope):
        kind = type(target)
        if kind is Name:
            self.assign_name(target.id, value, scope)
        elif kind is Attribute:
            self.assign_attribute(self.value(target.value, scope), target, value)
        elif kind is Subscript:
            owner = self.value(target.value, scope)
            label = self.label(target, scope)
            for one in alternatives(owner):
                if isinstance(one, Box) and (one.kind == "dict" or label != "[...]"):
                    one.set(label, value)
        elif kind is Tuple or kind is List:
            self.assign_parts(target, value, scope)

    def assign_parts(self, target, value, scope):
        parts = target.elts
        for i, part in enumerate(parts):
            starred = type(part) is Starred
            given = []
            for one in alternatives(value):
                items = one.items if isinstance(one, Box) and one.kind == "list" else ()
                exact = len(items) == len(parts) and not starred
                given.append(items[i][1] if exact else self.element_of(one) if one is not None else None)
            one = either(given)
            self.assign(part.value if starred else part, Box([("[...]", one)], "some") if starred else one, scope)

    def assign_attribute(self, owner, target, value):
        for one in alternatives(owner):
            if isinstance(one, Instance):
                one.attributes[target.attr] = value
                one.lines[target.attr] = self.here(target)[:2]
                one = one.library
            if isinstance(one, Process) and target.attr == "daemon":
                one.daemonic = isinstance(value, Constant) and value.value is True

    # ---- branches. `if __name__ == "__main__":` and all that is false in a worker that imports the main module

    def decided(self, test, scope):
        """truth_of, of a test; what is written there as a constant counts."""
        value = self.value(test, scope)
        if type(test) in CONSTANTS:
            return (bool(constant_of(test)),) * 2
        return truth_of(value)

    def run_if(self, node, scope):
        own, worker = self.decided(node.test, scope)
        if self.gone:
            return True
        if own is not None and own == worker:
            return self.run_block(node.body if own else node.orelse, scope)
        kept = self.guarded
        return self.run_branches([(kept or worker is False, node.body), (kept or worker is True, node.orelse)], scope)

    def run_branches(self, branches, scope):
        """The program takes one of them: (guarded, body). What one has done is not there in the next. Whether none
        goes on behind it: `if __name__ != "__main__": return` guards what stands there."""
        before = self.state(scope)
        joined = None
        for guarded, body in branches:
            if joined is not None or scope.names is not before[0]:
                self.restore(before, scope)
            else:
                scope.names = dict(scope.names)
            self.guarded = guarded
            if self.run_block(body, scope):
                continue
            if joined is not None:
                self.join(joined, scope)
            joined = self.state(scope)
        if joined is None:
            return True
        scope.names, self.context_line, self.chosen_method, self.cuda_line, self.guarded = joined
        return False

    def state(self, scope):
        return scope.names, self.context_line, self.chosen_method, self.cuda_line, self.guarded

    def restore(self, state, scope):
        scope.names = dict(state[0])
        self.context_line, self.chosen_method, self.cuda_line, self.guarded = state[1:]

    def join(self, other, scope):
        names = scope.names
        if other[0] != names:
            for name, value in other[0].items():
                if name not in names:
                    names[name] = value
                elif names[name] is not value:
                    names[name] = either([value, names[name]])
        self.context_line = self.context_line or other[1]
        self.chosen_method = self.chosen_method or other[2]
        self.cuda_line = self.cuda_line or other[3]
        self.guarded = self.guarded and other[4]

    def run_match(self, node, scope):
        subject = self.value(node.subject, scope)
        kept = rest = self.guarded
        branches = []
        ends = False
        for case in node.cases:
            own, worker = self.matches(subject, case.pattern, scope)
            if case.guard is not None:
                more = self.decided(case.guard, scope)
                own, worker = [False if False in pair else None if None in pair else True
                               for pair in ((own, more[0]), (worker, more[1]))]
            if own is False and worker is False:
                continue
            branches.append((rest or worker is False, case.body))
            rest = rest or worker is True
            ends = own is True and worker is True
            if ends:
                break
        if not ends:
            branches.append((rest, []))
        self.guarded = kept
        return self.run_branches(branches, scope)

    def matches(self, subject, pattern, scope):
        kind = type(pattern).__name__
        if kind == "MatchValue":
            return truth_of(told(COMPARISONS["Eq"], subject, self.value(pattern.value, scope)))
        if kind == "MatchOr":
            truths = [self.matches(subject, part, scope) for part in pattern.patterns]
            return tuple(True if True in one else None if None in one else False for one in zip(*truths))
        if kind == "MatchAs":
            return self.matches(subject, pattern.pattern, scope) if pattern.pattern is not None else (True, True)
        return None, None

    def run_for(self, node, scope):
        value = self.value(node.iter, scope)
        self.iterate(value, node.iter)
        if self.gone:
            return True
        kept = self.guarded
        self.assign(node.target, self.element_of(value), scope)
        self.run_block(node.body, scope)
        self.guarded = kept
        return self.run_block(node.orelse, scope) and False

    def element_of(self, value):
        if isinstance(value, Either):
            return either([self.element_of(one) for one in value.values])
        if isinstance(value, Box) and value.kind in ("list", "some"):
            return either([item for _, item in value.items])
        return value.scope.names.get("yield") if isinstance(value, Generator) else None

    def run_while(self, node, scope):
        own, worker = self.decided(node.test, scope)
        if self.gone:
            return True
        kept = self.guarded
        if own is not False or worker is not False:
            self.guarded = kept or worker is False
            self.run_block(node.body, scope)
        self.guarded = kept
        return self.run_block(node.orelse, scope) and False

    def run_with(self, node, scope):
        kept = self.guarded
        catches = False
        for item in node.items:
            value = self.value(item.context_expr, scope)
            catches = catches or (isinstance(value, Made) and value.name in CATCH)
            if isinstance(value, Instance):
                given = self.call(self.member(value, "__enter__"), [], {}, node)
                value = value if given is None else given
            elif isinstance(value, Generator):  # of a contextlib.contextmanager
                self.iterate(value, node)
                value = self.element_of(value)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope)
        if self.gone:
            return True
        ended = self.run_block(node.body, scope)
        if catches:
            self.guarded = kept
        return ended and not catches

    def run_try(self, node, scope):
        names = []
        for handler in node.handlers:
            types = getattr(handler.type, "elts", [handler.type])
            names.extend("Exception" if part is None else getattr(part, "id", "") for part in types)
        handles = any(name in ("RuntimeError", "Exception", "BaseException") for name in names)
        kept = self.guarded
        self.handles_runtime_error += handles
        ended = self.run_block(node.body, scope)
        self.handles_runtime_error -= handles
        ended = ended or self.run_block(node.orelse, scope)
        going_on = [] if ended else [self.guarded]
        for handler in node.handlers:
            self.guarded = kept
            if not self.run_block(handler.body, scope):
                going_on.append(self.guarded)
        self.guarded = all(going_on) if going_on else kept
        return self.run_block(node.finalbody, scope) or not going_on

    def run_global(self, node, scope):
        for name in node.names:
            scope.elsewhere[name] = self.frames[-1].module.scope

    def run_nonlocal(self, node, scope):
        for name in node.names:
            owner = scope.parent
            while owner is not None and name not in owner.names:
                owner = owner.parent
            if owner is not None:
                scope.elsewhere[name] = owner

    # ---- imports

    def run_import(self, node, scope):
        for alias in node.names:
            parts = alias.name.split(".")
            module = self.own_module(alias.name, 0)
            if module is None:
                self.meet_import(alias.name)
                bound = alias.name if alias.asname else parts[0]
                self.assign_name(alias.asname or parts[0], external(bound, True), scope)
            elif alias.asname or len(parts) == 1:
                self.assign_name(alias.asname or parts[0], module, scope)
            else:
                self.assign_name(parts[0], self.own_module(parts[0], 0)
                                 or Module(parts[0], os.path.join(self.folder, parts[0], "__init__.py")), scope)

    def run_import_from(self, node, scope):
        name = node.module or ""
        module = self.own_module(name, node.level)
        for alias in node.names:
            if module is None and alias.name == "*":
                for known_name in SUBCLASSED:
                    if known_name.rpartition(".")[0] == normalized(name):
                        self.assign_name(known_name.rpartition(".")[2], External(known_name), scope)
            elif module is None:
                whole = name + "." + alias.name if name else alias.name
                own = self.own_module(whole, node.level)
                if own is None:
                    self.meet_import(whole)
                self.assign_name(alias.asname or alias.name, own or external(whole), scope)
            elif alias.name == "*":
                scope.names.update(module.scope.names)
            else:
                self.assign_name(alias.asname or alias.name, self.attribute(module, alias.name), scope)

    def meet_import(self, name):
        # mpi4py initialises MPI when its module MPI is imported.
        if name == "mpi4py.MPI" and self.imported_again():
            self.fact("mpi-at-import", self.module_statement(), what=name)

    def own_module(self, name, level):
        """A module beside the script, or None. Its statements are walked through when it is first met."""
        file = self.own.file_of(name, level, self.frames[-1].module.file)
        if file is None or file not in self.own.trees:
            return None
        if file not in self.modules:
            module = self.modules[file] = Module(name, file)
            self.run_module(module, self.own.trees[file])
        return self.modules[file]

    # ---- expressions

    def value(self, node, scope):
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise Stop()
        handler = EXPRESSIONS.get(type(node))
        return handler(self, node, scope) if handler is not None else self.value_other(node, scope)

    def value_other(self, node, scope):
        """What is not known by its kind: its parts may still call something."""
        for field in node._fields:
            part = getattr(node, field, None)
            if type(part) is list:
                for item in part:
                    if isinstance(item, expr):
                        self.value(item, scope)
            elif isinstance(part, expr):
                self.value(part, scope)
        return None

    def value_name(self, node, scope):
        name = node.id
        value = scope.find(name)
        if value is None:
            if name == "__name__":
                module = self.frames[-1].module
                return Told("__main__", "__mp_main__") if module.is_main else Told(module.name, module.name)
            if name in BUILTINS:
                return external("builtins." + name)
        return value

    def value_constant(self, node, scope):
        return Constant(constant_of(node))

    def value_attribute(self, node, scope):
        owner = self.value(node.value, scope)
        if type(owner) is Either:
            return either([self.attribute(one, node.attr) for one in owner.values])
        return self.attribute(owner, node.attr)

    def attribute(self, owner, name):
        if isinstance(owner, External):
            return external(owner.name + "." + name, method=owner.method)
        if isinstance(owner, Module):
            return self.name_of_module(owner, name)
        if isinstance(owner, Context):
            return external("multiprocessing." + name, method=owner.method)
        if isinstance(owner, Instance) and name in owner.attributes:
            return owner.attributes[name]
        if isinstance(owner, Made):
            return self.attribute_of_made(owner, name)
        if isinstance(owner, Function):
            return Part(owner, name)
        if isinstance(owner, Told) and name in TEXT_METHODS:
            return Part(owner, name)
        return self.member(owner, name)

    def name_of_module(self, module, name):
        value = module.scope.names.get(name)
        if value is None and os.path.basename(module.file) == "__init__.py":
            file = os.path.join(os.path.dirname(module.file), name)
            value = self.modules.get(file + ".py") or self.modules.get(os.path.join(file, "__init__.py"))
            if value is None and file + ".py" in self.own.trees:
                value = self.own_module(name, 1) if module is self.frames[-1].module else self.submodule(module, name)
        return value

    def submodule(self, module, name):
        self.frames.append(Frame(module, "<module>"))
        value = self.own_module(name, 1)
        self.frames.pop()
        return value

    def attribute_of_made(self, owner, name):
        if name in owner.defaults:
            return either(owner.defaults[name])
        if name == "name" and owner.name == "multiprocessing.current_process()":
            return Told("MainProcess", "SpawnProcess-1")
        return Part(owner, name)

    def member(self, owner, name):
        """A method, bound."""
        if isinstance(owner, Instance):
            return self.bound(self.find_member(owner.cls, name), owner, owner.cls)
        if isinstance(owner, Super):
            return self.bound(self.member_behind(owner, name), owner.instance, owner.instance.cls)
        if isinstance(owner, Class):
            return self.bound(self.find_member(owner, name), None, owner)
        return None

    def bound(self, found, instance, cls):
        if not isinstance(found, Function) or found.binding == "staticmethod":
            return found
        if found.binding == "classmethod":
            return Method(found, cls)
        if instance is None:
            return found
        return self.call(found, [instance], {}, found.node) if found.binding == "property" else Method(found, instance)

    def order_of(self, cls):
        """The class and those of the program that it is made of, as a member is looked for."""
        if cls.order is None:
            cls.order = [cls]
            for base in cls.bases:
                if isinstance(base, Class):
                    behind = self.order_of(base)
                    cls.order = [one for one in cls.order if one not in behind] + behind
        return cls.order

    def find_member(self, cls, name):
        for one in self.order_of(cls):
            if name in one.members:
                return one.members[name]
        return None

    def member_behind(self, owner, name):
        order = self.order_of(owner.instance.cls)
        start = order.index(owner.cls) + 1 if owner.cls in order else 0
        for one in order[start:]:
            if name in one.members:
                return one.members[name]
        return None

    def library_base(self, cls):
        """The library's class that a class of the program is made of, or None."""
        for one in self.order_of(cls):
            for base in one.bases:
                for other in alternatives(base):
                    if isinstance(other, External) and normalized(other.name) in SUBCLASSED:
                        return External(normalized(other.name), method=other.method)
        return None

    def value_lambda(self, node, scope):
        return self.new_function(node, scope, "<lambda>")

    def value_generator(self, node, scope):
        made = Unpicklable("generator")
        made.elements = self.value_comprehension(node, scope)
        return made

    def value_comprehension(self, node, scope):
        inner = Scope("function", scope)
        kept = self.guarded
        for part in node.generators:
            value = self.value(part.iter, inner)
            self.iterate(value, part.iter)
            self.assign(part.target, self.element_of(value), inner)
            for test in part.ifs:
                _, worker = self.decided(test, inner)
                self.guarded = self.guarded or worker is False
        if type(node) is _ast.DictComp:
            self.value(node.key, inner)
        item = self.value(node.value if type(node) is _ast.DictComp else node.elt, inner)
        self.guarded, self.gone = kept, False
        return Box([("[...]", item)], "dict" if type(node) is _ast.DictComp else "some")

    def value_sequence(self, node, scope):
        items = []
        is_exact = len(node.elts) <= MOST_ITEMS
        for i, part in enumerate(node.elts):
            if type(part) in CONSTANTS:
                if is_exact:
                    items.append(("[%d]" % i, Constant(constant_of(part))))
                continue
            value = self.value(part, scope)
            if type(part) is Starred:
                is_exact = False
            elif is_exact or (value is not None and len(items) < MOST_ITEMS):
                items.append(("[%d]" % i, value))
        return Box(items, "list" if is_exact else "some")

    def value_starred(self, node, scope):
        return self.value(node.value, scope)

    def value_dict(self, node, scope):
        box = Box([], "dict")
        for key, part in zip(node.keys, node.values):
            if type(part) in CONSTANTS and len(box.items) >= MOST_ITEMS:
                continue
            value = self.value(part, scope)
            if key is None:
                self.merge(box, value)
            else:
                box.set(label_of(self.value(key, scope)), value)
        return box

    def value_if(self, node, scope):
        own, worker = self.decided(node.test, scope)
        if self.gone:
            return None
        if own is not None and own == worker:
            return self.value(node.body if own else node.orelse, scope)
        kept = self.guarded
        values, going_on = [], []
        for part, guarded in ((node.body, kept or worker is False), (node.orelse, kept or worker is True)):
            self.guarded = guarded
            values.append(self.value(part, scope))
            if not self.gone:
                going_on.append(self.guarded)
            self.gone = False
        self.gone = not going_on
        self.guarded = all(going_on)
        if None not in (own, worker) and all(isinstance(one, (Constant, Told)) for one in values):
            return Told(known(values[not own], 0), known(values[not worker], 1))
        return either(values)

    def value_bool(self, node, scope):
        ends = type(node.op) is Or  # the truth that decides alone
        values, going_on = [], []
        truths = [not ends, not ends]
        for part in node.values:
            value = self.value(part, scope)
            if self.gone:
                break
            values.append(value)
            truth = (bool(constant_of(part)),) * 2 if type(part) in CONSTANTS else truth_of(value)
            truths = [ends if ends in pair else None if None in pair else not ends for pair in zip(truths, truth)]
            going_on.append(self.guarded or truth[1] is (not ends))
            if truth == (ends, ends):
                break
            if part is not node.values[-1]:
                self.guarded = self.guarded or truth[1] is ends
        if self.gone and going_on:
            self.gone = False
            self.guarded = all(going_on)
        elif going_on:
            self.guarded = all(going_on[:-1] + [self.guarded])
        return self.one_of(values, truths)

    def one_of(self, values, truths):
        """What `and` and `or` give."""
        others = [value for value in values if not isinstance(value, Told)]
        if len(others) == len(values):
            return either(values)
        found = either(others) if any(one is not None for one in others) else None
        if found is None:
            return Told(*[UNKNOWN if one is None else one for one in truths])
        return Either(list(alternatives(found)), tuple(truths))

    def value_not(self, node, scope):
        value = self.value(node.operand, scope)
        if type(node.op) is not _ast.Not:
            return None
        truth = truth_of(value)
        return None if truth == (None, None) else Told(*[UNKNOWN if one is None else not one for one in truth])

    def value_compare(self, node, scope):
        values = [self.value(node.left, scope)] + [self.value(part, scope) for part in node.comparators]
        truths = []
        for operator, left, right in zip(node.ops, values, values[1:]):
            truths.append(truth_of(told(COMPARISONS[type(operator).__name__], left, right)))
        if all(one == (None, None) for one in truths):
            return None
        return Told(*[False if False in one else UNKNOWN if None in one else True for one in zip(*truths)])

    def value_binary(self, node, scope):
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        kind = type(node.op).__name__
        if kind in ("Add", "BitOr") and isinstance(left, Box) and left.kind != "holder":
            joined = Box(list(left.items), "dict" if left.kind == "dict" else "some")
            self.merge(joined, right)
            return joined
        if kind == "Mult":
            for one in (left, right):
                if isinstance(one, Box) and one.kind != "holder":
                    return Box(one.items, "some")
        return None

    def value_text(self, node, scope):
        parts = [self.value(part, scope) for part in node.values]
        return told(lambda *texts: "".join(texts), *parts)

    def value_formatted(self, node, scope):
        value = self.value(node.value, scope)
        if node.format_spec is not None:
            self.value(node.format_spec, scope)
        return value if isinstance(value, (Told, Constant)) and node.format_spec is None else None

    def value_named(self, node, scope):
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def value_yield(self, node, scope):
        if node.value is not None:
            self.gives(self.value(node.value, scope), scope)

    def value_yield_from(self, node, scope):
        value = self.value(node.value, scope)
        self.iterate(value, node)
        self.gives(self.element_of(value), scope)

    def gives(self, value, scope):
        names = scope.names
        names["yield"] = either([names["yield"], value]) if "yield" in names else value

    def value_await(self, node, scope):
        return self.value(node.value, scope)

    def index_of(self, node, scope):
        index = node.slice
        return self.value(index.value if type(index).__name__ == "Index" else index, scope)

    def label(self, node, scope):
        return label_of(self.index_of(node, scope))

    def value_subscript(self, node, scope):
        owner = self.value(node.value, scope)
        index = self.index_of(node, scope)
        return either([self.item(one, index, node) for one in alternatives(owner)])

    def item(self, owner, index, node):
        if isinstance(owner, OnCuda):
            self.touches_cuda("tensor[...]", node)
            return owner
        if isinstance(owner, Told):
            return told(lambda text, at: text[at], owner, index)
        if isinstance(owner, Instance):
            return self.call(self.member(owner, "__getitem__"), [index], {}, node)
        if not isinstance(owner, Box):
            return None
        label = label_of(index)
        if label == "[...]" and type(node.slice).__name__ in ("Slice", "ExtSlice"):
            return Box(owner.items, "some")
        names = [name for name, _ in owner.items]
        if label in names:
            return owner.get(label)
        if owner.kind in ("some", "list") or label == "[...]" or "[...]" in names:
            return either([value for _, value in owner.items])
        return None

    # ---- calls

    def value_call(self, node, scope):
        function = node.func
        if type(function) is Attribute:
            owner = self.value(function.value, scope)
            arguments, keywords = self.arguments(node, scope)
            if self.gone:
                return None
            results = []
            for one in alternatives(owner):
                results.append(self.call_attribute(one, function.attr, arguments, keywords, node))
            return results[0] if len(results) == 1 else either(results)
        if type(function) is Name and function.id == "super" and scope.find("super") is None:
            return self.value_super(node, scope)
        called = self.value(function, scope)
        arguments, keywords = self.arguments(node, scope)
        return None if self.gone else self.call(called, arguments, keywords, node)

    def call_attribute(self, owner, name, arguments, keywords, node):
        # An object of the program has its own methods before those of the library that it is made of.
        called = self.attribute(owner, name)
        if called is None or isinstance(called, Part):
            return self.call_method(owner, name, arguments, keywords, node)
        return self.call(called, arguments, keywords, node)

    def arguments(self, node, scope):
        arguments = Given()
        for part in node.args:
            value = self.value(part, scope)
            if type(part) is not Starred:
                arguments.append(value)
            elif isinstance(value, Box) and value.kind == "list" and not value.is_open:
                arguments.extend(item for _, item in value.items)
            else:
                arguments.append(None)
                arguments.is_open = True
        keywords = Named()
        for part in node.keywords:
            value = self.value(part.value, scope)
            if part.arg is not None:
                keywords[part.arg] = value
            else:
                self.spread(value, keywords)
        return arguments, keywords

    def spread(self, value, keywords):
        """**value"""
        for one in alternatives(value):
            if not isinstance(one, Box) or one.kind != "dict":
                keywords.is_open = True
                continue
            keywords.is_open = keywords.is_open or one.is_open
            for label, item in one.items:
                if label[:2] == "['":
                    name = label[2:-2]
                    keywords[name] = either([keywords[name], item]) if name in keywords else item
                else:
                    keywords.is_open = True

    def value_super(self, node, scope):
        given, _ = self.arguments(node, scope)
        while scope is not None and scope.function is None:
            scope = scope.parent
        while scope is not None and scope.function.scope.owner is None:
            scope = scope.parent
            while scope is not None and scope.function is None:
                scope = scope.parent
        if scope is None:
            return None
        cls, instance = (given[0], given[1]) if len(given) > 1 else (scope.function.scope.owner, scope.receiver)
        return Super(instance, cls) if isinstance(instance, Instance) and isinstance(cls, Class) else None

    def call(self, called, arguments, keywords, node):
        if isinstance(called, Function):
            return self.call_function(called, arguments, keywords, node)
        if isinstance(called, Method):
            return self.call_function(called.function, with_first(called.owner, arguments), keywords, node)
        if isinstance(called, Class):
            return self.new_instance(called, arguments, keywords, node)
        if isinstance(called, Instance):
            for name in ("__call__", "forward"):
                found = self.member(called, name)
                if found is not None:
                    return self.call(found, arguments, keywords, node)
            return None
        if isinstance(called, Either):
            return either([self.call(one, arguments, keywords, node) for one in called.values])
        if isinstance(called, Partial):
            more = Given(list(called.arguments) + list(arguments))
            more.is_open = getattr(arguments, "is_open", False) or getattr(called.arguments, "is_open", False)
            named = Named(called.keywords, **keywords)
            named.is_open = getattr(keywords, "is_open", False) or getattr(called.keywords, "is_open", False)
            return self.call(called.function, more, named, node)
        if isinstance(called, External):
            return self.call_external(normalized(called.name), called.method, arguments, keywords, node)
        if isinstance(called, Made):
            self.run_commands(called, node)
            return Made(called.name + "()", arguments, keywords, called)
        if isinstance(called, Part):
            return self.call_method(called.owner, called.name, arguments, keywords, node)
        return None

    def run_commands(self, owner, node):
        """What a command line chooses from: any of them."""
        for one in list(owner.commands):
            self.call(one, UNKNOWN_CALLER, {}, node)
            self.gone = False

    def call_function(self, function, arguments, keywords, node):
        key = (function.node, self.guarded, self.in_worker is None, self.at_import)
        runs = self.runs[key] = self.runs.get(key, 0) + 1
        if runs > MOST_RUNS or len(self.frames) > MOST_DEPTH:
            return None
        self.ran.add(function.node)
        scope = Scope("function", function.scope)
        scope.function = function
        scope.receiver = arguments[0] if arguments else None
        self.bind(function.node.args, arguments, keywords, scope, function)
        if not function.is_lambda and self.generates(function):
            return Generator(lambda: self.inside(function, scope), scope)
        value = self.inside(function, scope)
        if function.commands:
            self.run_commands(function, node)
        return value

    def inside(self, function, scope):
        frame = Frame(function.module, function.name)
        frame.line = function.node.lineno
        kept = self.guarded
        self.frames.append(frame)
        try:
            if function.is_lambda:
                return self.value(function.node.body, scope)
            if not self.run_block(function.node.body, scope):
                frame.exits.append(self.guarded)
                if "return" not in scope.names:
                    scope.names["return"] = Constant(None)
        finally:
            self.frames.pop()
        # A coroutine or generator ends by itself, and its caller goes on.
        if type(function.node) is _ast.AsyncFunctionDef or self.generates(function):
            self.guarded, self.gone = kept, False
        else:
            self.guarded = all(frame.exits) if frame.exits else kept
            self.gone = not frame.exits
        return scope.names.get("return")

    def bind(self, parameters, arguments, keywords, scope, function):
        names = scope.names
        plain = [part.arg for part in list(getattr(parameters, "posonlyargs", ())) + parameters.args]
        first_default = len(plain) - len(parameters.defaults)
        is_open = getattr(arguments, "is_open", False) or getattr(keywords, "is_open", False)
        for i, name in enumerate(plain):
            default = parameters.defaults[i - first_default] if i >= first_default else None
            if i < len(arguments):
                names[name] = arguments[i]
            else:
                names[name] = self.parameter(name, default, keywords, is_open, function)
        for part, default in zip(parameters.kwonlyargs, parameters.kw_defaults):
            names[part.arg] = self.parameter(part.arg, default, keywords, is_open, function)
        caller_is_known = not isinstance(arguments, UnknownCaller)
        if parameters.vararg is not None:
            rest = Box([("[%d]" % i, value) for i, value in enumerate(arguments[len(plain):])], "list")
            rest.is_open = getattr(arguments, "is_open", False)
            names[parameters.vararg.arg] = rest if caller_is_known else None
        if parameters.kwarg is not None:
            rest = Box([(label_of(Constant(name)), value) for name, value in sorted(keywords.items())
                        if name not in names], "dict")
            rest.is_open = getattr(keywords, "is_open", False)
            names[parameters.kwarg.arg] = rest if caller_is_known else None

    def parameter(self, name, default, keywords, is_open, function):
        if name in keywords:
            return keywords[name]
        if default is None:
            return None
        value = None
        if type(default) in CONSTANTS or type(default) in (Name, Attribute, _ast.Lambda):
            value = self.value(default, function.scope)
        return Either([one for one in (value, HIDDEN) if one is not None]) if is_open else value

    def new_instance(self, cls, arguments, keywords, node):
        instance = Instance(cls)
        base = self.library_base(cls)
        if base is not None:
            instance.library = self.library_object(base)
        found = self.find_member(cls, "__init__")
        if isinstance(found, Function):
            self.call(Method(found, instance), arguments, keywords, node)
        elif instance.library is not None:
            self.fill_library(instance, arguments, keywords, node)
        else:
            # A dataclass or a NamedTuple keeps what it is given.
            fields = [name for one in reversed(self.order_of(cls)) for name in one.fields]
            instance.attributes.update(zip(fields, arguments))
            instance.attributes.update(keywords)
        return instance

    def library_object(self, base):
        if base.name in LOADERS:
            return Loader(base.name)
        if base.name in PROCESSES:
            return Process("multiprocessing.Process", base.method or PROCESSES[base.name])
        # Whoever makes a Pool of his own does it so that its workers may have children, too.
        return Workers("multiprocessing.Pool" if base.name in POOLS else base.name, base.method, False, False)

    def fill_library(self, instance, arguments, keywords, node):
        library = instance.library
        if isinstance(library, Loader):
            self.fill_loader(library, arguments, keywords, node)
        elif isinstance(library, Process):
            self.fill_process(library, arguments, keywords)
        elif library.name == "multiprocessing.Pool":
            library.started = True
            if self.starts(library.name, library.method, node):
                self.initialize(library, arguments, keywords, 1, node)

    def fill_loader(self, loader, arguments, keywords, node):
        def given(name, position):
            if name in keywords:
                return keywords[name]
            return arguments[position] if position is not None and position < len(arguments) else None

        workers = alternatives(given("num_workers", 5))
        is_open = getattr(keywords, "is_open", False) or getattr(arguments, "is_open", False)
        named = "num_workers" in keywords or len(arguments) > 5
        has_some = any(not is_none_of_them(one) for one in workers)
        loader.workers = named and has_some
        loader.is_hidden = not loader.workers and (HIDDEN in workers if named else is_open)
        context = given("multiprocessing_context", 11)
        loader.context = context.method if isinstance(context, Context) else text_of(context)
        loader.parts = {"dataset": given("dataset", 0), "collate_fn": given("collate_fn", 6),
                        "worker_init_fn": given("worker_init_fn", 10)}
        if self.in_worker is not None:
            return
        if loader.is_hidden:
            self.fact("may-start", self.here(node), what=loader.name, method=self.method_of(loader.context))
        if loader.workers:
            self.fact("starts", self.here(node), what=loader.name, method=self.method_of(loader.context))
            for path, value in sorted(loader.parts.items()):
                self.check_sent(value, path, loader.name, loader.context, node)

    def fill_process(self, process, arguments, keywords):
        def given(name, position):
            if name in keywords:
                return keywords[name]
            return arguments[position] if position < len(arguments) else None

        process.target = given("target", 1)
        daemonic = keywords.get("daemon")
        process.daemonic = isinstance(daemonic, Constant) and daemonic.value is True
        for name, position in (("args", 3), ("kwargs", 4)):
            value = given(name, position)
            if isinstance(value, Box):
                process.arguments += [(name + label, item) for label, item in value.items]

    def call_method(self, owner, name, arguments, keywords, node):
        """Methods of library objects; None for all others."""
        instance = owner if isinstance(owner, Instance) else None
        if isinstance(owner, Super):
            instance, owner = owner.instance, owner.instance.library
            if name == "__init__" and owner is not None:
                self.fill_library(instance, arguments, keywords, node)
        elif instance is not None and instance.library is not None:
            owner = instance.library
        if isinstance(owner, Process) and name == "start":
            self.start_process(owner, instance, node)
        elif isinstance(owner, Workers):
            return self.call_workers(owner, name, arguments, keywords, node)
        elif isinstance(owner, Loader) and name == "__iter__":
            self.iterate(owner, node)
        elif isinstance(owner, Unpicklable):
            self.call_unpicklable(owner, name, arguments, node)
        elif isinstance(owner, Box):
            return self.call_box(owner, name, arguments, keywords)
        elif isinstance(owner, Told):
            return told(lambda text, *given: getattr(text, name)(*given), owner, *arguments)
        elif isinstance(owner, OnCuda) and not owner.is_device:
            self.touches_cuda("tensor." + name, node)
            return None if name in ("cpu", "numpy", "item", "tolist") else owner
        elif name in PREPARES and not isinstance(owner, (Instance, Class, Module)):
            return arguments[0] if len(arguments) == 1 else Box([("", value) for value in arguments], "list")
        elif name == "from_pretrained":
            self.meet_heavy("from_pretrained", arguments, node)
        elif name == "run_in_executor" and len(arguments) > 1 and isinstance(arguments[0], Workers):
            self.send_task(arguments[0], "submit", arguments[1:], node)
        made = self.call_made(owner, name, arguments, keywords, node)
        return self.call_cuda_method(owner, name, arguments, keywords, node) or made

    def call_workers(self, workers, name, arguments, keywords, node):
        if name in POOL_CALLS:
            self.send_task(workers, name, arguments or [keywords.get("func")], node)
        elif name == "__enter__":
            return workers
        elif name == "start" and workers.name in MANAGERS and not workers.started:
            workers.started = True
            self.starts(workers.name, workers.method, node)
        return None

    def call_unpicklable(self, owner, name, arguments, node):
        kind = owner.type_name
        if kind == "open file" and name in ("read", "readlines"):
            self.meet_heavy("open.read", [Constant(getattr(owner, "path", None))], node)
        elif kind == "threading.Thread" and name == "start":
            self.call(owner.keywords.get("target"), UNKNOWN_CALLER, {}, node)
            self.gone = False
        elif kind in ("ThreadPool", "ThreadPoolExecutor") and name in POOL_CALLS and arguments:
            self.call(arguments[0], UNKNOWN_CALLER, {}, node)
            self.gone = False

    def call_box(self, box, name, arguments, keywords):
        if box.kind == "dict":
            return self.call_dict(box, name, arguments, keywords)
        if name in ("append", "add", "insert", "appendleft") and arguments:
            box.set("[%d]" % len(box.items), arguments[-1])
            box.kind = "some"
        elif name in ("extend", "update") and arguments:
            self.merge(box, self.items_of(arguments[0]))
        elif name in ("pop", "popleft"):
            return self.element_of(box)
        elif name == "copy":
            return Box(list(box.items), box.kind)
        return None

    def call_dict(self, box, name, arguments, keywords):
        label = label_of(arguments[0]) if arguments else "[...]"
        if name in ("get", "pop", "setdefault"):
            value = box.get(label)
            if value is None and len(arguments) > 1:
                value = arguments[1]
                if name == "setdefault":
                    box.set(label, value)
            if name == "pop":
                self.remove(box, label)
            return value
        if name == "update":
            for value in arguments:
                self.merge(box, value)
            for key, value in keywords.items():
                box.set("['%s']" % key, value)
            box.is_open = box.is_open or getattr(keywords, "is_open", False)
        elif name == "copy":
            copied = Box(list(box.items), "dict")
            copied.is_open = box.is_open
            return copied
        elif name == "values":
            return Box(list(box.items), "some")
        elif name == "items":
            return Box([("[...]", Box([("[0]", None), ("[1]", value)], "list")) for _, value in box.items], "some")
        return None

    def items_of(self, value):
        """What it gives out when it is iterated over, as a list."""
        if isinstance(value, Unpicklable) and value.type_name == "generator":
            return value.elements
        if isinstance(value, Made) and len(value.arguments) == 1:
            return self.items_of(value.arguments[0])
        return value

    def call_made(self, owner, name, arguments, keywords, node):
        """A method of what a library made, or a decorator that it is."""
        if not isinstance(owner, (Made, Function)):
            return None
        if name in REGISTER:
            owner.commands.extend(one for value in arguments for one in alternatives(value)
                                  if isinstance(one, (Function, Made)) and one is not owner)
        if isinstance(owner, Function):
            if owner.decorated and name in RUN_COMMANDS:
                self.call(owner, UNKNOWN_CALLER, {}, node)
            return Made(name, arguments, keywords, owner)
        if name == "set_defaults":
            for key, value in keywords.items():
                owner.defaults.setdefault(key, []).append(value)
        elif name in RUN_COMMANDS and owner.commands and owner.name.split(".")[0] in COMMANDS:
            self.run_commands(owner, node)
        elif name == "optimize" and owner.name == STUDY and arguments:
            self.call(arguments[0], UNKNOWN_CALLER, {}, node)
        elif name in TRAINER_HOOKS and owner.name in TRAINERS:
            self.run_trainer(name, list(arguments) + list(keywords.values()), node)
        elif name == "train" and owner.name in TRANSFORMERS_TRAINERS:
            self.run_transformers(owner, node)
        return Made(owner.name + "." + name + "()", arguments, keywords, owner)

    def run_transformers(self, trainer, node):
        """Its loader has what TrainingArguments say."""
        def given(name, position):
            named = trainer.keywords.get(name)
            return trainer.arguments[position] if named is None and position < len(trainer.arguments) else named

        options = given("args", 1)
        if not isinstance(options, Made) or options.name not in TRANSFORMERS_OPTIONS:
            return
        keywords = Named(dataset=given("train_dataset", 3), collate_fn=given("data_collator", 2))
        keywords.is_open = getattr(options.keywords, "is_open", False)
        if "dataloader_num_workers" in options.keywords:
            keywords["num_workers"] = options.keywords["dataloader_num_workers"]
        loader = Loader("torch.utils.data.DataLoader")
        self.fill_loader(loader, Given(), keywords, node)
        self.iterate(loader, node)

    def run_trainer(self, name, given, node):
        for value in given:
            for one in alternatives(value):
                if isinstance(one, Instance) and one.library is None:
                    for hook in TRAINER_HOOKS[name]:
                        found = self.member(one, hook)
                        if found is not None:
                            self.iterate_parts(self.call(found, UNKNOWN_CALLER, {}, node), node)
                        self.gone = False
                else:
                    self.iterate_parts(one, node)

    def iterate_parts(self, value, node):
        for one in alternatives(value):
            self.iterate_loaders([item for _, item in one.items] if isinstance(one, Box) else [one], node)

    def call_cuda_method(self, owner, name, arguments, keywords, node):
        if isinstance(owner, (External, Module, Class)):
            return None
        if name == "cuda" or (name == "to" and (any(is_cuda_name(value) for value in arguments)
                                                or is_cuda_name(keywords.get("device")))):
            self.touches_cuda("." + name + "()", node)
            return owner if isinstance(owner, Instance) else OnCuda()
        return None

    def call_external(self, name, method, arguments, keywords, node):
        if name in LOADERS:
            loader = Loader(name)
            self.fill_loader(loader, arguments, keywords, node)
            return loader
        if name in EXITS:
            self.gone = True
            return None
        if name in SPAWNERS:
            return self.call_spawn(name, arguments, keywords, node)
        if name.endswith(".__init__") and arguments and isinstance(arguments[0], Instance):
            if arguments[0].library is not None:
                self.fill_library(arguments[0], arguments[1:], keywords, node)
            return None
        if name == "multiprocessing.pool.Pool":
            return self.call_multiprocessing("Pool", method, arguments, keywords, node)
        if name in MANAGERS:
            return Workers(name, method, False, False)
        if name.startswith("multiprocessing.") and name.count(".") == 1:
            return self.call_multiprocessing(name.split(".")[1], method, arguments, keywords, node)
        if name in EXECUTORS:
            return self.new_executor(name, arguments, keywords, node)
        if name.startswith("builtins."):
            return self.call_builtin(name[len("builtins."):], arguments, keywords, node)
        if name.startswith("itertools."):
            for value in arguments:
                self.iterate(value, node)
            return Made(name + "()", arguments, keywords)
        return self.call_library(name, arguments, keywords, node)

    def call_library(self, name, arguments, keywords, node):
        if name in UNPICKLABLE:
            return self.new_unpicklable(name, arguments, keywords)
        if name in HEAVY or name in HEAVY_IF_LARGE or name.endswith(".from_pretrained"):
            self.meet_heavy(name, arguments, node)
            return Made(name + "()", arguments, keywords)
        if name in WRAPPERS or name in ("copy.copy", "copy.deepcopy"):
            return self.copied(arguments[0]) if arguments else None
        if name in ("functools.partial", "functools.partialmethod") and arguments:
            rest = Given(arguments[1:])
            rest.is_open = getattr(arguments, "is_open", False)
            return Partial(arguments[0], rest, keywords)
        if name in RUNNERS:
            position, keyword = RUNNERS[name]
            given = keywords.get(keyword, arguments[position] if len(arguments) > position else None)
            self.call(given, UNKNOWN_CALLER, {}, node)
        if name == "platform.system":
            return Told("Linux", "Linux")
        made = None
        if name.startswith("torch."):
            made = self.call_torch(name, arguments, keywords, node)
        return made or self.new_holder(name, arguments, keywords) or Made(name + "()", arguments, keywords)

    def copied(self, value):
        if not isinstance(value, Box):
            return value
        copied = Box(list(value.items), value.kind)
        copied.is_open = value.is_open
        return copied

    def call_builtin(self, name, arguments, keywords, node):
        if name in ITERATES:
            for value in arguments:
                self.iterate(value, node)
        if name == "getattr" and len(arguments) > 1 and text_of(arguments[1]) is not None:
            return either([self.attribute(one, arguments[1].value) for one in alternatives(arguments[0])])
        if "builtins." + name in UNPICKLABLE:
            return self.new_unpicklable("builtins." + name, arguments, keywords)
        if name in ("NotImplementedError", "vars"):
            return Made("builtins." + name + "()", arguments, keywords)
        if name == "dict":
            return self.new_dict(arguments, keywords)
        given = [self.items_of(value) for value in arguments]
        if not given:
            return Box([], "list") if name in ("list", "tuple", "set") else None
        if name in KEEP_ITEMS and isinstance(given[0], Box):
            return Box(list(given[0].items), given[0].kind if name in ("list", "tuple") else "some")
        if name == "next":
            return self.element_of(given[0])
        if name in ("zip", "enumerate", "map", "filter"):
            return self.new_items(name, given, node)
        # Of a loader `iter` is where its workers start: what it gives is not iterated over once more.
        return Made("builtins." + name + "()", arguments, keywords) if name == "reversed" else None

    def new_items(self, name, given, node):
        if name in ("map", "filter") and len(given) > 1:
            elements = [self.element_of(value) for value in given[1:]]
            result = self.call(given[0], Given(elements), Named(), node)
            self.gone = False
            box = Box([("[...]", elements[0] if name == "filter" else result)], "some")
            box.function = given[0]
            return box
        parts = [self.element_of(value) for value in given]
        if name == "enumerate":
            parts = [None] + parts[:1]
        return Box([("[...]", Box([("[%d]" % i, part) for i, part in enumerate(parts)], "list"))], "some")

    def new_dict(self, arguments, keywords):
        box = Box([], "dict")
        for value in arguments:
            self.merge(box, value if isinstance(value, Box) and value.kind == "dict" else None)
        for key, value in keywords.items():
            box.set("['%s']" % key, value)
        box.is_open = box.is_open or getattr(keywords, "is_open", False)
        return box

    def new_unpicklable(self, name, arguments, keywords):
        made = Unpicklable(UNPICKLABLE[name])
        made.path = text_of(arguments[0]) if arguments else None
        made.keywords = keywords
        return made

    def new_holder(self, name, arguments, keywords):
        short = name.rsplit(".", 1)[-1]
        labels = HOLDERS.get(name) or (HOLDERS.get(short) if name.startswith(TRANSFORMS) else None)
        if name.startswith("torchvision.datasets."):
            return Box([("." + key, keywords[key]) for key in DATASET_KEEPS if key in keywords])
        if labels is None:
            return None
        items = []
        for i, value in enumerate(arguments):
            label = labels[0] if i == 0 else (labels[1] or "").replace("*", str(i - 1))
            if label or i == 0:
                items.append((label, value))
        for key, value in sorted(keywords.items()):
            items.append(("." + key, value))
        return Box(items)

    def call_torch(self, name, arguments, keywords, node):
        if name == "torch.device":
            return OnCuda(True) if arguments and is_cuda_name(arguments[0]) else None
        if name.startswith("torch.cuda.") and name[len("torch.cuda."):] in CUDA_CALLS:
            self.touches_cuda(name, node)
            return None
        if is_cuda_name(keywords.get("device")) and name.count(".") == 1:
            self.touches_cuda(name, node)
            return OnCuda()
        if any(isinstance(value, OnCuda) and not value.is_device for value in arguments):
            self.touches_cuda(name, node)
        return None

    # ---- multiprocessing

    def call_multiprocessing(self, name, method, arguments, keywords, node):
        if name == "get_context":
            given = arguments[0] if arguments else keywords.get("method")
            chosen = text_of(given)
            if chosen is None and (not (arguments or keywords) or isinstance(given, Constant)):
                self.take_context("multiprocessing.get_context", node)
                return Context(method)
            return Context(chosen or UNKNOWN_METHOD)
        if name == "current_process":
            return Made("multiprocessing.current_process()")
        if name == "set_start_method":
            self.set_start_method(arguments, keywords, node)
            return None
        if name in CONTEXTS:
            return Context(CONTEXTS[name])
        if "multiprocessing." + name in PROCESSES:
            process = Process("multiprocessing.Process", method or PROCESSES["multiprocessing." + name])
            self.fill_process(process, arguments, keywords)
            return process
        if name in CONTEXT_USERS and self.in_worker is None:
            self.take_context("multiprocessing." + name, node, method)
        if name == "Pool":
            return self.new_pool(method, arguments, keywords, node)
        if name == "Manager":
            self.starts("multiprocessing.Manager", method, node)
        return Made("multiprocessing." + name + "()", arguments, keywords)

    def new_pool(self, method, arguments, keywords, node):
        pool = Workers("multiprocessing.Pool", method, True, True)
        if self.starts(pool.name, method, node):
            self.initialize(pool, arguments, keywords, 1, node)
        return pool

    def new_executor(self, name, arguments, keywords, node):
        context = keywords.get("mp_context", arguments[1] if len(arguments) > 1 else None)
        workers = Workers("concurrent.futures.ProcessPoolExecutor",
                          context.method if isinstance(context, Context) else None, False, False)
        self.initialize(workers, arguments, keywords, 2, node)
        return workers

    def initialize(self, workers, arguments, keywords, position, node):
        initializer = keywords.get("initializer", arguments[position] if len(arguments) > position else None)
        given = keywords.get("initargs", arguments[position + 1] if len(arguments) > position + 1 else None)
        items = given.items if isinstance(given, Box) else []
        self.check_sent(initializer, "initializer", workers.name, workers.method, node)
        for label, item in items:
            self.check_sent(item, "initargs" + label, workers.name, workers.method, node)
        self.run_in_worker([(initializer, [item for _, item in items])], workers.daemonic, workers.name,
                           workers.method, node)

    def call_spawn(self, name, arguments, keywords, node):
        """torch.multiprocessing.spawn(fn, args, nprocs, join, daemon, start_method)"""
        function = arguments[0] if arguments else keywords.get("fn")
        given = arguments[1] if len(arguments) > 1 else keywords.get("args")
        method = text_of(keywords.get("start_method")) or "spawn"
        name = "torch." + name
        if not self.starts(name, method, node):
            return None
        self.check_sent(function, "fn", name, method, node)
        items = given.items if isinstance(given, Box) else []
        for label, item in items:
            self.check_sent(item, "args" + label, name, method, node)
        daemon = keywords.get("daemon")
        self.run_in_worker([(function, [None] + [item for _, item in items])],
                           isinstance(daemon, Constant) and daemon.value is True, name, method, node)
        return None

    def set_start_method(self, arguments, keywords, node):
        force = keywords.get("force", arguments[1] if len(arguments) > 1 else None)
        forced = isinstance(force, Constant) and bool(force.value)
        method = text_of(arguments[0] if arguments else keywords.get("method"))
        place = self.here(node)
        if self.in_worker is None:
            if not forced and not self.handles_runtime_error:
                if self.context_line is not None and self.context_line[:2] != place[:2]:
                    first = self.context_line
                    self.fact("set-twice", place, what=first[2], method=method, other_file=first[0],
                              other_line=first[1])
                if self.imported_again():
                    self.fact("set-at-import", place, what="multiprocessing.set_start_method", method=method)
            self.context_line = (place[0], place[1], "multiprocessing.set_start_method")
            self.methods.append(method)
        self.chosen_method = method

    # ---- heavy work

    def meet_heavy(self, name, arguments, node):
        if not self.imported_again():
            return
        size = None
        path = text_of(arguments[0]) if arguments else None
        if path is None and arguments and isinstance(arguments[0], Unpicklable):
            path = getattr(arguments[0], "path", None)
        if path and self.folder is not None:
            try:
                size = os.stat(path).st_size
            except (OSError, ValueError):
                size = None
        if size is None and name in HEAVY_IF_LARGE:
            return
        if size is not None and size < SMALL_FILE:
            return
        self.fact("heavy-at-import", self.module_statement(), what=name, other_file=self.here(node)[0],
                  other_line=self.here(node)[1], bytes=size)

    # ---- the whole program

    def follow(self, module):
        """Whether it came to the end."""
        try:
            self.run_module(module, self.own.trees[module.file])
            self.run_rest()
        except (Stop, RecursionError):
            return False
        return True

    def run_rest(self):
        """Functions that nothing called: by a framework, perhaps. What they send can still be looked at."""
        self.at_import = False
        # Whoever calls them does it in a program that has chosen its method.
        method = self.methods[0] if len(set(self.methods)) == 1 else None
        instances = {}
        for function in list(self.later):
            if function.node in self.ran or function.is_nested or function.module.file not in self.own.relevant:
                continue
            self.guarded, self.gone = True, False
            self.cuda_line = self.context_line = None
            self.chosen_method = method
            self.frames = [Frame(function.module, function.name)]
            given = UNKNOWN_CALLER
            owner = function.scope.owner
            if owner is not None and function.binding != "staticmethod":
                if owner not in instances:
                    instances[owner] = self.new_instance(owner, UNKNOWN_CALLER, {}, owner.node)
                given = with_first(owner if function.binding == "classmethod" else instances[owner], UNKNOWN_CALLER)
                self.gone = False
            value = self.call_function(function, given, {}, function.node)
            if isinstance(value, Generator) and value.run:
                value.run()


class UnknownCaller(Given):
    """What somebody gives of whom nothing is known."""


UNKNOWN_CALLER = UnknownCaller()
SUBCLASSED = LOADERS | set(PROCESSES) | POOLS | EXECUTORS | MANAGERS


def with_first(first, arguments):
    given = (UnknownCaller if isinstance(arguments, UnknownCaller) else Given)([first] + list(arguments))
    given.is_open = getattr(arguments, "is_open", False)
    return given


def label_of(index):
    known_index = isinstance(index, Constant) and isinstance(index.value, (str, int))
    return "[%r]" % (index.value,) if known_index else "[...]"


def is_none_of_them(workers):
    return workers is HIDDEN or (isinstance(workers, (Constant, Told)) and not known(workers, 0))


def by_type(handlers):
    """Those whose names this Python's syntax trees have."""
    return {getattr(_ast, name): handler for name, handler in handlers.items() if hasattr(_ast, name)}


STATEMENTS = by_type({
    "Expr": Reader.run_expression, "FunctionDef": Reader.run_function, "AsyncFunctionDef": Reader.run_function,
    "ClassDef": Reader.run_class, "Return": Reader.run_return, "Assign": Reader.run_assign,
    "AnnAssign": Reader.run_annotated, "AugAssign": Reader.run_augmented, "If": Reader.run_if, "For": Reader.run_for,
    "AsyncFor": Reader.run_for, "While": Reader.run_while, "With": Reader.run_with, "AsyncWith": Reader.run_with,
    "Try": Reader.run_try, "TryStar": Reader.run_try, "Match": Reader.run_match, "Import": Reader.run_import,
    "ImportFrom": Reader.run_import_from, "Global": Reader.run_global, "Nonlocal": Reader.run_nonlocal,
    "Raise": Reader.run_raise, "Assert": Reader.run_assert, "Delete": Reader.run_delete, "Break": Reader.run_ending,
    "Continue": Reader.run_ending,
})
EXPRESSIONS = by_type({
    "Name": Reader.value_name, "Attribute": Reader.value_attribute, "Call": Reader.value_call,
    "Lambda": Reader.value_lambda, "GeneratorExp": Reader.value_generator, "ListComp": Reader.value_comprehension,
    "SetComp": Reader.value_comprehension, "DictComp": Reader.value_comprehension, "List": Reader.value_sequence,
    "Tuple": Reader.value_sequence, "Set": Reader.value_sequence, "Dict": Reader.value_dict, "IfExp": Reader.value_if,
    "BoolOp": Reader.value_bool, "NamedExpr": Reader.value_named, "Await": Reader.value_await,
    "Subscript": Reader.value_subscript, "Starred": Reader.value_starred, "Compare": Reader.value_compare,
    "UnaryOp": Reader.value_not, "BinOp": Reader.value_binary, "JoinedStr": Reader.value_text,
    "FormattedValue": Reader.value_formatted, "Yield": Reader.value_yield, "YieldFrom": Reader.value_yield_from,
})
EXPRESSIONS.update((kind, Reader.value_constant) for kind in CONSTANTS)
BUILTINS = set(dir(builtins))


def follow_program(own, file, main_is_imported, default_method):
    """Whether all of it was followed, and what was found."""
    module = Module("__main__", file)
    module.is_main = True
    reader = Reader(own, main_is_imported, default_method)
    reader.modules[file] = module
    return reader.follow(module), reader.facts
