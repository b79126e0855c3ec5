// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#include "tests/faults/failing_calls.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>

namespace orchard::test {
namespace {

constexpr std::uint32_t no_call = static_cast<std::uint32_t>(failing_call::count_);

std::atomic<std::uint32_t> chosen{no_call};  // a `failing_call`
std::atomic<std::uint32_t> calls_left{0};
std::atomic<bool> stays{false};
std::atomic<bool> has_come{false};

/// Returns whether this call is to fail.
bool fails(failing_call call) {
    if (chosen.load(std::memory_order_acquire) != static_cast<std::uint32_t>(call)) {
        return false;
    }
    std::uint32_t left = calls_left.load(std::memory_order_relaxed);
    while (left != 0 && !calls_left.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    const bool now = left == 1 || (left == 0 && stays.load(std::memory_order_relaxed));
    if (now) {
        has_come.store(true, std::memory_order_relaxed);
    }
    return now;
}

/// Returns the function of the same name that the program would call without this file.
template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

const char* name_of(failing_call call) {
    constexpr std::array<const char*, no_call> names{"mmap", "mprotect", "pthread_create"};
    return names.at(static_cast<std::uint32_t>(call));
}

failure_of_call::failure_of_call(failing_call call, std::uint32_t nth, how until) {
    calls_left.store(nth, std::memory_order_relaxed);
    stays.store(until == how::from_then_on, std::memory_order_relaxed);
    has_come.store(false, std::memory_order_relaxed);
    chosen.store(static_cast<std::uint32_t>(call), std::memory_order_release);
}

failure_of_call::~failure_of_call() { chosen.store(no_call, std::memory_order_release); }

bool failure_of_call::came() const { return has_come.load(std::memory_order_relaxed); }

}  // namespace orchard::test

// The names and the parameters are the C library's.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) noexcept {
    static auto* const real = orchard::test::next<decltype(mmap)>("mmap");
    if (orchard::test::fails(orchard::test::failing_call::mmap)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real(address, length, protection, flags, file, offset);
}

int mprotect(void* address, std::size_t length, int protection) noexcept {
    static auto* const real = orchard::test::next<decltype(mprotect)>("mprotect");
    if (orchard::test::fails(orchard::test::failing_call::mprotect)) {
        errno = ENOMEM;
        return -1;
    }
    return real(address, length, protection);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
    static auto* const real = orchard::test::next<decltype(pthread_create)>("pthread_create");
    return orchard::test::fails(orchard::test::failing_call::pthread_create) ? EAGAIN
                                                                             : real(thread, attributes, body, argument);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
