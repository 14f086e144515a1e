/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file is given to processes that would like it to be written somewhere else: over a file of
 * root's, by a descriptor, a mount or a link of theirs. They are another user's where we are root.
 */
#include "probe/attach/load_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#define NAME "libslowrank_inject.so"
#define VICTIM "what must stay as it is\n"

enum { OTHER_USER = 65534, DESCRIPTOR = 100, LIBRARY_BYTES = 200000 };

/* All in one folder: library, expected, victim/file, root/. */
static char folder[64], library[96], victim_folder[96], victim[96], expected[96], root[96];

static const char *in(const char *path)
{
	static char full[4][256];
	static unsigned turn;

	snprintf(full[++turn % 4], sizeof(full[0]), "%s%s", root, path);
	return full[turn % 4];
}

static void write_file(const char *path, const char *text, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, bytes), bytes);
	assert_int_equal(close(fd), 0);
}

static int set_up(void **state)
{
	static char text[LIBRARY_BYTES];

	(void)state;
	strcpy(folder, "/tmp/slowrank-file-XXXXXX");
	if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
		return -1;
	snprintf(library, sizeof(library), "%s/library", folder);
	snprintf(victim_folder, sizeof(victim_folder), "%s/victim", folder);
	snprintf(victim, sizeof(victim), "%s/victim/file", folder);
	snprintf(expected, sizeof(expected), "%s/expected", folder);
	snprintf(root, sizeof(root), "%s/root", folder);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 31 + i / 4096);
	write_file(library, text, sizeof(text));
	assert_int_equal(mkdir(victim_folder, 0755), 0);
	write_file(victim, VICTIM, strlen(VICTIM));
	write_file(expected, VICTIM, strlen(VICTIM));
	assert_int_equal(mkdir(root, 0755), 0);
	return mkdir(in("/dev"), 0755);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf --one-file-system '%s'", folder);
	return system(command);
}

static bool same_text(const char *path, const char *other)
{
	char command[1024];

	snprintf(command, sizeof(command), "cmp -s '%s' '%s'", path, other);
	return system(command) == 0;
}

static int64_t changed_ns(const char *path)
{
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	return status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec;
}

static void need_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("skipped: not root\n");
	skip();
}

