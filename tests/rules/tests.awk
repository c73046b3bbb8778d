# SPDX-License-Identifier: MPL-2.0
# tests.awk -- a Criterion program without tests passes, so each must have some; the suite of a unit
# test is named as its file; and every test can fail: it calls something that states,
# itself or through helpers, or names the signal or exit code it ends with.  What a suite names as its
# .fini states nothing with cr_: Criterion counts only the death of the process there, as by must().

function end_file()
{
    if (last_path ~ /^tests\/(unit|corpus|sim|system|bench)\/.*_test\.c$/ && tests == 0) {
        printf "%s:1: has no test\n", last_path
        violations++
    }
}

# Keeps which functions a body calls: calls[name] is " a b c ".
function keep(name, body,    call)
{
    while (match(body, /[A-Za-z_][A-Za-z0-9_]* *\(/)) {
        call = substr(body, RSTART, RLENGTH)
        sub(/ *\($/, "", call)
        body = substr(body, RSTART + RLENGTH)
        calls[name] = calls[name] " " call
    }
}

FNR == 1 {
    if (NR > 1)
        end_file()
    tests = 0
    in_body = 0
    in_macro = 0
    head = ""
    delete asserts
    last_path = FILENAME
    suite = last_path
    sub(/.*\//, "", suite)
    sub(/_test\.c$/, "", suite)
}

FILENAME !~ /^tests\// {
    next
}

{
    text = code($0)
}

# ---- macros: a name and all its lines ---------------------------------------------------------------
!in_body && (in_macro || text ~ /^# *define [A-Za-z_][A-Za-z0-9_]*\(/) {
    if (!in_macro) {
        macro = text
        sub(/^# *define /, "", macro)
        body = macro
        sub(/\(.*/, "", macro)
        sub(/^[^)]*\)/, "", body)
    } else {
        body = body text
    }
    in_macro = text ~ /\\$/
    if (!in_macro)
        keep(macro, body)
    next
}

# ---- functions and tests ----------------------------------------------------------------------------
text == "{" && !in_body {
    in_body = 1
    body = ""
    next
}

text == "}" && in_body {
    in_body = 0
    if (body ~ /[^A-Za-z0-9_]cr_/)
        asserts[name] = 1
    if (name in asserts && FILENAME ~ /^tests\/lib\//)
        lib_asserts[name] = 1
    keep(name, body)
    head = ""
    next
}

in_body {
    body = body " " text
    next
}

!in_body && text ~ /\.fini *= */ {
    fini = text
    sub(/.*\.fini *= */, "", fini)
    sub(/[^A-Za-z0-9_].*/, "", fini)
    fini_at[FILENAME ":" FNR] = fini
    if (fini in asserts)
        report("an assertion in " fini "() fails no test: use must()")
}

text ~ /[;}]$/ || text ~ /^#/ {
    head = ""
    next
}

{
    if (head == "")
        head_line = FNR
    head = head text
    name = head
    if (head ~ /^(Test|ParameterizedTest|Theory)\(/) {
        # A head that goes on over lines is named by its first.
        if (FILENAME ":" head_line != test_at) {
            test_at = FILENAME ":" head_line
            test = test_at ": " $0
            is_test[test] = 1
            tests++
            if (FILENAME ~ /^tests\/unit\// && $0 ~ /^Test\(/ && $0 !~ ("^Test\\(" suite "[,)]"))
                report("the suite of this test is not " suite ": " $0)
        }
        name = test
        if (head ~ /\.(signal|exit_code) *=/)
            states[name] = 1
    } else {
        sub(/\(.*/, "", name)
        sub(/ +$/, "", name)
        sub(/.*[ *]/, "", name)
    }
}

END {
    end_file()
    do {
        changed = 0
        for (name in calls) {
            if (name in states)
                continue
            count = split(calls[name], called, " ")
            for (i = 1; i <= count; i++)
                if (called[i] ~ /^(cr_|must$)/ || called[i] in states) {
                    states[name] = 1
                    changed = 1
                    break
                }
        }
    } while (changed)
    for (place in fini_at)
        if (fini_at[place] in lib_asserts) {
            print place ": an assertion in " fini_at[place] "() fails no test: use must()"
            violations++
        }
    for (name in is_test)
        if (!(name in states)) {
            print name " states nothing"
            violations++
        }
    exit violations > 0
}
