# SPDX-License-Identifier: MPL-2.0
# banned.awk -- calls and words that have no place here.

BEGIN {
    # Unbounded, stateful, silent about errors, or gone under NDEBUG.
    calls = "strcpy|strcat|strncat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|strtok|rand|srand|" \
            "alloca|assert|setjmp|longjmp|mktemp|tmpnam|ctime|asctime|gmtime|localtime|signal"
    sleeps = "sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|zclock_sleep"
}

function calls_one_of(text, names)
{
    return text ~ ("(^|[^A-Za-z0-9_])(" names ")[ ]*\\(")
}

FNR == 1 && $0 != "/* SPDX-License-Identifier: MPL-2.0 */" {
    report("the first line is not the licence's")
}
FNR == 2 && $0 !~ /^\/\* / {
    report("the second line does not open the comment that says what the file is for")
}

{
    text = code($0)
    if (calls_one_of(text, calls))
        report("banned call: " $0)
    # Below tests/system nothing waits for time.
    if (FILENAME ~ /^tests\/(unit|corpus|sim|race|fuzz)\// && calls_one_of(text, sleeps))
        report("a test does not sleep: " $0)
    if (text ~ /(^|[^a-z_])typedef (struct|union|enum)/)
        report("no typedef for structs: " $0)
    if (text ~ /^(struct|union|enum) [a-z0-9_]+_t( |$)/)
        report("the suffix _t is POSIX's: " $0)
    if ($0 ~ /(TODO|FIXME|(^|[^X])XXX([^X]|$))/ || tolower($0) ~ /for now([^a-z]|$)/)
        report("unfinished: " $0)
    if (length($0) > 100)
        report("longer than 100 columns")
}

END {
    exit violations > 0
}
