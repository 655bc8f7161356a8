/* A check that ends the program with its line and errno. */
#ifndef TOWPATH_DRM_SHIM_CHECK_H
#define TOWPATH_DRM_SHIM_CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                     \
	do {                                                                 \
		if (!(condition)) {                                          \
			fprintf(stderr, "line %d: " #condition " (errno %d)\n", __LINE__, errno); \
			exit(1);                                             \
		}                                                            \
	} while (0)

#endif
