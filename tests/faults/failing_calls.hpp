// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Calls of the C library that fail on demand. The program defines these functions itself, so that the library, Orchard
/// and the C++ runtime come here first. (The C library's own calls, of `malloc` for instance, do not.)

#include <cstdint>

namespace orchard::test {

enum class failing_call : std::uint32_t { mmap, mprotect, pthread_create, count_ };

/// Returns the function's name.
const char* name_of(failing_call call);

/// While it lives, one call of a function fails: the `nth` that any thread makes, counted from 1; or also all behind
/// it. Errors: ENOMEM; EAGAIN of `pthread_create`. One at a time.
class failure_of_call {
public:
    enum class how : std::uint32_t { once, from_then_on };

    failure_of_call(failing_call call, std::uint32_t nth, how until);
    ~failure_of_call();
    failure_of_call(const failure_of_call&) = delete;
    failure_of_call& operator=(const failure_of_call&) = delete;

    /// Returns whether a call has failed.
    [[nodiscard]] bool came() const;
};

}  // namespace orchard::test
