"""Reads a program's syntax tree and says what of it would break where workers import it again (the start
methods spawn and forkserver). Nothing of the program is run or imported.

usage: python -I -S -B -c THIS (script PATH | module NAME | code TEXT) VALUES FOLLOW
VALUES and FOLLOW are the texts of script_values.py and follow_script.py, which are made only for programs that need them.

It prints one JSON object: the record "script" of docs/recording-format.md. For CPython 3.6 to 3.14, without any
import that costs time: dlprobe waits for it.
"""

import _ast
import gc
import os
import sys

# A tree is no garbage: to look for some in it takes longer than to make it.
gc.disable()

MOST_BYTES = 4000000  # of the main module
MOST_OWN_FILES = 16  # modules of the program's own
MOST_OWN_BYTES = 200000  # all of them together
# Of a main module without any of these words nothing could be said.
WORDS = (b"multiprocessing", b"concurrent", b"torch", b"monai", b"transformers")


def node_types(*names):
    """Those that this Python has."""
    return tuple(getattr(_ast, name) for name in names if hasattr(_ast, name))


# They have no statements in them.
SIMPLE = node_types("Expr", "Assign", "AugAssign", "AnnAssign", "Return", "Raise", "Assert", "Delete", "Pass", "Break",
                    "Continue", "Global", "Nonlocal")


class OwnFiles:
    """The main module's file, and those of modules beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.names_in = {}  # of folders
        self.trees = {}  # by path
        self.yields = {}  # lines with that word
        self.relevant = set()  # those of which something can be said
        self.left_out = 0

    def file_of(self, name, level, importer):
        """The file of a module beside the script, or None."""
        base = self.folder
        if level:
            base = os.path.dirname(importer)
            for _ in range(level - 1):
                base = os.path.dirname(base)
        if base is None or (not name and not level):
            return None
        parts = name.split(".") if name else []
        for i, part in enumerate(parts):
            inside = self.names_of(base)
            if part not in inside and (i + 1 < len(parts) or part + ".py" not in inside):
                return None
            if i + 1 == len(parts) and "__init__.py" not in self.names_of(os.path.join(base, part)):
                file = os.path.join(base, part + ".py")
                return file if part + ".py" in inside and os.path.isfile(file) else None
            base = os.path.join(base, part)
        file = os.path.join(base, "__init__.py")
        return file if os.path.isfile(file) else None

    def names_of(self, folder):
        names = self.names_in.get(folder)
        if names is None:
            try:
                names = frozenset(os.listdir(folder or os.curdir))
            except OSError:
                names = frozenset()
            self.names_in[folder] = names
        return names

    def survey(self, file, tree, text):
        """Reads the modules of the program's own, nearest first, and finds those of which something can be said."""
        importers = {}
        waiting = [(file, tree, text)]
        rest = MOST_OWN_BYTES
        for file, tree, text in waiting:
            self.trees[file] = tree
            if b"yield" in text:
                self.yields[file] = [i for i, line in enumerate(text.splitlines(), 1) if b"yield" in line]
            if any(word in text for word in WORDS):
                self.relevant.add(file)
            for other in self.files_imported(file, tree):
                if other not in importers and other != waiting[0][0]:
                    read = self.read_own(other, rest) if len(waiting) <= MOST_OWN_FILES else None
                    if read is None:
                        self.left_out += 1
                    else:
                        rest -= len(read[2])
                        waiting.append(read)
                importers.setdefault(other, []).append(file)
        reached = list(self.relevant)
        for file in reached:
            for importer in importers.get(file, ()):
                if importer not in self.relevant:
                    self.relevant.add(importer)
                    reached.append(importer)

    def files_imported(self, file, tree):
        waiting = [tree]
        for one in waiting:
            for name in ("body", "orelse", "finalbody", "handlers", "cases"):
                for statement in getattr(one, name, ()):
                    kind = type(statement)
                    if kind is _ast.Import:
                        for alias in statement.names:
                            yield from self.files_on_way(alias.name)
                    elif kind is _ast.ImportFrom:
                        name = statement.module or ""
                        yield from self.files_of_names(name, statement, file)
                    elif kind not in SIMPLE:
                        waiting.append(statement)

    def files_on_way(self, name):
        """`import a.b` imports a, too."""
        parts = name.split(".")
        if parts[0] in self.names_of(self.folder) or parts[0] + ".py" in self.names_of(self.folder):
            for i in range(len(parts)):
                found = self.file_of(".".join(parts[:i + 1]), 0, "")
                if found is not None:
                    yield found

    def files_of_names(self, name, statement, file):
        found = self.file_of(name, statement.level, file)
        if found is not None:
            yield found
            if os.path.basename(found) != "__init__.py":
                return
        for alias in statement.names:
            found = self.file_of(name + "." + alias.name if name else alias.name, statement.level, file)
            if found is not None:
                yield found

    def read_own(self, file, most):
        try:
            if os.path.getsize(file) > most:
                return None
            tree, text = parse_file(file)
        except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        return file, tree, text


