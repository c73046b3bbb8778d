/* SPDX-License-Identifier: MPL-2.0 */
/* codes.c -- the version of the library, and its result codes as text. */
#include "libbus/api/model.h"

/* The public header cannot include the tables; what both say is held together here. */
_Static_assert(BUS_NAME_BYTES_MAX == LIMIT_NAME_BYTES, "one limit of names");
_Static_assert((int)BUS_OK == (int)CODE_OK, "codes");
_Static_assert((int)BUS_EINVAL == (int)CODE_EINVAL, "codes");
_Static_assert((int)BUS_ENOMEM == (int)CODE_ENOMEM, "codes");
_Static_assert((int)BUS_ETIMEDOUT == (int)CODE_ETIMEDOUT, "codes");
_Static_assert((int)BUS_EFULL == (int)CODE_EFULL, "codes");
_Static_assert((int)BUS_ETOOBIG == (int)CODE_ETOOBIG, "codes");
_Static_assert((int)BUS_EPROTO == (int)CODE_EPROTO, "codes");
_Static_assert((int)BUS_ELOST == (int)CODE_ELOST, "codes");
_Static_assert((int)BUS_EOVERRUN == (int)CODE_EOVERRUN, "codes");
_Static_assert((int)BUS_EFAILED == (int)CODE_EFAILED, "codes");
_Static_assert((int)BUS_ESETTLED == (int)CODE_ESETTLED, "codes");
_Static_assert((int)BUS_EFENCED == (int)CODE_EFENCED, "codes");
_Static_assert((int)BUS_EDENIED == (int)CODE_EDENIED, "codes");
_Static_assert((int)BUS_ECLOSED == (int)CODE_ECLOSED, "codes");
_Static_assert((int)BUS_EENDED == (int)CODE_EENDED, "codes");

#define VERSION_TEXT_OF(major, minor, patch) #major "." #minor "." #patch
#define VERSION_TEXT(major, minor, patch) VERSION_TEXT_OF(major, minor, patch)

const char *bus_version(void)
{
    return VERSION_TEXT(BUS_VERSION_MAJOR, BUS_VERSION_MINOR, BUS_VERSION_PATCH);
}

int bus_version_number(void)
{
    return BUS_VERSION_NUMBER;
}

const char *bus_strerror(enum bus_err err)
{
    switch (err) {
    case BUS_OK: return "success";
#define CODE(upper, number, type, what)                                                            \
    case BUS_##upper:                                                                              \
        return what;
#include "schemas/errors.def"
#undef CODE
    }
    return "unknown result code";
}