/* A process that prepares, becomes another user, and waits. 0: it may not prepare this. */
static pid_t begin(bool (*prepare)(void))
{
	int told[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		if (!prepare())
			_exit(1);
		if (geteuid() == 0 && (setgid(OTHER_USER) < 0 || setuid(OTHER_USER) < 0))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the test fail */
		(void)!write(told[1], "", 1);
		for (;;)
			pause();
	}
	close(told[1]);
	if (read(told[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(told[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Of the process itself: made when it is the other user already. */
static bool own_memory_file(unsigned flags, const char *text)
{
	int fd;

	if (geteuid() == 0 && (setegid(OTHER_USER) < 0 || seteuid(OTHER_USER) < 0))
		return false;
	fd = memfd_create(NAME, MFD_CLOEXEC | flags);
	if (getuid() == 0 && (seteuid(0) < 0 || setegid(0) < 0))
		return false;
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) &&
	       dup2(fd, DESCRIPTOR) == DESCRIPTOR;
}

static bool ordinary(void)
{
	/* A process may move its offset at any time. */
	return own_memory_file(MFD_ALLOW_SEALING, "") && lseek(DESCRIPTOR, 5000, SEEK_SET) == 5000;
}

static void memory_file_is_filled_and_sealed(void **state)
{
	struct load_file file;
	pid_t pid = begin(ordinary);
	char path[64];
	int fd;

	(void)state;
	assert_int_equal(load_file_provide(pid, library, NAME, DESCRIPTOR, &file), 0);
	assert_int_equal(strncmp(file.path, "/proc/self/", 11), 0);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, DESCRIPTOR);
	assert_true(same_text(path, library));
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 0), -1);
	close(fd);
	load_file_remove(&file);
	end(pid);
}

/* An error comes back, no copy is made instead, and nobody's file is another than before. */
static void refuse_descriptor(bool (*prepare)(void))
{
	pid_t pid = begin(prepare);
	struct load_file file;
	int result;

	if (!pid) {
		print_message("skipped: no right to prepare this\n");
		skip();
	}
	result = load_file_provide(pid, library, NAME, DESCRIPTOR, &file);
	load_file_remove(&file);
	end(pid);
	assert_true(same_text(victim, expected));
	assert_int_equal(result, -EBADF);
}

static bool file_of_root(void)
{
	int fd = open(victim, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && dup2(fd, DESCRIPTOR) == DESCRIPTOR;
}

static bool shared_memory_of_root(void)
{
	char path[] = "/dev/shm/slowrank-file-XXXXXX";
	int fd = mkstemp(path);

	return fd >= 0 && unlink(path) == 0 && dup2(fd, DESCRIPTOR) == DESCRIPTOR;
}

static bool memory_file_of_root(void)
{
	int fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd >= 0 && dup2(fd, DESCRIPTOR) == DESCRIPTOR;
}

static bool memory_file_with_text(void)
{
	return own_memory_file(MFD_ALLOW_SEALING, "text");
}

static bool memory_file_without_seals(void)
{
	return own_memory_file(0, "");
}

static bool pipe_that_nobody_reads(void)
{
	int fds[2];

	return pipe(fds) == 0 && dup2(fds[1], DESCRIPTOR) == DESCRIPTOR;
}

static bool nothing(void)
{
	close(DESCRIPTOR);
	return true;
}

static void other_descriptors_are_refused(void **state)
{
	(void)state;
	refuse_descriptor(file_of_root);
	refuse_descriptor(memory_file_with_text);
	refuse_descriptor(memory_file_without_seals);
	refuse_descriptor(pipe_that_nobody_reads);
	refuse_descriptor(nothing);
	need_root();
	refuse_descriptor(shared_memory_of_root);
	refuse_descriptor(memory_file_of_root);
}

static bool private_mounts(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

/* A root of its own, in which the victim lies under the name that a memory file has. */
static bool named_like_a_memory_file(void)
{
	int fd;

	if (!private_mounts() || mount("none", root, "tmpfs", 0, NULL) < 0 ||
		mkdir(in("/proc"), 0755) < 0 || mount("proc", in("/proc"), "proc", 0, NULL) < 0 ||
		mknod(in("/memfd:" NAME), S_IFREG | 0644, 0) < 0 ||
		mount(victim, in("/memfd:" NAME), NULL, MS_BIND, NULL) < 0 || chdir(root) < 0 ||
		syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
		return false;
	fd = open("/memfd:" NAME, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && dup2(fd, DESCRIPTOR) == DESCRIPTOR;
}

static void name_of_a_file_is_not_believed(void **state)
{
	(void)state;
	need_root();
	refuse_descriptor(named_like_a_memory_file);
}

static bool enter_root(void)
{
	return chroot(root) == 0 && chdir("/") == 0;
}

static bool victim_mounted(void)
{
	return private_mounts() && mount(victim_folder, in("/dev/shm"), NULL, MS_BIND, NULL) == 0 &&
	       enter_root();
}

/* The root has no other folder that this user may write to: nothing is made anywhere. */
static void refuse_folder(bool (*prepare)(void))
{
	int64_t changed = changed_ns(victim_folder);
	pid_t pid = begin(prepare);
	struct load_file file;

	if (!pid) {
		print_message("skipped: no right to prepare this\n");
		skip();
	}
	assert_true(load_file_provide(pid, library, NAME, -1, &file) < 0);
	load_file_remove(&file);
	end(pid);
	assert_true(changed_ns(victim_folder) == changed);
}

static void links_and_mounts_do_not_lead_out(void **state)
{
	char upwards[128];

	(void)state;
	need_root();
	assert_int_equal(symlink(victim_folder, in("/dev/shm")), 0);
	refuse_folder(enter_root);
	assert_int_equal(unlink(in("/dev/shm")), 0);
	snprintf(upwards, sizeof(upwards), "../../../../../..%s", victim_folder);
	assert_int_equal(symlink(upwards, in("/dev/shm")), 0);
	refuse_folder(enter_root);
	assert_int_equal(unlink(in("/dev/shm")), 0);
	assert_int_equal(mkdir(in("/dev/shm"), 0755), 0);
	refuse_folder(victim_mounted);
	assert_int_equal(rmdir(in("/dev/shm")), 0);
}

static bool no_programs_in_shared_memory(void)
{
	return private_mounts() &&
	       mount("none", in("/dev/shm"), "tmpfs", MS_NOEXEC, "mode=1777") == 0 && enter_root();
}

static void copy_is_of_the_user_and_is_removed(void **state)
{
	struct load_file file;
	struct stat status;
	char made[256], moved[300];
	pid_t pid;

	(void)state;
	need_root();
	assert_int_equal(mkdir(in("/dev/shm"), 0755), 0);
	assert_int_equal(mkdir(in("/tmp"), 0755), 0);
	assert_int_equal(chmod(in("/tmp"), 01777), 0);
	pid = begin(no_programs_in_shared_memory);
	if (!pid) {
		print_message("skipped: no right to mount\n");
		skip();
	}
	assert_int_equal(load_file_provide(pid, library, NAME, -1, &file), 0);
	snprintf(made, sizeof(made), "%s", in(file.path));
	snprintf(moved, sizeof(moved), "%s.moved", made);
	assert_int_equal(strncmp(file.path, "/tmp/", 5), 0);
	assert_true(same_text(made, library));
	assert_int_equal(stat(made, &status), 0);
	assert_int_equal(status.st_uid, OTHER_USER);
	assert_int_equal(status.st_mode & 07777, 0755);
	load_file_remove(&file);
	assert_int_equal(access(made, F_OK), -1);
	/* What somebody else put in its place stays. */
	assert_int_equal(load_file_provide(pid, library, NAME, -1, &file), 0);
	assert_int_equal(rename(made, moved), 0);
	write_file(made, "", 0);
	load_file_remove(&file);
	assert_int_equal(unlink(made), 0);
	/* Nor is it written into. */
	assert_int_equal(symlink("/victim", made), 0);
	assert_true(load_file_provide(pid, library, NAME, -1, &file) < 0);
	assert_int_equal(unlink(made), 0);
	end(pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_file_is_filled_and_sealed),
		cmocka_unit_test(other_descriptors_are_refused),
		cmocka_unit_test(name_of_a_file_is_not_believed),
		cmocka_unit_test(links_and_mounts_do_not_lead_out),
		cmocka_unit_test(copy_is_of_the_user_and_is_removed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
