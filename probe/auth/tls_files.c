/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/auth/tls_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/supplemental/tls/tls.h>

enum { PEM_BYTES_MAX = 64 * 1024 };

bool tls_files_url(const char *url)
{
	return strncmp(url, "tls+tcp://", 10) == 0;
}

/* The file's text, to be freed; NULL when it cannot be read. */
static char *read_pem(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, PEM_BYTES_MAX + 1);
	size_t length = file && text ? fread(text, 1, PEM_BYTES_MAX, file) : 0;

	if (file)
		fclose(file);
	if (length)
		return text;
	free(text);
	return NULL;
}

static int fill(nng_tls_config *config, const struct tls_files *files)
{
	char *certificate = read_pem(files->certificate), *key = read_pem(files->key);
	int error = certificate && key ? 0 : NNG_ENOENT;

	if (!error)
		error = nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_REQUIRED);
	if (!error)
		error = nng_tls_config_ca_file(config, files->authority);
	if (!error)
		error = nng_tls_config_own_cert(config, certificate, key, NULL);
	free(certificate);
	free(key);
	return error;
}

int tls_files_config(const struct tls_files *files, bool server, struct nng_tls_config **config,
	char why[KEY_FILE_WHY_LENGTH])
{
	nng_tls_config *made;
	int error;

	if (!files->certificate || !files->key || !files->authority) {
		snprintf(why, KEY_FILE_WHY_LENGTH,
			"tls+tcp:// needs --tls-cert, --tls-key and --tls-ca");
		return -EINVAL;
	}
	if (nng_tls_config_alloc(&made, server ? NNG_TLS_MODE_SERVER : NNG_TLS_MODE_CLIENT)) {
		snprintf(why, KEY_FILE_WHY_LENGTH, "no memory");
		return -ENOMEM;
	}
	error = fill(made, files);
	if (error) {
		snprintf(why, KEY_FILE_WHY_LENGTH,
			"cannot use %.200s, %.200s and %.200s for TLS (%s): they are a "
			"certificate, its "
			"key and the authority's certificate, in PEM",
			files->certificate, files->key, files->authority, nng_strerror(error));
		nng_tls_config_free(made);
		return -EINVAL;
	}
	*config = made;
	return 0;
}
