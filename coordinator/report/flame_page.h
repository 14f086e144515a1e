/* SPDX-License-Identifier: Apache-2.0 */
/* flame_page.html, as it is, with a NUL behind it: made by CMakeLists.txt. */
#ifndef SLOWRANK_COORDINATOR_REPORT_FLAME_PAGE_H
#define SLOWRANK_COORDINATOR_REPORT_FLAME_PAGE_H

extern const unsigned char flame_page[];

#endif
