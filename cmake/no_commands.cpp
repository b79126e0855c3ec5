// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

// An object library needs a source, also in a checkout that has neither examples nor profiling.
