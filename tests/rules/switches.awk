# SPDX-License-Identifier: MPL-2.0
# switches.awk -- a default in a switch that has a case for a message.

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

depth > 0 && text ~ /case (MSG|TO_BROKER|TO_CLIENT)_[A-Z]/ {
    is_about[depth] = 1
}

depth > 0 && is_about[depth] && text ~ /(^| )default:/ {
    report("a switch over messages has a default: " $0)
}

END {
    exit violations > 0
}
