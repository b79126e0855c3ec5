// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The writer of trace files; see trace_file.hpp.
///
///     create    header with "unfinished" and a checksum of 0
///     add       steps collect for each warp in a block of its own; a block of 4 KiB is written
///     finish    the blocks that are left, then the header with the counts and the checksum, over the first one
///
/// A program that is killed before `finish` leaves a file that readers reject as unfinished.

#include <ostream>

#include "absl/strings/str_format.h"
#include "uvm/model/trace_file.hpp"

namespace orchard::uvm_model {

namespace {

// A block of a warp is written when it has this length, so that the few bytes of its header do not matter.
constexpr std::size_t block_bytes = 4096;

}  // namespace

/// The header counts the body's bytes from 0 on, although the stream says "unfinished" until the end.
trace_writer::trace_writer(std::ostream& out, std::uint64_t space_bytes, std::uint32_t warps)
    : out_{&out}, begin_{static_cast<std::int64_t>(out.tellp())}, warps_(warps) {
    header_.space_bytes = space_bytes;
    header_.warps = warps;
    header_.body_bytes = 0;
}

absl::StatusOr<trace_writer> trace_writer::create(std::ostream& out, std::uint64_t space_bytes, std::uint32_t warps) {
    if (warps == 0 || warps > max_trace_warps) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a trace of %d warps: it has 1 to %d", warps, max_trace_warps));
    }
    trace_writer writer(out, space_bytes, warps);
    // Written now, so that the body begins at its final position and an unfinished file can be told from a finished
    // one.
    std::string header = to_bytes({.warps = warps, .space_bytes = space_bytes, .body_bytes = unfinished_body});
    put_u64(header, 0);
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    if (absl::Status s = writer.state(); !s.ok()) {
        return s;
    }
    return writer;
}

/// Returns the error of the stream. `begin_` is negative if the stream could not tell its position; such a stream (a
/// pipe) cannot go back to the header.
absl::Status trace_writer::state() const {
    return out_->good() && begin_ >= 0 ? absl::OkStatus()
                                       : absl::UnavailableError(
                                             "a trace cannot be written: its stream has failed; it "
                                             "must be able to seek, and have room");
}

/// Checks a step before anything of it is encoded: a rejected step changes nothing. The decoder makes the same checks,
/// so that every trace that was written can be read.
absl::Status trace_writer::check(std::uint32_t warp, std::span<const access> step) const {
    if (warp >= header_.warps) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a step of warp %d: the trace has %d warps", warp, header_.warps));
    }
    if (step.empty() || step.size() > max_lanes) {
        return absl::InvalidArgumentError(
            absl::StrFormat("a step of warp %d with %d accesses: it has 1 to %d", warp, step.size(), max_lanes));
    }
    for (std::size_t i = 0; i < step.size(); ++i) {
        const access& a = step[i];
        if (a.lane >= max_lanes || (i != 0 && a.lane <= step[i - 1].lane)) {
            return absl::InvalidArgumentError(absl::StrFormat(
                "lane %d at place %d of a step of warp %d: lanes are 0 to 31 and ascend", a.lane, i, warp));
        }
        if (a.address >= header_.space_bytes) {
            return absl::InvalidArgumentError(absl::StrFormat("address %d of warp %d, lane %d: the space has %d bytes",
                                                              a.address, warp, a.lane, header_.space_bytes));
        }
        if (a.kind > access_kind::atomic) {
            return absl::InvalidArgumentError(
                absl::StrFormat("an access of warp %d that is neither read, write nor "
                                "atomic, but %d",
                                warp, static_cast<int>(a.kind)));
        }
    }
    return absl::OkStatus();
}

absl::Status trace_writer::add(std::uint32_t warp, std::span<const access> step) {
    if (absl::Status s = check(warp, step); !s.ok()) {
        return s;
    }
    std::unique_ptr<open_block>& block = warps_[warp];
    if (block == nullptr) {
        block = std::make_unique<open_block>();
    }
    encode_step(block->history, step, block->bytes);
    ++block->steps;
    ++header_.steps;
    header_.accesses += step.size();
    if (block->bytes.size() < block_bytes) {
        return absl::OkStatus();
    }
    close(warp, *block);
    return state();
}

/// Writes bytes of the body, and adds them to its checksum and length. Errors of the stream are found by `state`.
void trace_writer::write(std::string_view body) {
    out_->write(body.data(), static_cast<std::streamsize>(body.size()));
    checksum_ = checksum(body, checksum_);
    header_.body_bytes += body.size();
}

/// Writes the steps of a warp as one block, and begins the next one. The history stays: a warp's first step of a block
/// refers to its last step of the block before.
void trace_writer::close(std::uint32_t warp, open_block& block) {
    std::string head;
    put_number(head, warp);
    put_number(head, block.steps);
    put_number(head, block.bytes.size());
    write(head);
    write(block.bytes);
    block.steps = 0;
    block.bytes.clear();
}

/// The checksum covers the header, too; hence the counts come first, then the checksum of body and counts. The stream
/// is left behind the trace, so that a caller can write more.
absl::Status trace_writer::finish() {
    for (std::uint32_t w = 0; w < header_.warps; ++w) {
        if (warps_[w] != nullptr && warps_[w]->steps != 0) {
            close(w, *warps_[w]);
        }
    }
    warps_.clear();
    std::string header = to_bytes(header_);
    put_u64(header, checksum(header, checksum_));
    const std::ostream::pos_type end = out_->tellp();
    out_->seekp(begin_);
    out_->write(header.data(), static_cast<std::streamsize>(header.size()));
    out_->seekp(end);
    out_->flush();
    return state();
}

}  // namespace orchard::uvm_model
