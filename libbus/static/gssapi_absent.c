/* SPDX-License-Identifier: MPL-2.0 */
/* gssapi_absent.c -- what a static program has where the system has no static GSSAPI.
 *
 * libzmq.a of Debian can authenticate by GSSAPI, and then calls these.  Debian has krb5 as
 * a shared library alone.  Errbus never asks libzmq for GSSAPI.  A static program that asks for it
 * is told GSS_S_UNAVAILABLE (RFC 2744, section 3.9.1), and libzmq refuses the connection.
 *
 * Only libzmq.a refers to these names, by calls of C: their parameters need not be known here. */
#include <stddef.h>
#include <stdint.h>

#define UNAVAILABLE (UINT32_C(16) << 16) /* GSS_S_UNAVAILABLE */

#define ABSENT(name)                                                                               \
    uint32_t name(uint32_t *out_minor);                                                            \
    uint32_t name(uint32_t *out_minor)                                                             \
    {                                                                                              \
        *out_minor = 0;                                                                            \
        return UNAVAILABLE;                                                                        \
    }

ABSENT(gss_accept_sec_context)
ABSENT(gss_acquire_cred)
ABSENT(gss_delete_sec_context)
ABSENT(gss_display_name)
ABSENT(gss_import_name)
ABSENT(gss_init_sec_context)
ABSENT(gss_release_buffer)
ABSENT(gss_release_cred)
ABSENT(gss_release_name)
ABSENT(gss_unwrap)
ABSENT(gss_wrap)

/* Kinds of names, as pointers to what nobody reads. */
extern const void *const GSS_C_NT_HOSTBASED_SERVICE;
extern const void *const GSS_C_NT_USER_NAME;
const void *const GSS_C_NT_HOSTBASED_SERVICE = NULL;
const void *const GSS_C_NT_USER_NAME = NULL;
