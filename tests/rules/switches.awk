# SPDX-License-Identifier: MPL-2.0
# switches.awk -- a default in a switch over what a table names, or over a state, a step or a kind.

BEGIN {
    tables = "MSG|TO_BROKER|TO_CLIENT|BUS_E[A-Z]*|CODE|ERROR|FACT"
    states = "EFFECT|FRAME|JOB|PARKED|PARTY|PHASE|SLOT|TASK|TIMER|WAIT"
    named = "case (" tables "|" states ")(_[A-Z]|:)"
}

# Where the innermost switch around a line begins is told by its indentation.
FNR == 1 {
    depth = 0
}

{
    text = code($0)
    match(text, /^ */)
    indent = RLENGTH
}

depth > 0 && text ~ /^ *}/ && indent == indents[depth] {
    depth--
    next
}

text ~ /^ *(else )?switch \(/ {
    indents[++depth] = indent
    is_about[depth] = 0
}

depth > 0 && text ~ named {
    is_about[depth] = 1
}

depth > 0 && is_about[depth] && text ~ /(^| )default:/ {
    report("a switch over named things has a default: " $0)
}

END {
    exit violations > 0
}
