/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/auth/credential.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of libmunge.so.2 (munge.h); tests/unit/auth/test_credential.c compares them where it is installed. */
enum { MUNGE_SUCCESS = 0, MUNGE_SOCKET_ERROR = 6 };
enum { MUNGE_SOCKET = 8, MUNGE_UID_RESTRICTION = 9 };

struct credential {
	void *library, *context;
	void *(*ctx_create)(void);
	void (*ctx_destroy)(void *context);
	int (*ctx_set)(void *context, int option, ...);
	int (*encode)(char **text, void *context, const void *bytes, int length);
	int (*decode)(
		const char *text, void *context, void **bytes, int *length, uid_t *uid, gid_t *gid);
};

/* ISO C has no conversion from an object's pointer to a function's. */
static bool find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

static int load(struct credential *credential, const char *socket)
{
	void *library = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);

	credential->library = library;
	if (!library || !find(library, "munge_ctx_create", &credential->ctx_create) ||
		!find(library, "munge_ctx_destroy", &credential->ctx_destroy) ||
		!find(library, "munge_ctx_set", &credential->ctx_set) ||
		!find(library, "munge_encode", &credential->encode) ||
		!find(library, "munge_decode", &credential->decode))
		return -ENOENT;
	credential->context = credential->ctx_create();
	if (!credential->context)
		return -ENOMEM;
	if ((socket && credential->ctx_set(credential->context, MUNGE_SOCKET, socket)) ||
		credential->ctx_set(credential->context, MUNGE_UID_RESTRICTION, geteuid()))
		return -ENOENT;
	return 0;
}

int credential_open(const char *socket, struct credential **credential)
{
	struct credential *made = calloc(1, sizeof(*made));
	char text[CREDENTIAL_LENGTH_MAX];
	int error;

	if (!made)
		return -ENOMEM;
	error = load(made, socket);
	if (!error && credential_make(made, "", 1, text))
		error = -ENOENT;
	if (error) {
		credential_close(made);
		return error;
	}
	*credential = made;
	return 0;
}

void credential_close(struct credential *credential)
{
	if (!credential)
		return;
	if (credential->context)
		credential->ctx_destroy(credential->context);
	if (credential->library)
		dlclose(credential->library);
	free(credential);
}

int credential_make(struct credential *credential, const void *bytes, size_t length,
	char text[CREDENTIAL_LENGTH_MAX])
{
	char *made = NULL;
	int error = -EIO;

	if (credential->encode(&made, credential->context, bytes, (int)length) == MUNGE_SUCCESS &&
		made && strlen(made) < CREDENTIAL_LENGTH_MAX) {
		memcpy(text, made, strlen(made) + 1);
		error = 0;
	}
	free(made);
	return error;
}

int credential_read(struct credential *credential, const char *text, void *bytes, size_t length)
{
	uid_t uid = (uid_t)-1;
	void *read = NULL;
	int read_length = 0, error = 0;
	gid_t gid;
	int result = credential->decode(text, credential->context, &read, &read_length, &uid, &gid);

	if (result == MUNGE_SOCKET_ERROR)
		error = -EIO;
	else if (result != MUNGE_SUCCESS || uid != geteuid())
		error = -EPERM;
	else if (read_length < 0 || (size_t)read_length != length)
		error = -EBADMSG;
	else
		memcpy(bytes, read, length);
	if (read && read_length > 0)
		explicit_bzero(read, (size_t)read_length);
	free(read);
	return error;
}
