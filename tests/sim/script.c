/* SPDX-License-Identifier: MPL-2.0 */
/* script.c -- a list of moments; see script.h. */
#include "tests/sim/script.h"

#include "libbus/base/must.h"

#include <stdlib.h>
#include <string.h>

void script_add(struct script *script, struct script_moment moment)
{
    if (script->count == script->room) {
        must(!script->is_fixed);
        script->room = script->room > 0 ? script->room * 2 : 256;
        script->moments = realloc(script->moments, script->room * sizeof *script->moments);
        must(script->moments != NULL);
    }
    script->moments[script->count++] = moment;
}

void script_without(const struct script *script, uint32_t first, uint32_t last,
                    struct script *out_script)
{
    must(first <= last && last <= script->count);
    *out_script = (struct script){0};
    for (uint32_t i = 0; i < script->count; i++)
        if (i < first || i >= last)
            script_add(out_script, script->moments[i]);
    memcpy(out_script->phases, script->phases, sizeof out_script->phases);
}

void script_fini(struct script *script)
{
    if (!script->is_fixed)
        free(script->moments);
    *script = (struct script){0};
}
