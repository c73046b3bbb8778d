# SPDX-License-Identifier: MPL-2.0
# mutate.awk -- what mutations.table says, for run.sh.
#
#   awk -v mode=list -f mutate.awk TABLE             NAME FILE TEST PROMISE SHORT PROGRAM, a line each; - : none
#   awk -v mode=apply -v name=NAME -f mutate.awk TABLE FILE    the file with that mutation; 1: it does not fit

function keep(list, text)
{
    return list == "" ? text : list "\n" text
}

function finish()
{
    if (mutation == "")
        return
    if (file == "" || test == "" || promise == "" || breaks == "" || old == "" || plus == 0) {
        printf "%s: something is missing in its record\n", mutation > "/dev/stderr"
        failed = 1
    }
    if (mode == "list")
        print mutation, file, test, promise, short, program
    if (mutation == name) {
        wanted = old
        instead = new
    }
    mutation = ""
}

FNR == 1 && NR > 1 {
    finish()
    in_file = 1
}

in_file {
    lines[++count] = $0
    next
}

/^#/ || /^$/ {
    next
}

$1 == "mutation" {
    finish()
    mutation = $2
    file = test = promise = breaks = old = new = ""
    plus = 0
    short = program = "-"
    next
}

/^-/ {
    old = keep(old, substr($0, 2))
    next
}

/^\+/ {
    new = plus++ == 0 ? substr($0, 2) : new "\n" substr($0, 2)
    next
}

$1 == "promise" { promise = $2; next }
$1 == "short" { short = "short"; next }
$1 == "file" { file = $2; next }
$1 == "test" { test = $2; next }
$1 == "program" { program = $2; next }
$1 == "breaks" { breaks = $0; next }

{
    printf "mutations.table:%d: what is this?\n", FNR > "/dev/stderr"
    failed = 1
}

# Where the wanted lines stand from line at on.
function fits(at,    i)
{
    for (i = 1; i <= wanted_count; i++)
        if (lines[at + i - 1] != wanted_lines[i])
            return 0
    return 1
}

END {
    finish()
    if (mode == "apply") {
        wanted_count = split(wanted, wanted_lines, "\n")
        for (at = 1; wanted != "" && at + wanted_count - 1 <= count; at++)
            if (fits(at)) {
                found++
                place = at
            }
        if (found != 1) {
            printf "%s: its lines stand %d times in the file\n", name, found > "/dev/stderr"
            exit 1
        }
        for (at = 1; at <= count; at++) {
            if (at == place) {
                print instead
                at += wanted_count - 1
            } else {
                print lines[at]
            }
        }
    }
    exit failed
}
