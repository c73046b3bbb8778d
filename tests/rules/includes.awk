# SPDX-License-Identifier: MPL-2.0
# includes.awk -- direction of includes, pure folders, one-door headers, by the three tables.

function load(table, from, to,    line, field, count)
{
    count = 0
    while ((getline line < table) > 0) {
        if (line ~ /^#/ || line ~ /^ *$/)
            continue
        split(line, field, " ")
        count++
        from[count] = field[1]
        to[count] = field[2]
    }
    close(table)
    if (count == 0) {
        print table ": empty or missing"
        violations++
    }
    return count
}

BEGIN {
    edges = load(rules "/includes.table", edge_from, edge_to)
    doors = load(rules "/doors.table", door_header, door_from)
    pures = load(rules "/pure.table", pure_from, pure_to)
}

function check_quoted(target,    i, own, allowed)
{
    if (target !~ /\// || target ~ /\.\./) {
        report("include by path from the root: \"" target "\"")
        return
    }
    own = FILENAME
    sub(/\.[ch]$/, ".h", own)
    for (i = 1; i <= edges; i++) {
        if (FILENAME !~ edge_from[i])
            continue
        allowed = edge_to[i]
        if (allowed ~ /OWN/ && target == own)
            return
        if (allowed == "-" || target !~ allowed)
            report("may not include \"" target "\" (includes.table: " edge_from[i] ")")
        return
    }
    report("lies in no folder of includes.table")
}

function check_door(header,    i, is_known)
{
    is_known = 0
    for (i = 1; i <= doors; i++) {
        if (door_header[i] ~ /^!/) {
            if (header ~ substr(door_header[i], 2) && FILENAME ~ door_from[i])
                report("may not include <" header "> (doors.table)")
        } else if (header ~ door_header[i]) {
            if (FILENAME ~ door_from[i])
                return
            is_known = 1
        }
    }
    if (is_known)
        report("is no door for <" header "> (doors.table)")
}

function check_pure(header,    i)
{
    for (i = 1; i <= pures; i++) {
        if (FILENAME !~ pure_from[i])
            continue
        if (header !~ pure_to[i])
            report("is pure and may not include <" header "> (pure.table)")
        return
    }
}

{
    if (FNR == 1)
        in_comment = 0
    was_comment = in_comment
    code($0)
    if (was_comment || $0 !~ /^[ \t]*#[ \t]*include/)
        next
    target = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*/, "", target)
    mark = substr(target, 1, 1)
    target = substr(target, 2)
    if (mark == "\"") {
        sub(/".*/, "", target)
        check_quoted(target)
    } else if (mark == "<") {
        sub(/>.*/, "", target)
        check_door(target)
        check_pure(target)
    }
}

END {
    exit violations > 0
}
