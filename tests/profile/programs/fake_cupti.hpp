// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// What the library that stands in for CUPTI has besides CUPTI's functions. A program that stands in for one with CUDA
/// finds these functions by name, and tells the library what happens.
///
/// The variable FAKE_CUPTI, words between commas, makes it fail:
///
///     old             its version is of CUDA 11
///     no_kernels      it refuses records of kernels for lack of privileges
///     no_unified      it refuses records of unified memory
///     few_counters    it knows four counters of unified memory, as old releases
///     no_subscriber   another tool has subscribed
///     no_samples      it refuses to sample for lack of privileges
///     dropped         it has dropped 7 records
///     broken          it finds no record behind the first one

#include <cstddef>

/// Calls the subscriber back: a resource callback of CUPTI's.
using fake_event_function = void (*)(unsigned what);
/// Adds a record, of the form that the kind has, to those that the next flush gives to the caller.
using fake_record_function = void (*)(const void* record, std::size_t bytes);
inline constexpr char fake_event_name[] = "fake_cupti_event";
inline constexpr char fake_record_name[] = "fake_cupti_record";
