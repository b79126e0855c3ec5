// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Recorded accesses, in memory and in files: docs/uvm_traces.md. The format is drawn in uvm/model/trace_coding.hpp.
///
///     access_source --trace::from--> trace --encoded--> a file
///                                      ^                  |
///     steps --trace_writer--> a file --+--trace::load-----+          trace --source--> access_source --> paging_model
///
/// A trace stays encoded in memory; a reader decodes one step at a time.

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "uvm/model/access.hpp"
#include "uvm/model/trace_coding.hpp"

namespace orchard::uvm_model {

/// A recorded trace, all of which has been checked, so that reading its steps cannot fail. Copies share the bytes.
class trace {
public:
    /// Returns the trace in the bytes of a file. Errors: DataLoss that names the fault (too short, no trace,
    /// unfinished, cut off, checksum, an address beyond the space, a lane beyond 31, ...); Unimplemented for another
    /// version; no other error, whatever the bytes are. Cost: 5 to 20 ns an access.
    static absl::StatusOr<trace> parse(std::string bytes);
    /// Returns the trace in the file `path`. Errors: those of `parse`, with the path; InvalidArgument for a folder;
    /// NotFound or the system's text if the file cannot be read; ResourceExhausted if the header states more than 16
    /// GiB. A header that states more than the file has does not take memory: the file is read in parts.
    static absl::StatusOr<trace> load(const std::string& path);
    /// Returns all accesses of `source` (a pattern, or a recording) as a trace. Errors: InvalidArgument if the source
    /// breaks its contract.
    static absl::StatusOr<trace> from(access_source& source);

    /// Returns the header: numbers of warps, steps and accesses, and the bytes of the space.
    [[nodiscard]] const trace_header& header() const;
    /// Returns the contents of a file with this trace. A program writes it by `command_line::write_file`, readable by
    /// the owner alone.
    [[nodiscard]] const std::string& encoded() const;
    /// Returns a new reader that starts at the beginning; it keeps the bytes alive. In addition to the contract, it may
    /// start again: step 0 may be requested at any time. Cost: 4 to 18 ns an access; up to 1 KiB for each requested
    /// warp.
    [[nodiscard]] std::unique_ptr<access_source> source() const;

private:
    /// The bytes with the places of all blocks, and the decoder of their steps; trace_file.cpp defines both.
    struct image;
    class reader;
    explicit trace(std::shared_ptr<const image> i) : image_{std::move(i)} {}

    std::shared_ptr<const image> image_;
};

/// Writes a trace to a stream while its steps arrive; steps of different warps may come in any order. 4 KiB of memory
/// for each warp. The data before `finish` is no trace, and readers reject it as unfinished.
class trace_writer {
public:
    /// `out`: binary, supports seeking, outlives the writer; the trace begins at its current position. Addresses must
    /// be below `space_bytes`. Errors: InvalidArgument for no warps, or for more than 2^22; the stream's own.
    static absl::StatusOr<trace_writer> create(std::ostream& out, std::uint64_t space_bytes, std::uint32_t warps);

    /// Adds the next step of `warp`: 1 to 32 accesses, lanes ascending. Errors: InvalidArgument for any other step, or
    /// for an address beyond the space; Unavailable if the stream fails.
    absl::Status add(std::uint32_t warp, std::span<const access> step);

    /// Completes the file; no step may be added afterwards. Errors: Unavailable if the stream fails.
    absl::Status finish();

private:
    /// The steps of a warp that are encoded and not written yet.
    struct open_block {
        warp_history history;     ///< continues from block to block
        std::uint64_t steps = 0;  ///< steps in `bytes`
        std::string bytes;        ///< at most a step more than 4 KiB
    };

    trace_writer(std::ostream& out, std::uint64_t space_bytes, std::uint32_t warps);
    // Each is described at its definition.
    [[nodiscard]] absl::Status check(std::uint32_t warp, std::span<const access> step) const;
    void write(std::string_view body);
    void close(std::uint32_t warp, open_block& block);
    [[nodiscard]] absl::Status state() const;

    std::ostream* out_;
    std::int64_t begin_;                              // position of the header in the stream
    trace_header header_;                             ///< with the counts so far; written to the stream by `finish`
    std::uint64_t checksum_ = checksum_of_nothing;    // of the body so far
    std::vector<std::unique_ptr<open_block>> warps_;  ///< null: the warp has no step yet
};

}  // namespace orchard::uvm_model
