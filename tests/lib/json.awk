# SPDX-License-Identifier: MPL-2.0
# json.awk -- fields of the line of JSON that awk is at, for the reports of bench and prove. Our own
# programs write these lines: without white space, and without a quote inside a text.

function text(name,    at)
{
    at = index($0, "\"" name "\":\"")
    if (at == 0)
        return ""
    at = substr($0, at + length(name) + 4)
    return substr(at, 1, index(at, "\"") - 1)
}

function number(name,    at)
{
    at = index($0, "\"" name "\":")
    return at == 0 ? 0 : substr($0, at + length(name) + 3) + 0
}
