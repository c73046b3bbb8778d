# SPDX-License-Identifier: MPL-2.0
# null_calls.awk -- C code that calls every function of the public headers with NULL: once for each
# of its pointers.  tests/system/null_test.c includes it.
#
# usage: awk -f null_calls.awk bus.h tap.h admin.h dead.h metrics.h report.h why.h access.h seal.h
#
# Each call is one line, with a number of its own:
#   CALL(7, CODE, "bus_publish.topic", bus_publish(given.bus, NULL, given.bytes, 8))
# CODE is what the function returns: CODE, TEXT, POINTER, NUMBER or NOTHING.  A parameter T **p of a
# call that takes *p over has a second line, "*p", where p points to NULL.  What stands in the other
# places is valid: a member of `given`, or something made on the spot.  A type that this program
# does not know stops the compiler.

function trim(text) {
    gsub(/^ +| +$/, "", text)
    return text
}

# An argument that is valid, by the type and the name of its parameter.
function valid(type, name,    noun) {
    if (type == "...")
        return ""
    if (name == "reterr")
        return "NULL"
    if (name ~ /^out_/)
        return "&(" substr(type, 1, length(type) - 1) "){0}"
    if (type ~ /\*\*$/) {
        noun = type
        gsub(/struct bus_| \*\*/, "", noun)
        return "&(" substr(type, 1, length(type) - 1) "){own_" noun "()}"
    }
    if (type ~ /^const struct bus_[a-z_]*options \*$/)
        return "NULL"
    if (type == "const struct bus_value *")
        return "&(struct bus_value){given.bytes, 8}"
    if (type == "struct bus_want *")
        return "&(struct bus_want){.topic = \"alice/n\"}"
    if (type ~ /^(const )?struct bus_?[a-z]* \*$/) {
        gsub(/const |struct |bus_| \*/, "", type)
        return "given." type
    }
    if (name == "path")
        return "given.path"
    if (type == "const char *")
        return name == "endpoint" ? "given.endpoint" \
            : name == "topic" || name == "pattern" ? "\"alice/n\"" : "\"n\""
    if (type == "char *" || type ~ /^(const )?void \*$/)
        return "given.bytes"
    if (type == "free_fn")
        return "free_nothing"
    if (type == "bus_attachment_fn *")
        return "take_nothing"
    if (name == "deadline_ms")
        return "BUS_FOREVER"
    if (name ~ /_ms$/)
        return "0"
    if (type ~ /^(size_t|u?int(32|64)_t|int|unsigned)$/)
        return name ~ /bytes$/ ? "8" : "1"
    if (type ~ /^enum /)
        return "(" type ")1"
    return "UNKNOWN_TYPE(" type ")"
}

function kind_of(type) {
    if (type == "enum bus_err")
        return "CODE"
    if (type == "void")
        return "NOTHING"
    if (type == "const char *")
        return "TEXT"
    return type ~ /\*$/ ? "POINTER" : "NUMBER"
}

function call(name, kind, at, label, argument,    i, text) {
    text = ""
    for (i = 1; i <= count; i++)
        if (types[i] != "...")
            text = text (i > 1 ? ", " : "") (i == at ? argument : valid(types[i], names[i]))
    printf "CALL(%d, %s, \"%s.%s\", %s(%s))\n", ++calls, kind, name, label, name, text
}

function declared(head, list,    kind, name, i, parts) {
    gsub(/BUS_API|BUS_MUST_USE/, "", head)
    head = trim(head)
    name = head
    sub(/.*[ *]/, "", name)
    kind = kind_of(trim(substr(head, 1, length(head) - length(name))))
    gsub(/void \(\*free_fn\)\(void \*value, void \*arg\)/, "free_fn free_fn", list)
    count = split(list, parts, ",")
    for (i = 1; i <= count; i++) {
        types[i] = names[i] = trim(parts[i])
        sub(/.*[ *]/, "", names[i])
        if (names[i] != "...")
            types[i] = trim(substr(types[i], 1, length(types[i]) - length(names[i])))
    }
    for (i = 1; i <= count; i++) {
        if (types[i] !~ /\*$/ && types[i] != "free_fn")
            continue
        call(name, kind, i, names[i], "NULL")
        if (types[i] ~ /\*\*$/ && names[i] !~ /^out_|^reterr$/)
            call(name, kind, i, "*" names[i],
                 "&(" substr(types[i], 1, length(types[i]) - 1) "){NULL}")
    }
}

/^BUS_API / {
    text = ""
    is_open = 1
}
is_open {
    line = $0
    gsub(/BUS_PRINTF\([0-9, ]*\)/, "", line)
    text = text " " line
    if (line ~ /;/) {
        sub(/;.*/, "", text)
        gsub(/ +/, " ", text)
        at = index(text, "(")
        list = substr(text, at + 1)
        sub(/\) *$/, "", list)
        declared(substr(text, 1, at - 1), list)
        is_open = 0
    }
}
