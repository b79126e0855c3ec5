// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// ORCHARD_SEPARABLE: 1 where device code is compiled to be linked with other device code (nvcc -rdc=true), else 0.
/// Apart from config.cuh, which needs C++17.

#if defined(__CUDACC_RDC__)
#define ORCHARD_SEPARABLE 1
#else
#define ORCHARD_SEPARABLE 0
#endif
