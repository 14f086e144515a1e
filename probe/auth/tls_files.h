/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates for tls+tcp://: each side shows its own, and takes only one that the authority signed. They
 * encrypt; who may speak is still said by the key. Any thread.
 */
#ifndef SLOWRANK_PROBE_AUTH_TLS_FILES_H
#define SLOWRANK_PROBE_AUTH_TLS_FILES_H

#include <stdbool.h>

#include "probe/auth/key_file.h"

struct nng_tls_config;

/* In PEM; NULL where nobody named one. */
struct tls_files {
	const char *certificate, *key, *authority;
};

bool tls_files_url(const char *url); /* is one of tls+tcp:// */

/*
 * Makes what nng wants for a server or a client. Returns 0, -EINVAL or -ENOMEM; then why is one line. The
 * caller frees it with nng_tls_config_free().
 */
int tls_files_config(const struct tls_files *files, bool server, struct nng_tls_config **config,
	char why[KEY_FILE_WHY_LENGTH]) __attribute__((warn_unused_result));

#endif
