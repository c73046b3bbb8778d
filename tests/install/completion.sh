#!/bin/bash
# SPDX-License-Identifier: MPL-2.0
# usage: completion.sh BUILD CMAKE
# The installed completion of bash, zsh and fish gives subcommands, flags, words and files, and names
# that the broker knows; nothing, and at once, where there is no broker; and no name that a shell
# would take for more than a name.
set -eu
build=$1
cmake=$2
for shell in bash zsh fish; do
    command -v "$shell" >/dev/null || { echo "skipped: no $shell here, of the package $shell"; exit 77; }
done
work=$(mktemp -d)
# shellcheck source=tests/lib/faults.sh
. "$(dirname "$0")/../lib/faults.sh"
evidence="$work/log $work/output"
unset ERRBUS_JOB ERRBUS_PARTY ERRBUS_KEY LD_LIBRARY_PATH STATE_DIRECTORY XDG_STATE_HOME
export HOME="$work/home" ERRBUS_SERVER="ipc://$work/control"
mkdir "$HOME"
: >"$work/log"
: >"$work/output"
"$cmake" --install "$build" --prefix "$work/tree" >"$work/log" 2>&1 || die "cannot install"
PATH=$work/tree/bin:$PATH
share=$work/tree/share

cat >"$work/ask.bash" <<'END'
source "$1/bash-completion/completions/errbus"
shift
compopt() { echo files; }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_errbus
printf '%s\n' "${COMPREPLY[@]}"
END
cat >"$work/ask.zsh" <<'END'
fpath=("$1/zsh/site-functions" $fpath)
shift
autoload -Uz _errbus
_files() { print files }
_describe() { print -l -- "${(@)${(@P)4}%%:*}" }
words=("$@")
CURRENT=$#
_errbus
END
cat >"$work/ask.fish" <<'END'
source $argv[1]/fish/vendor_completions.d/errbus.fish
function __fish_complete_path; echo files; end
set -l line (string escape -- $argv[2..-2]) $argv[-1]
complete -C (string join ' ' -- $line) | string replace -r '\t.*' ''
END

# expect SHELL WORDS CANDIDATE...: what the shell offers for the last of these words; - is an empty one.
# shellcheck disable=SC2086
expect() {
    local shell=$1 words=() word
    for word in $2; do
        words+=("${word#-.}")
    done
    shift 2
    case $shell in
    zsh) zsh -f "$work/ask.zsh" "$share" "${words[@]}" ;;
    *) "$shell" "$work/ask.$shell" "$share" "${words[@]}" ;;
    esac >"$work/output" 2>&1 </dev/null || true
    grep -v '^$' "$work/output" | sort >"$work/came" || true
    printf '%s\n' "$@" | grep -v '^$' | sort >"$work/expected" || true
    cmp -s "$work/expected" "$work/came" ||
        fault "$shell, '${words[*]}': not $(tr '\n' ' ' <"$work/expected")but $(tr '\n' ' ' <"$work/came")"
}

for shell in bash zsh fish; do
    expect "$shell" "errbus why -." "" # no broker: nothing, and no word of it
    expect "$shell" "errbus wh" why
    expect "$shell" "errbus job f" forget
    expect "$shell" "errbus job create --max" --max --max-restarts
    expect "$shell" "errbus key import -." files
    expect "$shell" "errbus top --sort -." ""
done

errbusd --control "ipc://$work/control" --data "ipc://$work/data" --journal none >"$work/log" 2>&1 &
broker=$!
trap 'kill "$broker"; wait "$broker" || true; rm -rf "$work"' EXIT
errbus pub -W 20 -j fl -p alice grads 1 2>>"$work/log" || die "cannot publish"
errbus pub -W 20 -j fl -p alice 'x;touch evil' 1 2>>"$work/log" || die "cannot publish"
errbus pub -W 20 -j fl -p 'b$(id)' weights 1 2>>"$work/log" || die "cannot publish"
errbus pub -W 20 -j other -p bob model 1 2>>"$work/log" || die "cannot publish"
errbus worker -j fl -p w crew -t alice/tasks -- true 2>>"$work/log" &
worker=$!
trap 'kill "$worker" "$broker"; wait "$worker" "$broker" || true; rm -rf "$work"' EXIT
tries=0
until errbus status -j fl --json | grep -q '"kind":"group"'; do
    [ $((tries += 1)) -lt 200 ] || die "the worker makes no group"
    sleep 0.1
done
for shell in bash zsh fish; do
    expect "$shell" "errbus dead list -j fl -." crew
    expect "$shell" "errbus worker -j fl -p w c" crew
    expect "$shell" "errbus job show -." fl other
    expect "$shell" "errbus status -j o" other
    expect "$shell" "errbus sub -j fl -." _groups/crew/dead _groups/crew/why alice/grads
    expect "$shell" "errbus why --job fl --without -." alice w
    expect "$shell" "errbus verdict -j fl -p a" alice
done
[ ! -e evil ] || fault "a name was run"
end_with_faults
echo "three shells complete what errbus takes"
