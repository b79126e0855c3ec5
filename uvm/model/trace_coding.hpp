// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// The bytes of a trace file: its header, and how the steps of a warp are coded. All numbers are little-endian.
///
///     byte  0      8        12     16     24     32        40             48        56
///          | magic| version| warps| space| steps| accesses| bytes of body| checksum | body ...
///
///     body:   blocks, each of some consecutive steps of one warp:   warp | steps | bytes | those steps
///     step:   head | lanes | kinds | differences
///     head:   bit 0: the lanes are those of the warp's step before, and `lanes` (a mask) is left out
///             bits 1-2: the kind of all accesses; 3: `kinds` has two bits for each, four accesses a byte, lowest first
///             bit 3: there is one difference, which all lanes have in common
///             bits 4-7: 0
///
/// A lane's difference is its address less its last one in this warp (at first 0); the coded number is that less the
/// difference of the lane before it in this step, zigzag. Lanes that walk alike so cost a byte each, or, with bit 3,
/// nothing. Numbers without a fixed size have 7 bits a byte, lowest first, and the upper bit where more follow.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "uvm/model/access.hpp"

namespace orchard::uvm_model {

/// The first bytes of every trace file.
inline constexpr std::string_view trace_magic = "ORCHTRCE";
/// The version of the format that this code writes, and the only one that it reads.
inline constexpr std::uint32_t trace_version = 1;
/// Bytes before the body; the last 8 of them are the checksum.
inline constexpr std::size_t trace_header_bytes = 56;
/// The most warps of a trace.
inline constexpr std::uint32_t max_trace_warps = 1u << 22;
/// The bytes of the body according to the header of a file whose writer has not finished.
inline constexpr std::uint64_t unfinished_body = ~std::uint64_t{0};

/// The fields of a header between magic and checksum.
struct trace_header {
    std::uint32_t version = trace_version;
    std::uint32_t warps = 0;
    std::uint64_t space_bytes = 0;  ///< addresses are below it
    std::uint64_t steps = 0;        ///< of all warps
    std::uint64_t accesses = 0;
    std::uint64_t body_bytes = unfinished_body;
};

/// Returns the 48 bytes of a header before its checksum.
std::string to_bytes(const trace_header& h);
/// The inverse of `to_bytes`; `bytes`: at least 48.
trace_header header_from(std::string_view bytes);

/// Write `number` into 8 bytes, and read it from there.
void put_u64(std::string& out, std::uint64_t number);
std::uint64_t get_u64(std::string_view bytes);

/// FNV-1a of 64 bits, continued from `so_far`; a change of one byte changes the result. The checksum of a file is that
/// of its body followed by the 48 bytes of its header before the checksum. Cost: about 1 ns a byte.
inline constexpr std::uint64_t checksum_of_nothing = 0xcbf29ce484222325;
std::uint64_t checksum(std::string_view bytes, std::uint64_t so_far = checksum_of_nothing);

/// Appends `number`, 7 bits a byte.
void put_number(std::string& out, std::uint64_t number);

/// Reads a body. The first fault is kept, and all later reads return 0.
class trace_bytes {
public:
    explicit trace_bytes(std::string_view bytes) : at_{bytes.data()}, end_{bytes.data() + bytes.size()} {}

    /// Return whether nothing is left, after a fault as well, and the number of bytes left.
    [[nodiscard]] bool empty() const { return at_ == end_; }
    [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
    /// Return the next byte, and the next number of 7 bits a byte. A fault if the bytes end, or if a number has more
    /// than 64 bits.
    std::uint8_t byte();
    std::uint64_t number();
    /// Returns the next `count` bytes and skips them. A fault if there are fewer.
    std::string_view take(std::uint64_t count);

    /// Returns the first fault; null if there is none.
    [[nodiscard]] const char* fault() const { return fault_; }
    /// Notes a fault, unless there is one already, and skips all that is left, so that loops over the bytes end.
    void fail(const char* why) {
        fault_ = fault_ == nullptr ? why : fault_;
        at_ = end_;
    }

private:
    const char* at_;               ///< the next byte
    const char* end_;              ///< behind the last byte
    const char* fault_ = nullptr;  ///< a string literal
};

/// The state of a warp that coder and decoder keep from step to step.
struct warp_history {
    std::array<std::uint64_t, max_lanes> last{};  ///< last address of each lane
    std::uint32_t lanes = 0;                      ///< lanes of the last step
};

/// Appends a step with 1 to 32 accesses, lanes ascending. Cost: a few ns an access.
void encode_step(warp_history& history, std::span<const access> step, std::string& out);

/// Reads a step into `out` and returns the number of its accesses; 0 if `in` has a fault, now or from before. Every
/// address is below `space_bytes`. Cost: a few ns an access.
std::size_t decode_step(warp_history& history, std::uint64_t space_bytes, trace_bytes& in, step_buffer out);

}  // namespace orchard::uvm_model
