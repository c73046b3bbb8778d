# SPDX-License-Identifier: MPL-2.0
"""What may be changed in a C source, by its text: see random.sh.

The sources are laid out by clang-format: a function's body begins with "{" and ends with "}" in the
first column.  Comments and strings are blanked first, so that nothing in them is changed.  A
mutant has as many lines as its source."""
import collections
import re

Function = collections.namedtuple("Function", "name returns begin end")  # offsets of its body
Change = collections.namedtuple("Change", "kind begin end text")

BLANKED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
HEAD = re.compile(r"^([A-Za-z_][^;{}#]*?)\b(\w+)\(([^;{}]*)\)\n\{$", re.M)
KEYWORDS = ("if", "else", "for", "while", "do", "switch", "case", "default", "return", "goto", "break",
            "continue", "must", "assert", "LIST_EACH", "struct", "enum", "union", "static", "const",
            "unsigned", "int", "bool", "char", "void", "size_t", "typedef")


def blank(source):
    """The source with comments and the inside of strings as spaces; same offsets."""
    return BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group(0)), source)


def functions(text):
    found = []
    for head in HEAD.finditer(text):
        end = text.find("\n}", head.end())
        if end > 0:
            found.append(Function(head.group(2), head.group(1).split("static ")[-1].strip(),
                                  head.end(), end))
    return found


def closing(text, at):
    """The offset of the parenthesis that closes the one at this offset."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def comparisons(text, function):
    others = {"==": ["!="], "!=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="],
              ">=": [">", "<"]}
    for found in re.finditer(r" (==|!=|<=|>=|<|>) ", text[function.begin:function.end]):
        at = function.begin + found.start(1)
        for other in others[found.group(1)]:
            yield Change("comparison", at, at + len(found.group(1)), other)


def constants(text, function):
    body = text[function.begin:function.end]
    for found in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", body):
        at = function.begin + found.start()
        for value in {int(found.group(1)) + 1, max(int(found.group(1)) - 1, 0)}:
            if str(value) != found.group(1):
                yield Change("constant", at, at + len(found.group(1)), str(value))
    for found in re.finditer(r"\b(true|false)\b", body):
        at = function.begin + found.start()
        yield Change("constant", at, at + len(found.group(1)),
                     "false" if found.group(1) == "true" else "true")
    for found in re.finditer(r"\b[A-Z][A-Z0-9_]*_(MAX|BYTES|SLOTS|ITEMS|COUNT)\b(?!\()", body):
        at = function.begin + found.start()
        for delta in ("+", "-"):
            yield Change("constant", at, at + len(found.group(0)), f"({found.group(0)} {delta} 1)")


def operators(text, function):
    others = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "&&": "||", "||": "&&", "&": "|", "|": "&"}
    for found in re.finditer(r" (\+=|-=|\+|-|&&|\|\||&|\|)\s", text[function.begin:function.end]):
        at = function.begin + found.start(1)
        yield Change("operator", at, at + len(found.group(1)), others[found.group(1)])


def conditions(text, function):
    for found in re.finditer(r"\b(if|while) \(", text[function.begin:function.end]):
        begin = function.begin + found.end() - 1
        end = closing(text, begin)
        if end > 0:
            yield Change("condition", begin, end + 1, "(!" + text[begin:end + 1] + ")")


def statements(text, function):
    """Assignments and calls, over one line or more; declarations and must() are left alone."""
    for found in re.finditer(r"(?<=[;{}):\n])(\n\s+)([\w*(][^;{}]*;)(?=\n)",
                             text[function.begin:function.end]):
        statement = found.group(2)
        begin = function.begin + found.start(2)
        word = re.match(r"\w*", statement).group(0)
        is_declared = re.match(r"[\w ]+[ *]+\w+(\[[^]]*\])*( = |;)", statement) and \
            not re.match(r"[\w.\->*\[\]]+ [-+|&]?= ", statement)
        if word in KEYWORDS or is_declared:
            continue
        yield Change("dropped statement", begin, begin + len(statement),
                     ";" + "\n" * statement.count("\n"))


def branches(text, function):
    body = text[function.begin:function.end]
    for found in re.finditer(r" \? ([^?:;{}()]+) : ([^?:;{}(),]+)(?=[;,)])", body):
        begin, end = function.begin + found.start(1), function.begin + found.end(2)
        if found.group(1) != found.group(2):
            yield Change("swapped branches", begin, end, f"{found.group(2)} : {found.group(1)}")
    for found in re.finditer(r"\belse if \(", body):
        begin = function.begin + found.end() - 1
        end = closing(text, begin)
        if end > 0:
            yield Change("swapped branches", begin, end + 1, "(1)")
    for found in re.finditer(r"\n( *)(if \([^\n]*\))\n( +[^\n;{}]+;)\n\1(else)\n( +[^\n;{}]+;)(?=\n)",
                             body):
        begin, end = function.begin + found.start(3), function.begin + found.end(5)
        yield Change("swapped branches", begin, end,
                     f"{found.group(5)}\n{found.group(1)}else\n{found.group(3)}")


def returns(text, function):
    for found in re.finditer(r"\breturn ([^;{}]+);", text[function.begin:function.end]):
        begin, end = function.begin + found.start(1), function.begin + found.end(1)
        value = text[begin:end]
        if value in ("true", "false") or not value.strip():
            continue
        if function.returns == "bool":
            other = f"!({value})"
        elif function.returns.endswith("*"):
            other = "NULL" if value != "NULL" else None
        elif re.fullmatch(r"(u?int\d+_t|unsigned|int|size_t)", function.returns):
            other = f"({value}) + 1"
        elif function.returns.startswith("enum "):
            other = "0"
        else:
            other = None
        if other is not None:
            yield Change("return value", begin, end, other)


KINDS = (comparisons, constants, operators, conditions, statements, branches, returns)


def is_claim(text, at):
    """In a must() or an assertion of the compiler: what checks the code is no part of it."""
    begin = max(text.rfind(mark, 0, at) for mark in (";", "{", "}"))
    return re.search(r"\b(must|static_assert)\(", text[begin:at]) is not None


def changes(source, text, function, kind):
    """All changes of a kind; what was blanked (strings) comes back from the source."""
    for change in kind(text, function):
        if is_claim(text, change.begin):
            continue
        old = source[change.begin:change.end]
        blanked = text[change.begin:change.end]
        if blanked != old:
            if blanked not in change.text:
                continue
            change = change._replace(text=change.text.replace(blanked, old))
        yield change
