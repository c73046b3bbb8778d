# SPDX-License-Identifier: MPL-2.0
# tests.awk -- a Criterion program without tests passes, so each must have some; a unit test's suite
# is named as its file (style.md 31); every test states something that can fail.

function end_test()
{
    if (in_test && !states) {
        printf "%s:%d: %s states nothing\n", last_path, test_line, test_name
        violations++
    }
    in_test = 0
}

function end_file()
{
    end_test()
    if (last_path ~ /^tests\/(unit|corpus|sim|system)\/.*_test\.c$/ && tests == 0) {
        printf "%s:1: has no test\n", last_path
        violations++
    }
}

FNR == 1 {
    if (NR > 1)
        end_file()
    tests = 0
    last_path = FILENAME
    suite = last_path
    sub(/.*\//, "", suite)
    sub(/_test\.c$/, "", suite)
}

{
    text = code($0)
}

text ~ /^(Test|ParameterizedTest|Theory)\(/ {
    end_test()
    tests++
    in_test = 1
    states = 0
    test_line = FNR
    test_name = $0
    if (FILENAME ~ /^tests\/unit\// && text ~ /^Test\(/ && text !~ ("^Test\\(" suite "[,)]"))
        report("the suite of this test is not " suite ": " $0)
}

# A statement of Criterion's, or a helper that makes one: its name says check, expect or must.
in_test && text ~ /(cr_|check|expect|must|assert|verify|run_seed|walk|want)/ {
    states = 1
}
text == "}" {
    end_test()
}

END {
    end_file()
    exit violations > 0
}
