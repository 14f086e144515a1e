/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that names the version. */
#ifndef SLOWRANK_ANALYSIS_BASE_VERSION_H
#define SLOWRANK_ANALYSIS_BASE_VERSION_H
#define SLOWRANK_VERSION "0.1.0"
#endif
