/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's key: 64 hexadecimal digits in a file of the user's that nobody else can read. And where a
 * key is needed. Any thread, but key_file_path(), which reads the environment.
 */
#ifndef SLOWRANK_PROBE_AUTH_KEY_FILE_H
#define SLOWRANK_PROBE_AUTH_KEY_FILE_H

#include <stdbool.h>

#include "probe/auth/seal.h"

enum { KEY_FILE_PATH_LENGTH = 512, KEY_FILE_WHY_LENGTH = 768 };

struct key_file {
	char path[KEY_FILE_PATH_LENGTH];
	uint8_t key[SEAL_KEY_BYTES];
};

/* True for tls+tcp:// and for tcp:// at an address that is not one of the loopback: a key is proven there. */
bool key_file_needed(const char *url);

/*
 * Makes the file with a fresh key in it, and the two folders above it; one that is there already is
 * left alone. It appears whole, on NFS too. Returns 0 or a negative errno.
 */
int key_file_make(const char *path) __attribute__((warn_unused_result));

/*
 * Reads the key in `asked`; where that is NULL, in ~/.config/slowrank/key, which is made when it is
 * missing: whoever comes first, all read the same. Returns 0 or a negative errno; then why is one
 * line that says what is wrong and what to do.
 */
int key_file_load(const char *asked, struct key_file *file, char why[KEY_FILE_WHY_LENGTH])
	__attribute__((warn_unused_result));

/*
 * What a user proves where no key is named: MUNGE's credential where it runs, and the key of the default file; a file
 * that is named is meant alone. *credential: the caller's, or NULL; file->path is "" where none was read. Returns 0 where
 * either is there, else as key_file_load().
 */
struct credential;
int key_file_or_munge(const char *asked, const char *munge_socket, struct key_file *file,
	struct credential **credential, char why[KEY_FILE_WHY_LENGTH])
	__attribute__((warn_unused_result));

#endif
