# SPDX-License-Identifier: MPL-2.0
# layers.awk -- reads the facts of layers.sh twice: who defines what first, then who uses it.

BEGIN {
    rows = 0
    while ((getline line < table) > 0) {
        if (line ~ /^#/ || line ~ /^ *$/)
            continue
        split(line, field, " ")
        layer[field[1]] = field[2] + 0
        circle[field[1]] = field[3]
        house[house_of(field[1])] = 1
        rows++
    }
    if (rows == 0) {
        print table ": empty or missing"
        violations++
    }
}

# The folder inside which layers are compared: libbus/session, broker/core, ...
function house_of(path,    part)
{
    split(path, part, "/")
    return part[1] "/" part[2]
}

# The row of a path: the header itself, the file without its ending, or a folder that it lies in.
function row_of(path)
{
    if (path in layer)
        return path
    sub(/\.[ch]$/, "", path)
    while (path ~ /\//) {
        if (path in layer)
            return path
        sub(/\/[^\/]*$/, "", path)
    }
    return ""
}

function report(text)
{
    if (!(text in reported))
        print text
    reported[text] = 1
    violations++
}

# user uses owner; how: in words.
function use(user, owner, how,    from, to)
{
    if (house_of(user) != house_of(owner) || !(house_of(user) in house))
        return
    from = row_of(user)
    to = row_of(owner)
    if (from == "")
        report(user ": has no row in layers.table")
    else if (to == "")
        report(owner ": has no row in layers.table")
    else if (from != to && layer[to] >= layer[from] && !(circle[from] != "" && circle[from] == circle[to]))
        report(user " (layer " layer[from] ") " how " " owner " (layer " layer[to] ")")
}

NR == FNR {
    if ($1 == "defines") {
        definer[$3] = $2
        use($2, $2, "is")
    }
    next
}

$1 == "needs" && ($3 in definer) {
    use($2, definer[$3], "calls " $3 "() of")
}

# A file and its own header are one.
$1 == "include" {
    stem = $2
    own = $3
    sub(/\.[ch]$/, "", stem)
    sub(/\.h$/, "", own)
    if (stem != own)
        use($2, $3, "includes")
}

END {
    exit violations > 0
}
