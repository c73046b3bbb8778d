# SPDX-License-Identifier: MPL-2.0
# declared.awk -- the functions that headers declare with BUS_API, one a line.

{
    text = code($0)
}
text ~ /^#/ {
    next
}
text ~ /BUS_API/ {
    head = ""
    in_head = 1
}
in_head {
    head = head " " text
    if (head ~ /\(/) {
        sub(/ *\(.*/, "", head)
        sub(/.*[ *]/, "", head)
        print head
        in_head = 0
    }
}
