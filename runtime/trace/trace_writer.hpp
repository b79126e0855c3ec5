// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "host/events/event_sink.hpp"
#include "runtime/trace/trace_format.hpp"

namespace orchard {

/// Writes the events of a heap to a trace file (trace_format.hpp).
///
/// The file grows while the heap runs, section by section, and is a valid trace after `finish` alone. Its mode is 0600,
/// since a trace shows what a program does to its memory.
class trace_writer final : public event_sink {
public:
    /// Makes the file, or replaces what is there, and writes the header. Events that would make the file longer than
    /// `limit` bytes are counted only; the footer may go beyond it. Errors: InvalidArgument with the path and the
    /// system's text.
    static absl::StatusOr<std::unique_ptr<trace_writer>> open(const std::string& path, const trace_info& info,
                                                              std::uint64_t limit);
    /// Calls `finish`, if nobody has.
    ~trace_writer() override;

    void take(std::span<const event> events) override;
    void lost(std::uint64_t count) override { counts_.lost += count; }

    /// Writes the footer and closes the file. The log must not call this sink any more. Errors: Unknown with the path
    /// and the system's text, of the first write that failed; the file is then no whole trace.
    absl::Status finish(std::uint64_t lost_notes, const trace_waits& waits,
                        const std::map<std::uint32_t, std::string>& names);

    /// Returns the counts so far; of the log's thread, and after `finish`.
    [[nodiscard]] const trace_counts& counts() const { return counts_; }
    [[nodiscard]] std::uint64_t bytes() const { return written_; }
    /// Returns the tags of blocks, but for 0, at most 65,536 of them.
    [[nodiscard]] const std::set<std::uint32_t>& tags() const { return tags_; }

private:
    trace_writer(std::string path, std::FILE* file, std::uint64_t limit);
    void end_section();
    void write(std::string_view text);

    std::string path_;
    std::FILE* file_;
    std::uint64_t limit_;
    std::uint64_t written_ = 0;
    bool is_full_ = false;
    absl::Status status_;
    trace_counts counts_;
    std::set<std::uint32_t> tags_;
    std::string content_;
    std::uint32_t in_section_ = 0;
    detail::trace::delta_state state_;
};

}  // namespace orchard
