// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// A live page as its owner has it: written by one thread of the heap, removed with the heap.

#include <atomic>
#include <boost/interprocess/mapped_region.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "device/simt/atomic.cuh"
#include "runtime/live/live_format.hpp"
#include "runtime/live/live_process.hpp"

namespace orchard::live {

/// A word of a page. Other processes may write any bytes into it.
using shared_word = simt::host_word<std::uint64_t>;
static_assert(sizeof(shared_word) == word_bytes);

/// A command that a reader has sent.
struct request {
    std::uint64_t ticket = 0;
    command kind = command::none;  ///< may be a number outside the enumeration
    std::uint64_t number = 0;
    std::string argument;
};

/// The page of one heap. One thread at a time calls its functions, except `acknowledge`.
class live_page {
public:
    /// Makes the page of heap `heap` of this process, readable and writable by this user alone (mode 0600). A page of
    /// that name that an ended process has left is replaced.
    ///
    /// Errors: PermissionDenied, ResourceExhausted and others of the system's, with the name and the remedy.
    /// @param fields  the table; `publish` gets their words in this order
    static absl::StatusOr<std::unique_ptr<live_page>> create(std::uint32_t heap,
                                                             std::span<const field_description> fields);

    /// As `end`.
    ~live_page() { end(); }
    live_page(const live_page&) = delete;
    live_page& operator=(const live_page&) = delete;

    [[nodiscard]] const page_name& name() const { return name_; }
    /// Returns the number of words of all values.
    [[nodiscard]] std::size_t values_words() const { return values_words_; }

    /// Shows new values: `values_words` of them. Readers see all or none. Cost: a store for each word.
    void publish(std::span<const std::uint64_t> values);
    /// Says that the heap has ended, and removes the page. Readers that have it open still see the last values. Does
    /// nothing the second time, nor in a process that was forked from the owner's.
    void end();
    /// Shows that the owner is alive.
    void beat(std::uint64_t now_ns);
    /// Returns true if a reader has asked for the device's counters since a few seconds.
    [[nodiscard]] bool is_watched(std::uint64_t now_ns) const;

    /// Returns the command that was sent since the last call; nothing if there is none. The next one is taken after
    /// `acknowledge`. Whatever other processes have written is returned as it is, with a text of printable characters.
    std::optional<request> next_request();
    /// Answers a command. Any thread.
    void acknowledge(std::uint64_t ticket, const absl::Status& status, std::string_view result);

private:
    live_page(page_name name, boost::interprocess::mapped_region region, std::span<const field_description> fields);

    [[nodiscard]] shared_word& at(header h) const { return words_[static_cast<std::uint32_t>(h)]; }
    [[nodiscard]] shared_word& at(command_word w) const { return words_[header_words + static_cast<std::uint32_t>(w)]; }

    page_name name_;
    boost::interprocess::mapped_region region_;
    shared_word* words_;
    std::uint32_t values_first_ = 0;
    std::size_t values_words_ = 0;
    std::uint64_t sequence_ = 0;
    bool has_ended_ = false;
    std::uint64_t taken_ = 0;                 ///< ticket of the newest command that was returned
    std::atomic<std::uint64_t> answered_{0};  ///< ticket of the newest one that was acknowledged
};

}  // namespace orchard::live
