// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// The contract, on a heap of each published policy.

#define ORCHARD_TEST_POLICIES 1

#include "tests/contract/lifetime_test.cu"
