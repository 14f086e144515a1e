/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the libraries that go into programs of others: an older C library than the one here must be
 * able to load them, from glibc 2.28 on (RHEL 8, Ubuntu 20.04). Functions that have a newer version
 * since (most of them moved into libc.so.6 with 2.34) are bound to the one that all have. Included
 * by CMake before everything else (slowrank_old_libc in probe/CMakeLists.txt); the test
 * unit.inject.old_libc names what is missing here.
 */
#ifndef SLOWRANK_PROBE_INJECT_OLD_LIBC_H
#define SLOWRANK_PROBE_INJECT_OLD_LIBC_H

#if defined(__x86_64__)
#define OLD_LIBC_FIRST "GLIBC_2.2.5"
#define OLD_LIBC_THREAD_NAME "GLIBC_2.12"
#elif defined(__aarch64__)
#define OLD_LIBC_FIRST "GLIBC_2.17"
#define OLD_LIBC_THREAD_NAME "GLIBC_2.17"
#endif

#ifdef OLD_LIBC_FIRST
#define OLD_LIBC_BIND(name, to, version) __asm__(".symver " #name ", " #to "@" version)

OLD_LIBC_BIND(dlclose, dlclose, OLD_LIBC_FIRST);
OLD_LIBC_BIND(dladdr, dladdr, OLD_LIBC_FIRST);
OLD_LIBC_BIND(dlerror, dlerror, OLD_LIBC_FIRST);
OLD_LIBC_BIND(dlopen, dlopen, OLD_LIBC_FIRST);
OLD_LIBC_BIND(dlsym, dlsym, OLD_LIBC_FIRST);
OLD_LIBC_BIND(pthread_attr_setstacksize, pthread_attr_setstacksize, OLD_LIBC_FIRST);
OLD_LIBC_BIND(pthread_create, pthread_create, OLD_LIBC_FIRST);
OLD_LIBC_BIND(pthread_setname_np, pthread_setname_np, OLD_LIBC_THREAD_NAME);
OLD_LIBC_BIND(pthread_sigmask, pthread_sigmask, OLD_LIBC_FIRST);
/* What headers of glibc 2.38 make of strtoull(). */
OLD_LIBC_BIND(__isoc23_strtoull, strtoull, OLD_LIBC_FIRST);
#endif

#endif
