#!/bin/sh
# SPDX-License-Identifier: MPL-2.0
# usage: install.sh SOURCE BUILD VERSION CMAKE CC CXX
# Installs, moves the tree away, and uses it from outside: by find_package and by pkg-config, as C11
# and as C++17, shared and static; the example of the README compiles, and has twenty lines; all man
# pages are there.
set -eu
source=$1
build=$2
version=$3
cmake=$4
cc=$5
cxx=$6
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/lib/faults.sh
. "$here/../lib/faults.sh"
evidence=$work/log

# prints_version PROGRAM
prints_version() {
    printed=$("$1") || die "$1 fails"
    [ "$printed" = "$version" ] || die "$1: expected $version; it printed $printed"
}

# needs_libbus PROGRAM: at run time, so it was linked with the shared library
needs_libbus() {
    readelf -d "$1" | grep -q 'NEEDED.*libbus\.so'
}

# inputs_of TARGET: that is no file, and of those among them that are none either: ninja 1.11 leaves
# them out where it lists inputs
inputs_of() {
    ninja -C "$build" -t query "$1" | sed -n '/^  input:/,/^  outputs:/s/^    [| ]*//p' |
        while read -r input; do
            echo "$input"
            ! grep -q -x -F "$input: phony" "$work/targets" || (inputs_of "$input")
        done
}

# What is installed is what ./quickstart build makes: errbus_install() has both.
grep -rn '^ *install(TARGETS' "$source" --include '*.cmake' --include CMakeLists.txt \
    --exclude-dir build >"$work/installs" || die "no CMakeLists.txt installs a program"
grep -q -F 'install(TARGETS ${arg_UNPARSED_ARGUMENTS}' "$work/installs" || die "there is no errbus_install()"
! grep -v -F 'install(TARGETS ${arg_UNPARSED_ARGUMENTS}' "$work/installs" ||
    die "installed, and not by errbus_install()"

# A file that is made has to be among what the target `installed` builds.  A link is made with the
# library that it leads to.
if [ -e "$build/build.ninja" ]; then
    ninja -C "$build" -t targets all >"$work/targets"
    sed 's/: [^:]*$//' "$work/targets" | sort >"$work/made"
    {
        ninja -C "$build" -t inputs installed
        inputs_of installed
    } | sort -u >"$work/inputs"
    find "$build" -name cmake_install.cmake -exec sed -n \
        -e "s|^ *\"$build/\([^\"]*[^/\"]\)\".*|\1|p" \
        -e "s|.* FILES \"$build/\([^\"]*[^/\"]\)\".*|\1|p" {} + | sort -u >"$work/installs"
    comm -12 "$work/installs" "$work/made" >"$work/both"
    grep -q '^clients/errbus$' "$work/both" || die "errbus is not among the files that are installed"
    comm -23 "$work/both" "$work/inputs" | while read -r file; do
        [ -L "$build/$file" ] || echo "$file"
    done >"$work/log"
    [ ! -s "$work/log" ] || die "installed, and not built by the target installed"
fi

# ---- install, then move -----------------------------------------------------------------------------
"$cmake" --install "$build" --prefix "$work/first" >"$work/log" 2>&1 || die "cannot install"
mv "$work/first" "$work/moved"
tree=$work/moved
lib=$(dirname "$(find "$tree" -name libbus.so)")
[ -d "$tree/include/bus" ] || die "no headers are installed"
named=0 # 1: grep read all, and found none
grep -rIl "$work/first\|$source\|$build" "$tree" || named=$?
[ "$named" -eq 1 ] || die "these files name where they were made"

for header in "$source"/libbus/include/bus/*.h; do
    cmp "$header" "$tree/include/bus/${header##*/}" || die "${header##*/} is not installed as it is"
done
for program in "$tree"/bin/*; do
    name=${program##*/}
    find "$tree/share/man" -name "$name.[18]" | grep -q . || die "$name has no man page"
    "$program" -h >/dev/null || die "$name -h fails in the moved tree"
done
# Without a broker, but not without its data: 5, not 1. Without its data it is 1.
silo() {
    status=0
    (cd "$work" && "$tree/bin/fedavg" silo --shard 1/3 -s ipc://nobody -W 0.1) 2>"$work/log" || status=$?
    [ "$status" -eq "$1" ] || die "fedavg $2 in the moved tree: expected exit status $1; it was $status"
}
silo 5 "with its data"
mv "$tree/share" "$work/share"
silo 1 "without its data"
mv "$work/share" "$tree/share"
find "$source/broker" "$source/clients" "$source/libbus" -name '*.[1-8]' >"$work/pages"
while read -r page; do
    cmp "$page" "$tree/share/man/man${page##*.}/${page##*/}" || die "$page is not installed"
done <"$work/pages"

# ---- find_package -----------------------------------------------------------------------------------
{
    "$cmake" -S "$here/outside" -B "$work/outside" -DCMAKE_PREFIX_PATH="$tree" \
        -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" && "$cmake" --build "$work/outside"
} >"$work/log" 2>&1 || die "find_package: does not build"
for language in c cxx; do
    prints_version "$work/outside/${language}_bus"
    prints_version "$work/outside/${language}_bus_static"
    needs_libbus "$work/outside/${language}_bus" || die "${language}_bus is not linked shared"
    ! needs_libbus "$work/outside/${language}_bus_static" || die "${language}_bus_static is shared"
done

# ---- pkg-config -------------------------------------------------------------------------------------
PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion libbus)" = "$version" ] || die "libbus.pc: wrong version"
cflags=$(pkg-config --cflags libbus)
shared=$(pkg-config --libs libbus)
static=$(pkg-config --static --libs libbus | sed 's/-lbus/-l:libbus.a/')

# build NAME COMPILER LANGUAGE STANDARD LIBS: as any makefile would
build() {
    # shellcheck disable=SC2086
    "$2" "-std=$4" -Wall -Wextra -Werror $cflags -x "$3" "$here/outside/outside.c" -x none \
        -o "$work/$1" $5 || die "pkg-config: $1 does not build"
}
build c_shared "$cc" c gnu11 "$shared -Wl,-rpath,$lib"
build c_static "$cc" c gnu11 "$static"
build cxx_shared "$cxx" c++ gnu++17 "$shared -Wl,-rpath,$lib"
build cxx_static "$cxx" c++ gnu++17 "$static"
for program in c_shared c_static cxx_shared cxx_static; do
    prints_version "$work/$program"
done
needs_libbus "$work/c_shared" || die "c_shared is not linked shared"
! needs_libbus "$work/c_static" || die "c_static is not linked static"
# All of it static: ld warns of what libzmq asks of the C library, and that is none of our matter.
whole="-static $(pkg-config --static --libs libbus)"
build c_whole "$cc" c gnu11 "$whole" 2>"$work/log" ||
    die "pkg-config: no program is linked with -static"
build cxx_whole "$cxx" c++ gnu++17 "$whole" 2>/dev/null
for program in c_whole cxx_whole; do
    prints_version "$work/$program"
    ! readelf -d "$work/$program" | grep NEEDED || die "$program is not all static"
done

# ---- the example of the README ------------------------------------------------------------------------
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" \
    >"$work/readme.c"
[ -s "$work/readme.c" ] || die "README.md has no example in C"
awk 'NR > 24 || length > 100 { exit 1 }' "$work/readme.c" ||
    die "the example of README.md has more than 24 lines, or one of more than 100 columns"
# shellcheck disable=SC2086
"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror $cflags "$work/readme.c" -o "$work/readme" $shared ||
    die "the example of README.md does not compile"
echo "installed, moved, and used 10 ways"
