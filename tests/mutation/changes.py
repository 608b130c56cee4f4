"""Where a source file can be changed so that a test should notice: found with libclang, made as text.

Three changes: the value of a comparison is flipped; that of another condition (of if, while, && or ||, ?:, or a bool that is
returned) is flipped; a statement that only calls something is left out. All are in the text at once, each behind its number, so
that one build serves for all of them.
"""

from dataclasses import dataclass

from clang.cindex import CursorKind, Index, TranslationUnit, TypeKind

COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
OPERATORS = {f"operator{each}" for each in COMPARISONS}
LOGICAL = {"&&", "||"}
WRAPPERS = (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR)


@dataclass
class Change:
    kind: str       # "comparison", "condition" or "call"
    file: str
    line: int
    text: str       # what is changed
    start: int      # offsets in bytes
    end: int


def parse(path, arguments):
    unit = Index.create().parse(path, args=arguments, options=TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    errors = [str(each) for each in unit.diagnostics if each.severity >= 3]
    if errors:
        raise RuntimeError(f"clang cannot read {path}: {errors[0]}")
    return unit


class Finder:
    """The changes of one translation unit: those of its own file, not of headers, macros or what is computed by the compiler."""

    def __init__(self, unit, name, source):
        self.name = name
        self.source = source
        self.path = unit.spelling
        self.changes = {}
        self.macros = [(each.extent.start.offset, each.extent.end.offset) for each in unit.cursor.get_children()
                       if each.kind == CursorKind.MACRO_INSTANTIATION and self.is_here(each)]
        for each in unit.cursor.get_children():
            if self.is_here(each):
                self.walk(each)

    def is_here(self, cursor):
        return cursor.location.file is not None and cursor.location.file.name == self.path

    def text_of(self, cursor):
        return self.source[cursor.extent.start.offset:cursor.extent.end.offset].decode()

    def add(self, kind, cursor):
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        if start >= end or any(begin < end and start < stop for begin, stop in self.macros):
            return
        text = " ".join(self.text_of(cursor).split())
        if text.startswith("!=") or text.endswith(tuple(COMPARISONS)):
            return  # half of an operator that the compiler made of another one: of == or of <=>
        self.changes.setdefault((start, end), Change(kind, self.name, cursor.extent.start.line, text, start, end))

    def operator_of(self, cursor):
        """The text between the operands."""
        children = list(cursor.get_children())
        if len(children) < 2:
            return ""
        return self.source[children[0].extent.end.offset:children[-1].extent.start.offset].decode().strip()

    def is_comparison(self, cursor):
        if cursor.kind == CursorKind.BINARY_OPERATOR:
            return self.operator_of(cursor) in COMPARISONS
        return cursor.kind == CursorKind.CALL_EXPR and cursor.spelling in OPERATORS

    def is_logical(self, cursor):
        return cursor.kind == CursorKind.BINARY_OPERATOR and self.operator_of(cursor) in LOGICAL

    def inner(self, cursor):
        """Without the conversions around it, which have no text."""
        while cursor.kind in WRAPPERS:
            children = list(cursor.get_children())
            if len(children) != 1:
                return cursor
            cursor = children[0]
        return cursor

    def condition(self, cursor):
        """What is asked: all of it, unless its parts are changed by themselves."""
        inner = self.inner(cursor)
        if not self.is_logical(inner) and not self.is_comparison(inner) and inner.kind.is_expression() \
                and inner.kind not in (CursorKind.CXX_BOOL_LITERAL_EXPR, CursorKind.LAMBDA_EXPR):
            self.add("condition", inner)

    def walk(self, cursor):
        if cursor.kind in (CursorKind.STATIC_ASSERT, CursorKind.CONCEPT_DECL):
            return
        children = list(cursor.get_children())
        if self.is_comparison(cursor) and cursor.type.get_canonical().kind == TypeKind.BOOL:
            self.add("comparison", cursor)
        if self.is_logical(cursor):
            for each in children:
                self.condition(each)
        if cursor.kind in (CursorKind.IF_STMT, CursorKind.WHILE_STMT, CursorKind.CONDITIONAL_OPERATOR) and children:
            if not self.text_of(cursor).startswith("if constexpr"):
                self.condition(children[0])
        if cursor.kind == CursorKind.RETURN_STMT and children and children[0].type.get_canonical().kind == TypeKind.BOOL:
            self.condition(children[0])
        if cursor.kind == CursorKind.COMPOUND_STMT:
            for each in children:
                if self.inner(each).kind == CursorKind.CALL_EXPR:
                    self.add("call", each)
        for each in children:
            self.walk(each)


def find(path, name, arguments):
    """All changes of the file `path`, in the order of its text."""
    with open(path, "rb") as file:
        source = file.read()
    return sorted(Finder(parse(path, arguments), name, source).changes.values(), key=lambda each: (each.start, -each.end))


def apply(source, changes, first_id):
    """The text with every change behind its number: that of the first is `first_id`."""
    inserted = []  # where, what comes first there, text
    for id_, change in enumerate(changes, first_id):
        if change.kind == "call":
            inserted.append((change.start, 1, -change.end, f"if (!::mutant::is_on({id_})) "))
            continue
        inserted.append((change.start, 1, -change.end, f"::mutant::flip({id_}, static_cast<bool>("))
        inserted.append((change.end, 0, -change.start, "))"))
    text, at = [b'#include "tests/mutation/mutant.h"\n#line 1\n'], 0
    for where, _, _, what in sorted(inserted):
        text += [source[at:where], what.encode()]
        at = where
    return b"".join([*text, source[at:]])
