/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/auth/key_file.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/auth/credential.h"

enum { DIGITS = 2 * SEAL_KEY_BYTES };

bool key_file_needed(const char *url)
{
	struct in6_addr six;
	struct in_addr four;
	char host[64];
	size_t length;

	if (strncmp(url, "tls+tcp://", 10) == 0)
		return true;
	if (strncmp(url, "tcp://", 6) != 0)
		return false;
	url += 6;
	length = *url == '[' ? strcspn(++url, "]") : strcspn(url, ":");
	if (length >= sizeof(host))
		return true;
	memcpy(host, url, length);
	host[length] = '\0';
	if (strcmp(host, "localhost") == 0)
		return false;
	if (inet_pton(AF_INET, host, &four) == 1)
		return ntohl(four.s_addr) >> 24 != 127;
	return inet_pton(AF_INET6, host, &six) != 1 || !IN6_IS_ADDR_LOOPBACK(&six);
}

/* The home that the system knows for the user: HOME may be somebody else's, under sudo. */
static int default_path(char path[KEY_FILE_PATH_LENGTH], char *why)
{
	const struct passwd *user = getpwuid(geteuid());
	const char *home = user ? user->pw_dir : getenv("HOME");
	int length = home && home[0] == '/'
			     ? snprintf(path, KEY_FILE_PATH_LENGTH, "%s/.config/slowrank/key", home)
			     : 0;

	if (length > 0 && length < KEY_FILE_PATH_LENGTH)
		return 0;
	snprintf(why, KEY_FILE_WHY_LENGTH,
		"user %u has no home for a key: name a file with --key-file or "
		"SLOWRANK_KEY_FILE",
		(unsigned)geteuid());
	return -ENOENT;
}

/* Makes the two folders above the file, for the user alone; the home itself must be there. */
static int make_folders(const char *path)
{
	char upper[KEY_FILE_PATH_LENGTH], folder[KEY_FILE_PATH_LENGTH];

	snprintf(folder, sizeof(folder), "%s", path);
	dirname(folder);
	snprintf(upper, sizeof(upper), "%s", folder);
	dirname(upper);
	if (mkdir(upper, 0700) < 0 && errno != EEXIST)
		return -errno;
	return mkdir(folder, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* Writes a key aside and links it to its name: the name appears once, with all of a key in it. */
int key_file_make(const char *path)
{
	char aside[KEY_FILE_PATH_LENGTH + 8], text[DIGITS + 2];
	uint8_t key[SEAL_KEY_BYTES];
	int fd, error = make_folders(path);

	if (error)
		return error;
	if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
		return -EIO;
	for (size_t i = 0; i < sizeof(key); i++)
		snprintf(text + 2 * i, 3, "%02x", key[i]);
	text[DIGITS] = '\n';
	snprintf(aside, sizeof(aside), "%s.XXXXXX", path);
	fd = mkostemp(aside, O_CLOEXEC); /* O_EXCL, 0600 */
	if (fd < 0)
		return -errno;
	if (write(fd, text, DIGITS + 1) != DIGITS + 1 || fsync(fd) < 0)
		error = -EIO;
	close(fd);
	if (!error && link(aside, path) < 0 && errno != EEXIST)
		error = -errno;
	unlink(aside);
	return error;
}

static int digit_value(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

static int parse(const char *text, size_t length, uint8_t key[SEAL_KEY_BYTES])
{
	while (length > DIGITS && (text[length - 1] == '\n' || text[length - 1] == '\r'))
		length--;
	if (length != DIGITS)
		return -EBADMSG;
	for (size_t i = 0; i < SEAL_KEY_BYTES; i++) {
		int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EBADMSG;
		key[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

/* A mounted Kubernetes Secret is root's, and may be readable for the pod's group. */
static bool is_private(const struct stat *status)
{
	mode_t others = status->st_uid == 0 ? 037 : 077;

	return S_ISREG(status->st_mode) && !(status->st_mode & others) &&
	       (status->st_uid == geteuid() || status->st_uid == 0);
}

static int read_key(int fd, struct key_file *file, char *why)
{
	char text[DIGITS + 3];
	struct stat status;
	ssize_t length;

	if (fstat(fd, &status) < 0 || !is_private(&status)) {
		snprintf(why, KEY_FILE_WHY_LENGTH,
			"the key file %s is not refused to everybody else: chown it to this user, "
			"chmod 600",
			file->path);
		return -EPERM;
	}
	length = read(fd, text, sizeof(text));
	if (length < 0 || parse(text, (size_t)length, file->key)) {
		snprintf(why, KEY_FILE_WHY_LENGTH,
			"the key file %s does not hold 64 hexadecimal digits: copy it again",
			file->path);
		return -EBADMSG;
	}
	return 0;
}

int key_file_load(const char *asked, struct key_file *file, char why[KEY_FILE_WHY_LENGTH])
{
	int fd, error = 0;

	if (asked && strlen(asked) >= sizeof(file->path)) {
		snprintf(why, KEY_FILE_WHY_LENGTH, "the name of the key file is too long");
		return -ENAMETOOLONG;
	}
	if (asked)
		snprintf(file->path, sizeof(file->path), "%s", asked);
	else
		error = default_path(file->path, why);
	if (error)
		return error;
	fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && !asked) {
		error = key_file_make(file->path);
		fd = error ? -1 : open(file->path, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0) {
		error = error ? error : -errno;
		snprintf(why, KEY_FILE_WHY_LENGTH,
			"no key: %s: %s; copy the file from a node that has one, or make it: "
			"(umask 077; openssl rand -hex 32 > FILE)",
			file->path, strerror(-error));
		return error;
	}
	error = read_key(fd, file, why);
	close(fd);
	return error;
}

int key_file_or_munge(const char *asked, const char *munge_socket, struct key_file *file,
	struct credential **credential, char why[KEY_FILE_WHY_LENGTH])
{
	int error;

	if (asked || credential_open(munge_socket, credential) < 0)
		*credential = NULL;
	error = key_file_load(asked, file, why);
	if (error < 0)
		file->path[0] = '\0';
	return *credential ? 0 : error;
}
