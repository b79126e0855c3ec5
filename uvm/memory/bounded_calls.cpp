// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The thread that makes calls for callers that wait only until a deadline; bounded_calls.hpp has the states.
///
///     caller                          `call_`            the thread
///     run(a)  hands a over            a                  begins a
///             waits ... deadline      a                  still in a
///             DeadlineExceeded        a
///     run(b)  DeadlineExceeded        a                  still in a: b is not begun
///                                     empty              a ends; its result is dropped
///     run(c)  hands c over            c                  begins c

#include "uvm/memory/bounded_calls.hpp"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace orchard::detail {

/// The bound of a day keeps the end of a wait within the clock's range: the conversion of an infinite duration to
/// nanoseconds, added to the present time, would overflow.
bounded_calls::bounded_calls(absl::Duration patience, std::string remedy)
    : patience_{std::min(patience, absl::Hours(24))}, remedy_{std::move(remedy)}, thread_{[this] { serve(); }} {}

/// The join waits for the call under way. The owner relies on this: it frees the memory of the call afterwards.
bounded_calls::~bounded_calls() {
    {
        const std::scoped_lock lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

// A call that has been handed over is made even if the object is ending: `ends_` counts only while there is none. The
// mutex is not held during the call, so that `is_idle` and `run` of others return at once.
void bounded_calls::serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return call_ != nullptr || ends_; });
        if (call_ == nullptr) {
            return;
        }
        lock.unlock();
        absl::Status result = call_();  // no other thread changes `call_` before it is empty
        lock.lock();
        result_ = std::move(result);
        call_ = nullptr;
        changed_.notify_all();
    }
}

/// A text of its own tells the user that this call had no effect at all, unlike a call that was begun and is late.
absl::Status bounded_calls::still_busy(const std::string& what) const {
    return absl::DeadlineExceededError(
        absl::StrFormat("%s was not begun: an earlier call, which did not end within %s, is still under way; %s", what,
                        absl::FormatDuration(patience_), remedy_));
}

// The result is stored before `call_` becomes empty, both with the mutex held. A call that ends after its deadline
// stores a result, too, which the next `begin` drops.
absl::Status bounded_calls::run(const std::string& what, call made) {
    const absl::Status begun = begin(what, std::move(made));
    return begun.ok() ? finish(what) : begun;
}

absl::Status bounded_calls::begin(const std::string& what, call made) {
    const std::scoped_lock lock(mutex_);
    if (call_ != nullptr) {
        return still_busy(what);
    }
    call_ = std::move(made);
    result_ = absl::OkStatus();  // not that of a late call
    changed_.notify_all();
    return absl::OkStatus();
}

absl::Status bounded_calls::finish(const std::string& what) {
    std::unique_lock lock(mutex_);
    // The wait releases the mutex, so that the thread can take the call, and takes it again at the end.
    if (!changed_.wait_for(lock, absl::ToChronoNanoseconds(patience_), [this] { return call_ == nullptr; })) {
        return absl::DeadlineExceededError(
            absl::StrFormat("%s did not end within %s; %s", what, absl::FormatDuration(patience_), remedy_));
    }
    // Leaves OK behind, so that no text of an old error is kept.
    return std::exchange(result_, absl::OkStatus());
}

absl::Status bounded_calls::check_idle(const std::string& what) const {
    return is_idle() ? absl::OkStatus() : still_busy(what);
}

/// The mutex makes the result current. It is held only for short moments, and by no thread during a call, so that this
/// function returns at once.
bool bounded_calls::is_idle() const {
    const std::scoped_lock lock(mutex_);
    return call_ == nullptr;
}

}  // namespace orchard::detail
