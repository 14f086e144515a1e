/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the job's key is worth to others: a secret for one use, from which the key cannot be found; and
 * HMAC-SHA256 with it. Texts of 64 hexadecimal digits. Any thread.
 */
#ifndef SLOWRANK_PROBE_AUTH_DERIVED_KEY_H
#define SLOWRANK_PROBE_AUTH_DERIVED_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/auth/seal.h"

enum { DERIVED_KEY_LENGTH = 65 }; /* with the NUL */

/* Who reads the coordinator's HTTP port beyond the loopback shows it; webhooks are signed with it. */
#define DERIVED_KEY_HTTP "http"
#define DERIVED_KEY_WEBHOOK "webhook"

/* The secret for that use: HMAC-SHA256 of "slowrank USE 1", with the key. Returns 0 or -ENOMEM. */
int derived_key(const uint8_t key[SEAL_KEY_BYTES], const char *use, char text[DERIVED_KEY_LENGTH])
	__attribute__((warn_unused_result));

/* HMAC-SHA256 of the bytes; the secret's text, without its NUL, is the key. Returns 0 or -ENOMEM. */
int derived_key_sign(const char *secret, const void *bytes, size_t length,
	char text[DERIVED_KEY_LENGTH]) __attribute__((warn_unused_result));

/* Takes as long for each text of that length. */
bool derived_key_is(const char text[DERIVED_KEY_LENGTH], const char *given);

#endif
