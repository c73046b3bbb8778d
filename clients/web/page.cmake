# SPDX-License-Identifier: MPL-2.0
# page.cmake -- the page of errbus web: its files, and two libraries that Debian packages, go into the
# program.  README.md says which libraries, and why.  Without them the program has no page, and says so.

find_file(D3_FILE d3.min.js PATHS /usr/share/javascript/d3 NO_DEFAULT_PATH)
find_file(DAGRE_FILE dagre.min.js PATHS /usr/share/nodejs/dagre/dist NO_DEFAULT_PATH)
mark_as_advanced(D3_FILE DAGRE_FILE)
set(page_assets ${CMAKE_CURRENT_BINARY_DIR}/assets.c)
set(embed ${CMAKE_CURRENT_SOURCE_DIR}/web/embed.cmake)
set(page ${CMAKE_CURRENT_SOURCE_DIR}/web/page)
set(notices "")
set(page_missing "") # packages
if(NOT D3_FILE)
    list(APPEND page_missing libjs-d3)
endif()
if(NOT DAGRE_FILE)
    list(APPEND page_missing node-dagre-layout)
endif()
set_property(GLOBAL PROPERTY errbus_page_missing ${page_missing})
if(page_missing STREQUAL "")
    set(script "text/javascript")
    set(files "/|text/html|${page}/index.html" "/page.css|text/css|${page}/page.css"
              "/icon.svg|image/svg+xml|${page}/icon.svg"
              "/d3.js|${script}|${D3_FILE}" "/dagre.js|${script}|${DAGRE_FILE}")
    foreach(name IN ITEMS dom error feed graph page timeline worker)
        list(APPEND files "/${name}.js|${script}|${page}/${name}.js")
    endforeach()
    foreach(package IN ITEMS libjs-d3 node-dagre-layout node-graphlibrary node-lodash)
        list(APPEND notices /usr/share/doc/${package}/copyright)
    endforeach()
else()
    list(JOIN page_missing " " packages)
    message(NOTICE "errbus web has no page: install what is missing to build it (${packages})")
    set(missing ${CMAKE_CURRENT_BINARY_DIR}/page_missing.txt)
    file(CONFIGURE OUTPUT ${missing} CONTENT
         "This program was built without its page, for want of ${packages}.\n\
There are /metrics, /healthz, /readyz and /api/ (errbus-web(1)).\n")
    set(files "/|text/plain|${missing}")
endif()
set(depends ${embed})
foreach(entry IN LISTS files)
    string(REGEX REPLACE ".*\\|" "" file "${entry}")
    list(APPEND depends ${file})
endforeach()
add_custom_command(
    OUTPUT ${page_assets}
    COMMAND ${CMAKE_COMMAND} -D OUT=${page_assets} "-DFILES=${files}"
            "-DNOTICES=${notices}" -P ${embed}
    DEPENDS ${depends}
    COMMENT "Putting the page of errbus web into a source file"
    VERBATIM)
