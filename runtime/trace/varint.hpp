// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.
#pragma once

/// Numbers of variable length, as Protocol Buffers and trace files have them: seven bits a byte, the lowest first, the
/// highest bit set in all bytes but the last. 300 is ac 02.

#include <cstdint>
#include <string>
#include <string_view>

namespace orchard::detail {

inline void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        out.push_back(static_cast<char>(value | 0x80));
    }
    out.push_back(static_cast<char>(value));
}

/// Small numbers of either sign become small numbers: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
constexpr std::uint64_t zigzag(std::uint64_t difference) {
    return difference << 1 ^ (difference >> 63 != 0 ? ~std::uint64_t{0} : 0);
}
constexpr std::uint64_t unzigzag(std::uint64_t value) {
    return value >> 1 ^ ((value & 1) != 0 ? ~std::uint64_t{0} : 0);
}

/// Reads from the front of a text. After the first number that is cut off or has more than 64 bits, `failed` is true,
/// and every number is 0.
struct varint_reader {
    std::string_view rest;
    bool failed = false;

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (rest.empty()) {
                break;
            }
            const auto byte = static_cast<std::uint8_t>(rest.front());
            rest.remove_prefix(1);
            if (shift == 63 && byte > 1) {
                break;
            }
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if (byte < 0x80) {
                return value;
            }
        }
        failed = true;
        rest = {};
        return 0;
    }
    std::uint8_t byte() {
        if (rest.empty()) {
            failed = true;
            return 0;
        }
        const auto first = static_cast<std::uint8_t>(rest.front());
        rest.remove_prefix(1);
        return first;
    }
    std::string_view text() {
        const std::uint64_t bytes = varint();
        if (bytes > rest.size()) {
            failed = true;
            rest = {};
        }
        const std::string_view found = failed ? std::string_view() : rest.substr(0, bytes);
        rest.remove_prefix(found.size());
        return found;
    }
};

}  // namespace orchard::detail
