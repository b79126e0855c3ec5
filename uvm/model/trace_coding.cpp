// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

/// The coding of traces; see trace_coding.hpp for the format. An example, a warp's first two steps:
///
///     step 0    lanes 0 to 31 read 0, 4, ..., 124    head: kind read, own differences
///                                                    lanes: 0xffffffff in 5 bytes
///                                                    0, 4, ..., 124, each less the one before it: 0, 4, 4,
///                                                    ..., a byte each
///     step 1    the same lanes read 128, 132, ...    head: same lanes, kind read, one difference
///                                                    128, zigzag 256: 2 bytes

#include "uvm/model/trace_coding.hpp"

#include <algorithm>
#include <bit>

namespace orchard::uvm_model {

namespace {

/// The fields of a step's head.
constexpr std::uint8_t same_lanes_bit = 1;
constexpr std::uint32_t kind_shift = 1;
constexpr std::uint8_t mixed_kinds = 3;  // in place of a kind
constexpr std::uint8_t common_difference_bit = 8;
constexpr std::uint8_t unused_bits = 0xf0;
constexpr std::uint32_t kinds_in_byte = 4;

/// Appends the low `bytes` bytes of a number, lowest first.
void put(std::string& out, std::uint64_t number, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i) {
        out.push_back(static_cast<char>(number >> (8 * i) & 0xff));
    }
}

/// Returns the number in `bytes` bytes from `at` on, lowest first.
std::uint64_t get(std::string_view from, std::size_t at, std::size_t bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
        number |= std::uint64_t{static_cast<unsigned char>(from[at + i])} << (8 * i);
    }
    return number;
}

/// Map small numbers of either sign to small numbers without one, and back: 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
/// Differences are modulo 2^64, so that nothing overflows.
std::uint64_t zigzag(std::uint64_t difference) { return difference << 1 ^ (std::uint64_t{0} - (difference >> 63)); }
std::uint64_t unzigzag(std::uint64_t number) { return number >> 1 ^ (std::uint64_t{0} - (number & 1)); }

/// Appends the kinds of a step whose accesses are of several kinds: two bits each, four in a byte, the first one
/// lowest.
void encode_kinds(std::span<const access> step, std::string& out) {
    for (std::size_t i = 0; i < step.size(); i += kinds_in_byte) {
        std::uint32_t packed = 0;
        for (std::size_t k = i; k < std::min(i + kinds_in_byte, step.size()); ++k) {
            packed |= static_cast<std::uint32_t>(step[k].kind) << (2 * (k - i));
        }
        out.push_back(static_cast<char>(packed));
    }
}

/// Reads the kinds of a step's accesses. A fault if one of them is 3, which means no kind, or if a bit behind the last
/// one is set.
void decode_kinds(trace_bytes& in, std::span<access> step) {
    std::uint32_t packed = 0;
    for (std::size_t i = 0; i < step.size(); ++i, packed >>= 2) {
        if (i % kinds_in_byte == 0) {
            packed = in.byte();
        }
        if ((packed & 3) == mixed_kinds) {
            return in.fail("an access that is neither read, write nor atomic");
        }
        step[i].kind = static_cast<access_kind>(packed & 3);
    }
    if (packed != 0) {
        in.fail("kinds of more accesses than there are");
    }
}

/// Returns the mask of a step's lanes; 0 after a fault.
std::uint32_t decode_lanes(trace_bytes& in) {
    const std::uint64_t lanes = in.number();
    if (lanes > ~std::uint32_t{0}) {
        in.fail("a lane beyond 31");
    } else if (lanes == 0) {
        in.fail("a step without accesses");
    }
    return in.fault() == nullptr ? static_cast<std::uint32_t>(lanes) : 0;
}

}  // namespace

/// The offsets of `header_from` below are those of the drawing in trace_coding.hpp.
std::string to_bytes(const trace_header& h) {
    std::string out(trace_magic);
    put(out, h.version, 4);
    put(out, h.warps, 4);
    for (const std::uint64_t number : {h.space_bytes, h.steps, h.accesses, h.body_bytes}) {
        put_u64(out, number);
    }
    return out;
}

trace_header header_from(std::string_view bytes) {
    return {.version = static_cast<std::uint32_t>(get(bytes, 8, 4)),
            .warps = static_cast<std::uint32_t>(get(bytes, 12, 4)),
            .space_bytes = get(bytes, 16, 8),
            .steps = get(bytes, 24, 8),
            .accesses = get(bytes, 32, 8),
            .body_bytes = get(bytes, 40, 8)};
}

void put_u64(std::string& out, std::uint64_t number) { put(out, number, 8); }
std::uint64_t get_u64(std::string_view bytes) { return get(bytes, 0, 8); }

