# SPDX-License-Identifier: MPL-2.0
# embed.cmake -- writes assets.c: files as arrays of bytes, each with its path and type.
#
# usage: cmake -D OUT=FILE -D "FILES=PATH|TYPE|FILE;..." -D "NOTICES=FILE;..." -P embed.cmake
#
# NOTICES are the licences of others' libraries; together they are /licences.txt.  One that is not
# there is left out.

set(arrays "")
set(rows "")
set(number 0)

function(add path type file)
    file(READ "${file}" hex HEX)
    file(SHA256 "${file}" tag)
    string(SUBSTRING ${tag} 0 32 tag)
    string(REGEX REPLACE "(................................)" "\\1\n    " hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    string(APPEND arrays "static const unsigned char asset_${number}[] = {\n    ${hex}0x00};\n")
    string(APPEND rows "    {\"${path}\", \"${type}\", \"\\\"${tag}\\\"\", asset_${number},"
                       " sizeof asset_${number} - 1},\n")
    math(EXPR number "${number} + 1")
    set(arrays "${arrays}" PARENT_SCOPE)
    set(rows "${rows}" PARENT_SCOPE)
    set(number ${number} PARENT_SCOPE)
endfunction()

foreach(entry IN LISTS FILES)
    string(REPLACE "|" ";" entry "${entry}")
    list(GET entry 0 path)
    list(GET entry 1 type)
    list(GET entry 2 file)
    if(type MATCHES "^text/")
        string(APPEND type " charset=utf-8")
        string(REPLACE " " "; " type "${type}")
    endif()
    add("${path}" "${type}" "${file}")
endforeach()

set(notices "")
foreach(file IN LISTS NOTICES)
    if(EXISTS "${file}")
        file(READ "${file}" text)
        string(APPEND notices "==== ${file} ====\n\n${text}\n")
    endif()
endforeach()
if(NOT notices STREQUAL "")
    file(WRITE "${OUT}.licences" "${notices}")
    add("/licences.txt" "text/plain; charset=utf-8" "${OUT}.licences")
endif()

file(WRITE "${OUT}" "/* Made by clients/web/embed.cmake. */
#include \"clients/web/assets.h\"

#include <string.h>

${arrays}
static const struct asset assets[] = {
${rows}};

const struct asset *assets_find(const char *path)
{
    for (size_t i = 0; i < sizeof assets / sizeof assets[0]; i++) {
        if (strcmp(assets[i].path, path) == 0) {
            return &assets[i];
        }
    }
    return NULL;
}
")
