// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A function that is called at each launch, so that a program can mark its phases for profilers, or a test can make a
/// launch fail. None by default.

#include <atomic>
#include <string_view>

namespace orchard::simt {

/// Two functions that `launch` calls on the launching thread, before the kernel is launched and after it has ended.
/// `enqueue` calls the second one on CUDA when the kernel is launched.
/// @param kernel  a text with the type of the kernel: the compiler's name of a function whose parameter it is
struct launch_watch {
    void (*begins)(const char* kernel);
    void (*ends)();
    /// For tests: returns the error with which the launch ends, before a lane runs; null: it is carried out. Called
    /// behind `begins`. Null: no launch is refused.
    const char* (*refuses)(const char* kernel) = nullptr;
};

/// Returns the name of a kernel, without namespaces and arguments of the template.
/// @param function  the compiler's name of a function whose parameter is the type `Kernel`
constexpr std::string_view kernel_name(std::string_view function) {
    constexpr std::string_view before = "Kernel = ";
    if (const std::size_t at = function.find(before); at != std::string_view::npos) {
        function.remove_prefix(at + before.size());
    }
    // The type's arguments are cut off first: they may have names of other types.
    function = function.substr(0, function.find_first_of("<;]"));
    if (const std::size_t at = function.rfind("::"); at != std::string_view::npos) {
        function.remove_prefix(at + 2);
    }
    return function;
}

/// Null: nobody is told. Set once, before the launches; what it points to stays.
inline std::atomic<const launch_watch*> watched_launches{nullptr};

/// Tells of one launch, from its constructor to its destructor. Cost if nobody is told: a load.
class launch_notice {
public:
    explicit launch_notice(const char* kernel) : watch_{watched_launches.load(std::memory_order_acquire)} {
        if (watch_ != nullptr) {
            watch_->begins(kernel);
            refusal_ = watch_->refuses != nullptr ? watch_->refuses(kernel) : nullptr;
        }
    }
    ~launch_notice() {
        if (watch_ != nullptr) {
            watch_->ends();
        }
    }
    launch_notice(const launch_notice&) = delete;
    launch_notice& operator=(const launch_notice&) = delete;

    /// Returns the error with which the launch must end; null if it is to be carried out.
    [[nodiscard]] const char* refusal() const { return refusal_; }

private:
    const launch_watch* watch_;
    const char* refusal_ = nullptr;
};

}  // namespace orchard::simt
