// SPDX-License-Identifier: Apache-2.0
// Copyright the Orchard authors.

#include "runtime/trace/trace_format.hpp"

#include <array>

#include "runtime/trace/varint.hpp"

namespace orchard::detail::trace {
namespace {

constexpr std::uint8_t kind_mask = 0x1f;
constexpr std::uint8_t same_thread = 0x20;
constexpr std::uint8_t no_detail = 0x40;
constexpr std::uint8_t same_bytes = 0x80;
static_assert(event_kinds <= kind_mask + 1);

constexpr std::uint32_t polynomial = 0xedb88320u;

/// Returns the remainders of all bytes.
constexpr std::array<std::uint32_t, 256> remainders() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t r = i;
        for (int bit = 0; bit < 8; ++bit) {
            r = r >> 1 ^ ((r & 1) != 0 ? polynomial : 0);
        }
        table[i] = r;
    }
    return table;
}

void put_word(std::string& out, std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) {
        out.push_back(static_cast<char>(value >> shift));
    }
}

void put_text(std::string& out, std::string_view text) {
    put_varint(out, text.size());
    out.append(text);
}

}  // namespace

std::uint32_t crc32(std::string_view first, std::string_view second) {
    static constexpr auto table = remainders();
    std::uint32_t r = ~0u;
    for (const std::string_view text : {first, second}) {
        for (const char c : text) {
            r = table[(r ^ static_cast<std::uint8_t>(c)) & 0xff] ^ r >> 8;
        }
    }
    return ~r;
}

std::string section(std::string_view kind, std::uint32_t events, std::string_view content) {
    std::string out(kind);
    put_word(out, static_cast<std::uint32_t>(content.size()));
    put_word(out, events);
    put_word(out, crc32(out, content));
    out.append(content);
    return out;
}

std::string encode(const trace_info& info) {
    std::string out;
    put_varint(out, static_cast<std::uint64_t>(info.mode));
    put_varint(out, info.on_cuda ? 1 : 0);
    put_varint(out, info.base);
    put_varint(out, info.range);
    put_varint(out, info.capacity);
    put_varint(out, info.start_ns);
    put_text(out, info.options_json);
    return out;
}

bool decode(std::string_view content, trace_info& info) {
    varint_reader in{content};
    const std::uint64_t mode = in.varint();
    const std::uint64_t device = in.varint();
    info.mode = static_cast<event_mode>(mode);
    info.on_cuda = device == 1;
    info.base = in.varint();
    info.range = in.varint();
    info.capacity = in.varint();
    info.start_ns = in.varint();
    info.options_json = std::string(in.text());
    return !in.failed && in.rest.empty() && mode <= static_cast<std::uint64_t>(event_mode::complete) && device <= 1;
}

std::string encode(const trace_counts& counts) {
    std::string out;
    put_varint(out, counts.events);
    put_varint(out, counts.lost);
    put_varint(out, counts.lost_notes);
    put_varint(out, counts.beyond_limit);
    const trace_waits waits = counts.waits.value_or(trace_waits{});
    for (const event_waits& w : {waits.kernels, waits.host}) {
        put_varint(out, w.count);
        put_varint(out, w.ns);
    }
    put_varint(out, counts.names.size());
    for (const auto& [tag, name] : counts.names) {
        put_varint(out, tag);
        put_text(out, name);
    }
    return out;
}

bool decode(std::string_view content, std::uint32_t found, trace_counts& counts) {
    varint_reader in{content};
    counts.events = in.varint();
    counts.lost = in.varint();
    counts.lost_notes = in.varint();
    counts.beyond_limit = in.varint();
    counts.waits.reset();
    if (found >= version_with_waits) {
        trace_waits& waits = counts.waits.emplace();
        for (event_waits* const w : {&waits.kernels, &waits.host}) {
            w->count = in.varint();
            w->ns = in.varint();
        }
    }
    counts.names.clear();
    // Each name takes two bytes or more, so that a wrong number ends with the content.
    for (std::uint64_t left = in.varint(); left != 0 && !in.failed; --left) {
        const std::uint64_t tag = in.varint();
        counts.names[static_cast<std::uint32_t>(tag)] = std::string(in.text());
    }
    return !in.failed && in.rest.empty();
}

void encode(const event& e, delta_state& state, std::string& out) {
    const auto kind = static_cast<std::uint8_t>(e.kind);
    std::uint64_t& bytes = state.bytes_of[kind & kind_mask];
    const std::uint8_t flags =
        static_cast<std::uint8_t>((e.thread == state.last.thread ? same_thread : 0) | (e.detail == 0 ? no_detail : 0) |
                                  (e.bytes == bytes ? same_bytes : 0));
    out.push_back(static_cast<char>(kind | flags));
    put_varint(out, zigzag(e.time_ns - state.last.time_ns));
    put_varint(out, zigzag(e.at - state.last.at));
    if ((flags & same_bytes) == 0) {
        put_varint(out, e.bytes);
    }
    if ((flags & same_thread) == 0) {
        put_varint(out, zigzag(std::uint64_t{e.thread} - state.last.thread));
    }
    if ((flags & no_detail) == 0) {
        put_varint(out, e.detail);
    }
    bytes = e.bytes;
    state.last = e;
}

bool decode(std::string_view content, std::uint32_t events, std::vector<event>& out) {
    varint_reader in{content};
    delta_state state;
    for (std::uint32_t i = 0; i < events && !in.failed; ++i) {
        event& e = state.last;
        const std::uint8_t first = in.byte();
        const int kind = first & kind_mask;
        if (kind >= event_kinds) {
            return false;
        }
        e.kind = static_cast<event_kind>(kind);
        e.time_ns += unzigzag(in.varint());
        e.at += unzigzag(in.varint());
        if ((first & same_bytes) == 0) {
            state.bytes_of[kind] = in.varint();
        }
        e.bytes = state.bytes_of[kind];
        if ((first & same_thread) == 0) {
            e.thread += static_cast<std::uint32_t>(unzigzag(in.varint()));
        }
        const std::uint64_t detail = (first & no_detail) == 0 ? in.varint() : 0;
        if (detail >= 1u << 24) {
            return false;
        }
        e.detail = static_cast<std::uint32_t>(detail) & 0xffffffu;
        if (!in.failed) {
            out.push_back(e);
        }
    }
    return !in.failed && in.rest.empty();
}

}  // namespace orchard::detail::trace
