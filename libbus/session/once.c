/* SPDX-License-Identifier: MPL-2.0 */
/* once.c -- first cause wins; see once.h. */
#include "libbus/session/once.h"

#include "libbus/base/must.h"

bool once_init(struct once *once, struct span spare)
{
    *once = (struct once){.code = CODE_OK, .spare = buffer_copy(spare)};
    return once->spare != NULL;
}

void once_fini(struct once *once)
{
    buffer_unref(&once->error);
    buffer_unref(&once->spare);
}

bool once_end(struct once *once, enum wire_code code, struct span error)
{
    must(code != CODE_OK);
    if (once->code != CODE_OK)
        return false;
    once->code = code;
    if (error.bytes == 0)
        return true;
    once->error = buffer_copy(error);
    if (once->error == NULL)
        once->error = buffer_ref(once->spare);
    return true;
}
