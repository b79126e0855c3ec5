// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#define ORCHARD_TEST_POLICIES 1
#include "tests/lane_chunks/contents_test.cu"
