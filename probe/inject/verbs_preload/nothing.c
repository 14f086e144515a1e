/* SPDX-License-Identifier: Apache-2.0 */
/* libslowrank_nothing_32.so: what programs of 32 bits find in the place of libslowrank_verbs.so, so that their loader is content. */
__attribute__((visibility("default"))) void slowrank_nothing(void);

void slowrank_nothing(void)
{
}
