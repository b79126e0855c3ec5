// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Live pages of other processes: which there are, what they say, and commands to their heaps.

#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/live/live_format.hpp"
#include "runtime/live/live_page.hpp"
#include "runtime/live/live_process.hpp"
#include "runtime/live/live_snapshot.hpp"

namespace orchard::live {

/// Returns the names of all pages on this machine, of living and of ended processes, by process and heap.
std::vector<page_name> find_pages();

/// Removes a page that an ended process has left, or one that ended and whose number another process has now. Returns
/// true if it was such a page, and this user may remove it. A page whose process lives stays, whatever is in it.
bool remove_if_stale(const page_name& name);

/// Removes all such pages. Returns the names of the others.
std::vector<page_name> living_pages();

/// An open page of another process. One thread uses it. The owner is not disturbed, whatever happens to this process.
class live_reader {
public:
    /// Opens a page.
    ///
    /// Errors, each with the name: NotFound if there is none, or if its owner has ended (the page is removed then);
    /// PermissionDenied if it is another user's; those of `check_header`.
    static absl::StatusOr<live_reader> open(const page_name& name);

    /// Returns what the page says now. Errors: NotFound if its heap or its process has ended; DataLoss if it was cut
    /// off, or as `parse`; Unavailable if the owner was stopped while it wrote, and does not go on within a second.
    absl::StatusOr<snapshot> read();

    /// Tells the heap that somebody watches for the next `span`: it then reads the device's counters, too.
    void watch(absl::Duration span = absl::Seconds(5));

    /// Sends a command, waits for it, and returns the text of the answer.
    ///
    /// Errors: what the heap answered; NotFound if its process ends; DeadlineExceeded if the heap has not answered
    /// within `limit`, or works on another reader's command: what was sent may then still be done. InvalidArgument for
    /// an argument of more than 255 bytes.
    absl::StatusOr<std::string> send(command what, std::uint64_t number, std::string_view argument,
                                     absl::Duration limit);

    [[nodiscard]] const page_name& name() const { return name_; }

private:
    live_reader(page_name name, boost::interprocess::shared_memory_object object,
                boost::interprocess::mapped_region region)
        : name_{name},
          object_{std::move(object)},
          region_{std::move(region)},
          words_{static_cast<shared_word*>(region_.get_address())} {}

    [[nodiscard]] shared_word& at(header h) const { return words_[static_cast<std::uint32_t>(h)]; }
    [[nodiscard]] shared_word& at(command_word w) const {
        return words_[command_first_ + static_cast<std::uint32_t>(w)];
    }
    [[nodiscard]] absl::Status check_size() const;
    [[nodiscard]] absl::Status check_owner() const;
    absl::Status claim(std::uint64_t mark, absl::Time end);
    absl::StatusOr<std::string> post(command what, std::uint64_t number, std::string_view argument, absl::Time end);
    bool copy(std::vector<std::uint64_t>& to) const;

    page_name name_;
    boost::interprocess::shared_memory_object object_;
    boost::interprocess::mapped_region region_;
    shared_word* words_;
    std::uint64_t start_ticks_ = 0;
    std::uint32_t command_first_ = 0;  ///< 0: the page has no command block that this program knows
};

}  // namespace orchard::live
