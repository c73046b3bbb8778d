#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: pages.sh SOURCE ERRBUS FEDAVG ERRBUSD
# Help and man pages agree: each subcommand has a page whose .Nd line is its summary in errbus -h, and
# stands in errbus(1); each flag of -h is in the page with its letter, and each of the page in -h.
# errbus(1) lists first the flags that all subcommands take. errbusd takes the configuration that its
# page shows.
set -eu
source=$1
errbus=$2
fedavg=$3
errbusd=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"

# flags_of_help FILE: one a line, "-n, --count" or "--json".
flags_of_help() {
    sed -nE 's/^  (-., --[a-z-]+).*/\1/p; s/^      (--[a-z-]+).*/\1/p' "$1" | LC_ALL=C sort -u
}

# flags_of_page FILE: the same of its .It lines; "-n" where no long flag follows.
flags_of_page() {
    awk '/^\.It Fl / {
        letter = ""
        for (i = 3; i <= NF; i++)
            if ($(i - 1) == "Fl" && length($i) == 1)
                letter = "-" $i
            else if ($i ~ /^-[a-z][a-z-]+$/) {
                print (letter != "" ? letter ", " : "") "-" $i
                letter = ""
            }
        if (letter != "")
            print letter
    }' "$1" | LC_ALL=C sort -u
}

# compare PAGE HELP
compare() {
    flags_of_help "$2" >"$work/in_help"
    flags_of_page "$1" >"$work/in_page"
    [ -s "$work/in_help" ] || fault "${1##*/}: its program prints no flags"
    LC_ALL=C comm -23 "$work/in_help" "$work/in_page" >"$work/missing" # fails where there is no comm
    while read -r flag; do
        fault "${1##*/}: '$flag' is missing, and -h has it"
    done <"$work/missing"
    LC_ALL=C comm -13 "$work/in_help" "$work/in_page" >"$work/more"
    while read -r flag; do
        fault "${1##*/}: has '$flag', and -h has not"
    done <"$work/more"
}

"$errbus" -h | sed -nE 's/^  ([a-z]+) +(.*)/\1 \2/p' >"$work/subcommands"
[ "$(wc -l <"$work/subcommands")" -ge 5 ] || fault "errbus -h lists no subcommands"
while read -r name summary; do
    page=$source/clients/errbus-$name.1
    if [ ! -f "$page" ]; then
        fault "errbus-$name.1 is missing"
        continue
    fi
    grep -qxF ".Nd $summary" "$page" || fault "errbus-$name.1: its .Nd line is not '$summary'"
    grep -qx "\.It Ic $name" "$source/clients/errbus.1" || fault "errbus.1: does not list $name"
    grep -q "^\.Xr errbus-$name 1" "$source/clients/errbus.1" || fault "errbus.1: no .Xr of $name"
    "$errbus" "$name" -h >"$work/help"
    compare "$page" "$work/help"
    cat "$work/in_help" >>"$work/of_all"
done <"$work/subcommands"
sed -n '/^\.Sh OPTIONS/,/^\.El/p' "$source/clients/errbus.1" >"$work/common"
flags_of_page "$work/common" >"$work/said"
count=$(wc -l <"$work/subcommands")
LC_ALL=C sort "$work/of_all" | uniq -c | sed -n "s/^ *$count //p" >"$work/taken"
cmp -s "$work/said" "$work/taken" ||
    fault "errbus.1: all subcommands take $(tr '\n' ' ' <"$work/taken")and it first lists others"
for page in "$source"/clients/errbus-*.1; do
    name=${page##*/errbus-}
    grep -q "^${name%.1} " "$work/subcommands" || fault "${page##*/}: there is no such subcommand"
done
{
    "$fedavg" aggregator -h
    "$fedavg" silo -h
} >"$work/help"
compare "$source/clients/fedavg/fedavg.1" "$work/help"

# The access file of the example is on the machine of whoever follows it.
printf 'uid ops 1000\nallow ops party in *\n' >"$work/access"
sed -n '/^\.Sh FILES$/,/^\.Sh ENVIRONMENT$/p' "$source/broker/errbusd.8" |
    sed -n '/^\.Bd/,/^\.Ed/{/^\.[BE]d/d;p}' |
    sed "s|= /etc/errbus/access$|= $work/access|" >"$work/errbusd.conf"
grep -q '^control = ' "$work/errbusd.conf" || fault "errbusd.8: FILES has no example"
HOME=$work "$errbusd" --config "$work/errbusd.conf" --check-config >"$work/settings" 2>&1 ||
    fault "errbusd.8: --check-config refuses the example in FILES: $(cat "$work/settings")"
while read -r line; do
    case $line in '#'*) continue ;; esac
    grep -qF "$line" "$work/settings" || fault "errbusd.8: FILES has '$line', which is not in force"
done <"$work/errbusd.conf"
end_with_faults
echo "help and man pages agree"