std::uint64_t checksum(std::string_view bytes, std::uint64_t so_far) {
    constexpr std::uint64_t prime = 0x100000001b3;
    for (const char c : bytes) {
        so_far = (so_far ^ static_cast<unsigned char>(c)) * prime;
    }
    return so_far;
}

void put_number(std::string& out, std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) {
        out.push_back(static_cast<char>(number | 0x80));
    }
    out.push_back(static_cast<char>(number));
}

std::uint8_t trace_bytes::byte() {
    if (empty()) {
        fail("it ends in the middle of a step");
        return 0;
    }
    return static_cast<std::uint8_t>(*at_++);
}

std::uint64_t trace_bytes::number() {
    std::uint64_t number = 0;
    for (std::uint32_t shift = 0; shift < 64; shift += 7) {
        // The tenth byte has the number's highest bit alone.
        const std::uint8_t b = byte();
        if (shift == 63 && b > 1) {
            break;
        }
        number |= std::uint64_t{b & 0x7fu} << shift;
        if (b < 0x80) {
            return number;
        }
    }
    fail("a number of more than 64 bits");
    return 0;
}

std::string_view trace_bytes::take(std::uint64_t count) {
    if (count > left()) {
        fail("a block is longer than what is left of the file");
        return {};
    }
    const std::string_view taken(at_, count);
    at_ += count;
    return taken;
}

/// Looks for common lanes, kinds and differences first, and then appends: head, lanes, kinds, differences. A step whose
/// lanes all went equally far has one difference for all of them.
void encode_step(warp_history& history, std::span<const access> step, std::string& out) {
    std::uint32_t lanes = 0;
    bool one_kind = true;
    bool one_difference = true;
    const std::uint64_t difference = step[0].address - history.last[step[0].lane];
    for (const access& a : step) {
        lanes |= 1u << a.lane;
        one_kind = one_kind && a.kind == step[0].kind;
        one_difference = one_difference && a.address - history.last[a.lane] == difference;
    }
    const std::uint32_t kind = one_kind ? static_cast<std::uint32_t>(step[0].kind) : mixed_kinds;
    out.push_back(static_cast<char>((lanes == history.lanes ? same_lanes_bit : 0u) | kind << kind_shift |
                                    (one_difference ? common_difference_bit : 0u)));
    if (lanes != history.lanes) {
        put_number(out, lanes);
    }
    if (!one_kind) {
        encode_kinds(step, out);
    }
    if (one_difference) {
        put_number(out, zigzag(difference));
    }
    // The difference of the lane before. Lanes that go about equally far have differences of differences near 0: a byte
    // each.
    std::uint64_t before = 0;
    for (const access& a : step) {
        const std::uint64_t own = a.address - history.last[a.lane];
        if (!one_difference) {
            put_number(out, zigzag(own - before));
        }
        before = own;
        history.last[a.lane] = a.address;
    }
    history.lanes = lanes;
}

/// The bytes may come from any file, so that each number is checked before it is used. After a fault all reads return
/// 0; the loop over the lanes then still ends, because `lanes` has 32 bits.
std::size_t decode_step(warp_history& history, std::uint64_t space_bytes, trace_bytes& in, step_buffer out) {
    const std::uint8_t head = in.byte();
    if ((head & unused_bits) != 0) {
        in.fail("a step whose head has bits that mean nothing");
    }
    const std::uint32_t lanes = (head & same_lanes_bit) != 0 ? history.lanes : decode_lanes(in);
    if (in.fault() == nullptr && lanes == 0) {
        in.fail("a warp's first step has the lanes of the one before");
    }
    const auto count = static_cast<std::size_t>(std::popcount(lanes));
    // Several kinds come before the differences: they are read into `out`, and kept when the addresses are filled in.
    const std::uint32_t kind = head >> kind_shift & 3;
    if (kind == mixed_kinds) {
        decode_kinds(in, out.first(count));
    }
    const bool common = (head & common_difference_bit) != 0;
    std::uint64_t difference = common ? unzigzag(in.number()) : 0;
    std::uint32_t rest = lanes;
    for (std::size_t i = 0; i < count; ++i, rest &= rest - 1) {
        difference += common ? 0 : unzigzag(in.number());
        const auto lane = static_cast<std::uint8_t>(std::countr_zero(rest));
        const std::uint64_t address = history.last[lane] + difference;
        if (address >= space_bytes && in.fault() == nullptr) {
            in.fail("an address beyond the space");
        }
        out[i] = {address, lane, kind == mixed_kinds ? out[i].kind : static_cast<access_kind>(kind)};
        history.last[lane] = address;
    }
    history.lanes = lanes;
    return in.fault() == nullptr ? count : 0;
}

}  // namespace orchard::uvm_model