# ---- the program's text

def parse(text, file):
    # PyCF_ONLY_AST: nothing is made that could run. Bytes are decoded by their coding line.
    return compile(text, file, "exec", _ast.PyCF_ONLY_AST, True)


def parse_file(file):
    with open(file, "rb") as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError("larger than %d bytes" % MOST_BYTES)
    return parse(text, file), text


def find_module(name):
    """The file of `-m name`, and whether a worker imports it: not the __main__ of a package."""
    for folder in [os.getcwd()] + os.environ.get("PYTHONPATH", "").split(os.pathsep):
        path = os.path.join(folder or os.getcwd(), *name.split("."))
        if os.path.isfile(path + ".py"):
            return path + ".py", folder, True
        if os.path.isfile(os.path.join(path, "__main__.py")):
            return os.path.join(path, "__main__.py"), folder, False
    return None, None, True


def json_text(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        parts = []
        for character in value:
            code = ord(character)
            if 32 <= code < 127 and character not in '"\\':
                parts.append(character)
            elif code < 65536:
                # A lone surrogate stands for a byte of a file's name that is not UTF-8.
                parts.append("\\u%04x" % (65533 if 0xD800 <= code < 0xE000 else code))
            else:
                code -= 65536
                parts.append("\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 1023)))
        return '"' + "".join(parts) + '"'
    if isinstance(value, dict):
        return "{" + ",".join(json_text(key) + ":" + json_text(part) for key, part in value.items()) + "}"
    return "[" + ",".join(json_text(part) for part in value) + "]"


def locate(kind, name):
    """(file, folder of its own modules, whether a worker imports it, what is wrong)"""
    if kind == "module":
        file, folder, imported = find_module(name)
        return file or name, folder, imported, None if file else "not a module of the working folder or of PYTHONPATH, so not read"
    if os.path.isdir(name):
        file = os.path.join(name, "__main__.py")
        wrong = None if os.path.isfile(file) else "a folder without a __main__.py"
        return file, name, False, wrong
    return name, os.path.dirname(name), True, None


def read_program(kind, name, *texts):
    result = {"program": kind, "python": "%d.%d.%d" % sys.version_info[:3],
              "default_method": "forkserver" if sys.version_info >= (3, 14) else "fork"}
    if kind == "stdin":
        fact = {"kind": "main-unreadable", "file": "<stdin>", "what": "standard input"}
        result.update(file="<stdin>", main_imported=False, complete=False, facts=[fact])
        return result
    if kind == "code":
        file, folder, imported, wrong = "<string>", "", False, None
    else:
        file, folder, imported, wrong = locate(kind, name)
    result.update(file=file, main_imported=imported)
    if wrong:
        return {"file": file, "error": wrong}
    try:
        if kind == "code":
            text = name.encode("utf-8", "surrogateescape")
            tree = parse(text, file)
        else:
            tree, text = parse_file(file)
    except SyntaxError as error:
        result.update(error=str(error.msg), error_line=error.lineno or 0, is_syntax_error=True)
        return result
    except OSError as error:
        return {"file": file, "error": error.strerror or str(error)}
    except (ValueError, MemoryError, RecursionError) as error:
        result.update(error=str(error) or type(error).__name__)
        return result
    own = OwnFiles(folder)
    own.survey(file, tree, text)
    complete, facts = True, []
    if file in own.relevant:
        # Of all other programs nothing can be said: they do not pay for what follows.
        rest = {"__name__": "follow_script"}
        for text in texts:
            exec(compile(text, "<follow_script>", "exec"), rest)
        complete, facts = rest["follow_program"](own, file, imported, result["default_method"])
    result.update(complete=complete, own_files=len(own.trees) - 1, files_left_out=own.left_out, facts=facts)
    return result


if __name__ == "__main__":
    sys.setrecursionlimit(4000)
    if sys.version_info < (3, 6):
        print(json_text({"python": "%d.%d.%d" % sys.version_info[:3]}))
    else:
        print(json_text(read_program(*sys.argv[1:])))
    # Without a tidy end: to take a large tree apart takes as long as to walk through it.
    sys.stdout.flush()
    os._exit(0)
