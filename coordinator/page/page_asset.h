/* SPDX-License-Identifier: Apache-2.0 */
/* assets/ as one page, with a NUL behind it: made by page.cmake. */
#ifndef SLOWRANK_COORDINATOR_PAGE_PAGE_ASSET_H
#define SLOWRANK_COORDINATOR_PAGE_PAGE_ASSET_H

extern const unsigned char page_asset[];

#endif
