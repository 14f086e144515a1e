/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MUNGE's credentials: a few bytes that only this user can read, on all nodes that share MUNGE's key, and
 * of which is known that this user made them. libmunge is looked for at run time. Each call asks munged
 * through its socket, which takes about a millisecond. A struct credential is for one thread at a time.
 */
#ifndef SLOWRANK_PROBE_AUTH_CREDENTIAL_H
#define SLOWRANK_PROBE_AUTH_CREDENTIAL_H

#include <stddef.h>

enum { CREDENTIAL_LENGTH_MAX = 1024 }; /* of the text, with its NUL */

struct credential;

/*
 * socket: munged's, or NULL: where libmunge has it. Returns 0 once a credential could be made; -ENOENT
 * without libmunge or munged; -ENOMEM. The caller owns it.
 */
int credential_open(const char *socket, struct credential **credential)
	__attribute__((warn_unused_result));
void credential_close(struct credential *credential); /* NULL is fine */

/* Makes a text of the bytes. Returns 0, or -EIO: munged does not answer. */
int credential_make(struct credential *credential, const void *bytes, size_t length,
	char text[CREDENTIAL_LENGTH_MAX]) __attribute__((warn_unused_result));

/*
 * Reads a text; *bytes are untouched on failure. Returns 0; -EPERM: it is not this user's, has expired,
 * or was read on this node before; -EBADMSG: it holds another number of bytes; -EIO.
 */
int credential_read(struct credential *credential, const char *text, void *bytes, size_t length)
	__attribute__((warn_unused_result));

#endif
